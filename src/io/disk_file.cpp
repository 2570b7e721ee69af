// SPDX-License-Identifier: Apache-2.0
#include "io/internal/disk_file.hpp"

#include <fcntl.h>
#include <system_error>

#include <utility>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/direct.hpp"
#include "io/internal/page_cache.hpp"
#include "io/internal/transfer.hpp"

namespace cairn::io {

// outlives: the engine outlives the file.
DiskFile::DiskFile(Engine& engine, std::filesystem::path path, std::uint64_t size_bytes, bool use_direct,
                   const Open& open, bool is_in_memory)
    : engine_(engine),
      path_(std::move(path)),
      buffered_(open(0)),
      is_cached_(is_in_memory || seems_cached(buffered_.fd(), size_bytes)) {
  if (!is_cached_ && use_direct) {
    open_direct(open);
  }
}

void DiskFile::open_direct(const Open& open) {
  refusal_ = io::why_not_direct(buffered_);
  if (!refusal_.empty()) {
    return;
  }
  try {
    direct_ = open(O_DIRECT);
    is_direct_ = true;
  } catch (const Error& error) {
    if (error.code().category() != std::system_category()) {
      throw;
    }
    CAIRN_PROBE("io.read_file_not_opened_direct");
    refusal_ = io::why_not_direct(error.code());
  }
}

std::size_t DiskFile::unit_bytes() const noexcept {
  return is_direct_ ? kDirectBytes : 1;
}

void DiskFile::read_now(std::uint64_t offset, std::span<std::byte> data) const {
  read_all(buffered_, data, offset, path_);
}

// outlives: the caller keeps the file and the data until the task has finished.
Background<> DiskFile::read(std::uint64_t offset, std::span<std::byte> data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data.data());
  if (is_direct_ && (address | data.size() | offset) % kDirectBytes == 0) {
    CAIRN_ASSERT(direct_.is_open(), "a file that is read past the page cache has a descriptor for that");
    try {
      co_await read_exact(engine_, direct_.fd(), data, offset, path_, kDirectBytes);
      direct_bytes_ += data.size();
      co_return;
    } catch (const Error& error) {
      if (!is_direct_refusal(error.code())) {
        throw;
      }
      CAIRN_PROBE("io.direct_read_refused");
      is_direct_ = false;
      refusal_ = io::why_not_direct(error.code());
    }
  }
  co_await read_exact(engine_, buffered_.fd(), data, offset, path_);
}

}  // namespace cairn::io
