// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <cerrno>

#include "cairn/base/error.hpp"

#include "io/internal/check.hpp"
#include "io/internal/file.hpp"
#include "proto/chunk_records.hpp"

namespace cairn::proto {
namespace {

[[noreturn]] void refuse() {
  throw Error(
      Errc::feature_missing,
      "this library was built without files of records: HighwayHash (libhighwayhash-dev) was not there");
}

}  // namespace

std::unique_ptr<ChunkRecords> open_records(io::Syscalls& syscalls, const std::filesystem::path& path,
                                           std::uint64_t /*most_record_bytes*/) {
  io::require_path(path);
  io::FileStatus status;
  const int result = io::uninterrupted([&] { return syscalls.status_at(AT_FDCWD, path.c_str(), status); });
  if (result == -ENOENT) {
    return nullptr;
  }
  io::require(result, "stat", path);
  refuse();
}

std::unique_ptr<ChunkRecords> open_records(std::string_view /*bytes*/, std::uint64_t /*most_record_bytes*/) {
  refuse();
}

void write_records(io::Syscalls& /*syscalls*/, const std::filesystem::path& /*path*/,
                   const SplitResult& /*split*/, const WriteOptions& /*options*/) {
  refuse();
}

void write_records(std::string& /*bytes*/, const SplitResult& /*split*/, const WriteOptions& /*options*/) {
  refuse();
}

}  // namespace cairn::proto
