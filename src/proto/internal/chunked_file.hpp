// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "cairn/proto/chunked_file.hpp"
#include "cairn/proto/splitter.hpp"

#include "io/internal/syscalls.hpp"

namespace cairn::proto {

/// ComposableSplitter::write and `read` with system calls of one's own.
Written write_message(io::Syscalls& syscalls, const SplitResult& split, const std::filesystem::path& prefix,
                      const WriteOptions& options, std::int32_t splitter_version = 1);
Merged read_message(io::Syscalls& syscalls, const std::filesystem::path& prefix,
                    google::protobuf::Message& out, const MergeOptions& options);

}  // namespace cairn::proto
