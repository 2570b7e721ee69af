// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/error.hpp"

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
  const std::filesystem::path parent = path.parent_path();
  const io::Directory directory = io::Directory::enter(syscalls, parent.empty() ? "." : parent);
  if (!directory.status(path.filename().native())) {
    return nullptr;
  }
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
