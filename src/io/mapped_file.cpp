// SPDX-License-Identifier: Apache-2.0
#include "io/internal/mapped_file.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>

#include <cerrno>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/aligned_memory.hpp"
#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"

namespace cairn::io {
namespace {

template <class Byte>
struct Mapping {
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  ~Mapping() {
    if (!bytes.empty()) {
      ::munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
    }
  }

  std::span<Byte> bytes;
};

std::shared_ptr<const std::span<const std::byte>> map_as(const FileHandle& file, std::uint64_t bytes,
                                                         const std::filesystem::path& path, int sharing) {
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0) {
    throw_errno(errno, "stat", path);
  }
  if (static_cast<std::uint64_t>(status.st_size) < bytes) {
    throw Error(Errc::io_failure,
                fmt::format("{} has {} bytes, not {}", path.string(), status.st_size, bytes));
  }
  const auto mapping = std::make_shared<Mapping<const std::byte>>();
  if (bytes != 0) {
    const auto size = static_cast<std::size_t>(bytes);
    const std::byte* const memory = map_aligned(size, PROT_READ, sharing, file.fd());
    if (memory == nullptr) {
      throw_errno(errno, "mmap", path);
    }
    mapping->bytes = {memory, size};
  }
  return {mapping, &mapping->bytes};
}

}  // namespace

std::shared_ptr<const std::span<const std::byte>> map_file(const FileHandle& file, std::uint64_t bytes,
                                                           const std::filesystem::path& path) {
  return map_as(file, bytes, path, MAP_PRIVATE);
}

std::shared_ptr<const std::span<const std::byte>> map_live_file(const FileHandle& file, std::uint64_t bytes,
                                                                const std::filesystem::path& path) {
  return map_as(file, bytes, path, MAP_SHARED);
}

std::shared_ptr<const std::span<std::byte>> map_to_fill(const FileHandle& file, std::uint64_t bytes,
                                                        std::string& refusal) {
  const auto mapping = std::make_shared<Mapping<std::byte>>();
  const auto size = static_cast<std::size_t>(bytes);
  std::byte* memory = nullptr;
  if (const int result = file.syscalls().map(file.fd(), size, memory); result < 0) {
    CAIRN_PROBE("io.file_cannot_be_mapped");
    refusal =
        fmt::format("it cannot be mapped ({})", std::error_code(-result, std::system_category()).message());
    return nullptr;
  }
  CAIRN_ASSERT(memory != nullptr, "a mapping that was made has an address");
  mapping->bytes = {memory, size};
  return {mapping, &mapping->bytes};
}

}  // namespace cairn::io
