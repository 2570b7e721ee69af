// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/array_difference.hpp"
#include "cli/checkpoint_view.hpp"

namespace cairn::cli {

/// In which way two checkpoints differ somewhere.
enum class Aspect : std::uint8_t {
  only_in_a,
  only_in_b,
  handler,   ///< Of a checkpointable: the two cannot be compared further.
  metadata,  ///< What the caller has saved about the checkpoint.
  kind,      ///< Of a node: an array here, a string there.
  dtype,
  shape,
  value,
  file,  ///< The bytes of a file that this tool cannot read.
};

/// "only in a", "handler", …
[[nodiscard]] std::string_view name(Aspect aspect) noexcept;

struct Difference {
  Aspect aspect = Aspect::value;
  std::string name;  ///< The checkpointable, and behind a slash what in it.
  std::string a;     ///< What each of them has there, for people; may be empty.
  std::string b;
  std::optional<ArrayDifference> array;  ///< Of values of arrays.
};

struct CompareOptions {
  CompareOptions() = default;

  bool compares_values = true;
  std::optional<double> tolerance;  ///< Nothing: bit by bit.
  std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)> progress;
};

struct Comparison {
  std::vector<Difference> differences;
  std::uint64_t checkpointables = 0;  ///< That both have.
  std::uint64_t arrays = 0;           ///< That both have.
  std::uint64_t compared_bytes = 0;   ///< Of arrays, on each side.
  std::uint64_t same_files_bytes =
      0;  ///< Of checkpointables whose files have the same hashes: none was read.
};

/// Compares two checkpoints: first what they say of themselves, then values.
///
/// Checkpointables whose files have the same sizes and XXH3-128 hashes are the same and are not read. Arrays
/// are read in batches: memory for two of them, or twice the largest array.
/// Errors: whatever keeps one of them from being read.
[[nodiscard]] Comparison compare(const CheckpointView& a, const CheckpointView& b,
                                 const CompareOptions& options);

/// The differences of two JSON documents, below `title`.
void compare_json(const std::string& title, Aspect aspect, std::string_view a, std::string_view b,
                  std::vector<Difference>& differences);

}  // namespace cairn::cli
