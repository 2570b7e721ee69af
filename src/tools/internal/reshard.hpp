// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cairn/sharding/policy.hpp"

namespace cairn::tools {

/// A file that was written.
struct WrittenFile {
  std::string name;
  std::size_t parts = 0;
  std::uint64_t bytes = 0;
};

/// A checkpointable whose arrays were cut anew.
struct RecutItem {
  std::string name;
  std::vector<WrittenFile> files;
  std::vector<std::string> left_out;  ///< What another program has saved and no value can be, and why.
  std::vector<std::string> notes;     ///< What a load tells of the files of another program.
};

using Progress = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

/// Makes a checkpoint at `target` of the one at `source`: the same values, but its arrays in the files that the policy
/// asks for; with a name, those of that checkpointable only. Returns what was cut, when the target is durable. Blocks.
///
/// Everything else is carried over byte by byte. What is read is verified. The target is committed as a save is.
///
/// Files of another program become a checkpoint of one tree, `state`, with the annotation `cairn.made_of`: the path and
/// the layout; a folder of Megatron-Core's becomes a state dict (kStateDictId), with its common state and objects.
/// `layout` is that by which they are read; empty: the one that recognises them.
/// `progress`, where it is given, is told how many bytes have been written, of about how many; on the calling thread,
/// once more before the target gets its name. What it throws stops the call, and nothing is left.
/// Memory: two batches of 64 MiB, and the index.
/// Errors: Errc::not_found, Errc::not_committed (the source, the name); Errc::invalid_argument when nothing has arrays;
///         Errc::already_exists (the target); Errc::cancelled when the source was replaced meanwhile; those of the
///         policy, of a damaged source, and of the system.
[[nodiscard]] std::vector<RecutItem> reshard(const std::filesystem::path& source,
                                             const std::filesystem::path& target,
                                             const std::shared_ptr<const ShardingPolicy>& policy,
                                             const std::string& name = {}, const std::string& layout = {},
                                             const Progress& progress = {});

}  // namespace cairn::tools
