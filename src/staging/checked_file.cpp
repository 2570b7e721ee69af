// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/checked_file.hpp"

#include <fcntl.h>
#include <system_error>

#include <tuple>
#include <utility>

#include "cairn/base/error.hpp"

#include "io/internal/direct.hpp"
#include "io/internal/page_cache.hpp"
#include "io/internal/transfer.hpp"

namespace cairn::staging {
namespace {

/// Below this, opening a file a second time costs more than passing the page cache by saves.
constexpr std::uint64_t kMinDirectBytes = std::uint64_t{8} << 20;

/// The same where less than this is read, however large the file is.
constexpr std::uint64_t kMinDirectRead = std::uint64_t{1} << 20;

}  // namespace

CheckedFile::CheckedFile(DataPlane& plane, FileToRead file, std::uint64_t asked_bytes)
    : plane_(plane), file_(std::move(file)), asked_bytes_(asked_bytes) {}

CheckedFile::~CheckedFile() {
  if (buffered_.is_open()) {
    plane_.drop_later(std::tuple(std::move(place_), std::move(buffered_), std::move(direct_)));
  }
}

Awaitable<> CheckedFile::acquire_descriptors() {
  place_ = co_await plane_.files.acquire(wants_direct() ? 2 : 1);
}

void CheckedFile::open() {
  try {
    open_plainly();
  } catch (const Error& error) {
    throw Error(error.code(), error.detail() + file_.origin);
  }
}

void CheckedFile::open_plainly() {
  buffered_ = file_.open(0);
  if (file_.digest) {
    digest_ = file_.digest();
  }
  is_cached_ = io::seems_cached(buffered_.fd(), file_.size_bytes);
  if (!is_cached_ && wants_direct()) {
    open_direct();
  }
}

void CheckedFile::close() {
  buffered_ = io::FileHandle();
  direct_ = io::FileHandle();
  place_.release();
}

void CheckedFile::open_direct() {
  std::string why = io::why_not_direct(buffered_);
  if (why.empty()) {
    try {
      direct_ = file_.open(O_DIRECT);
    } catch (const Error& error) {
      if (error.code().category() != std::system_category()) {
        throw;  // Another file than the one that was opened before.
      }
      why = io::why_not_direct(error.code());
    }
  }
  is_direct_ = direct_.is_open();
  if (!is_direct_) {
    refuse_direct(why);
  }
}

void CheckedFile::refuse_direct(const std::string& why) {
  is_direct_ = false;
  plane_.meter.add_fallback(why + "; read through the page cache", file_.name);
}

bool CheckedFile::wants_direct() const noexcept {
  return file_.size_bytes >= kMinDirectBytes && asked_bytes_ >= kMinDirectRead;
}

std::uint64_t CheckedFile::unit_bytes() const noexcept {
  return digest_ ? io::kChunkBytes : is_direct_ ? io::kDirectBytes : 1;
}

bool CheckedFile::is_direct(std::uint64_t offset_bytes, std::size_t bytes) const noexcept {
  return is_direct_ && bytes % io::kDirectBytes == 0 && offset_bytes % io::kDirectBytes == 0;
}

bool CheckedFile::is_direct(std::uint64_t offset_bytes, std::span<const std::byte> data) const noexcept {
  return is_direct(offset_bytes, data.size()) &&
         reinterpret_cast<std::uintptr_t>(data.data()) % io::kDirectBytes == 0;
}

// outlives: `data` is the caller's, who awaits this
Awaitable<> CheckedFile::read(std::uint64_t offset_bytes, std::span<std::byte> data) {
  const async::Permit turn = co_await plane_.transfers.acquire();
  const observe::TransferSpan span(plane_.meter, Work::read, file_.name, offset_bytes, data.size());
  bool is_read = false;
  if (is_direct(offset_bytes, data)) {
    try {
      co_await io::read_exact(plane_.engine, direct_.fd(), data, offset_bytes, file_.path, io::kDirectBytes);
      plane_.meter.add_direct_bytes(data.size());
      is_read = true;
    } catch (const Error& error) {
      if (!io::is_direct_refusal(error.code())) {
        throw;
      }
      if (is_direct_) {  // Else another coroutine has met it before.
        refuse_direct(io::why_not_direct(error.code()));
      }
    }
  }
  if (!is_read) {
    co_await io::read_exact(plane_.engine, buffered_.fd(), data, offset_bytes, file_.path);
  }
  plane_.read_bytes += data.size();
}

void CheckedFile::read_now(std::uint64_t offset_bytes, std::span<std::byte> data) const {
  {
    const observe::WorkSpan span(plane_.meter, Work::read, file_.name, offset_bytes, data.size());
    io::read_all(buffered_, data, offset_bytes, file_.path);
  }
  plane_.cached_bytes += data.size();
  plane_.read_bytes += data.size();
}

void CheckedFile::verify(std::uint64_t offset_bytes, std::span<const std::byte> data) const {
  if (!digest_) {
    return;
  }
  const observe::WorkSpan span(plane_.meter, Work::verify, file_.name, offset_bytes, data.size());
  try {
    io::verify_chunks(file_.path.string(), offset_bytes, data, *digest_);
  } catch (const Error& error) {
    throw Error(error.code(), error.detail() + file_.origin);
  }
}

}  // namespace cairn::staging
