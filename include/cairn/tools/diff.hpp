// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/api/context.hpp"
#include "cairn/array_store/file_layout.hpp"
#include "cairn/core/load.hpp"
#include "cairn/handlers/renames.hpp"

namespace cairn {

/// In what two arrays of one dtype and shape differ.
struct ArrayDifference {
  std::uint64_t elements = 0;
  std::uint64_t differing = 0;
  double largest = 0;    ///< Of the distances between elements that differ, as far as they are numbers.
  bool has_nan = false;  ///< Some element is NaN in one of the two only.
};

/// One place in which two checkpoints differ.
struct Difference {
  enum class Aspect : std::uint8_t {
    only_in_a,
    only_in_b,
    handler,   ///< Of a checkpointable: the two cannot be compared further.
    metadata,  ///< What the caller has saved about the checkpoint.
    kind,      ///< Of a node: an array here, a string there.
    dtype,
    shape,
    value,
    file,  ///< The bytes of a file that no handler describes.
  };

  Aspect aspect = Aspect::value;
  std::string name;  ///< The checkpointable, and behind a slash what in it.
  std::string a;     ///< What each of them has there, for people; may be empty.
  std::string b;
  std::optional<ArrayDifference> array;  ///< Of values of arrays.
};

/// Returns what people call an aspect: "only in A", "handler", …
[[nodiscard]] std::string_view name(Difference::Aspect aspect) noexcept;

struct DiffOptions {
  DiffOptions() = default;

  /// Layouts of the caller's by which files of other programs were described.
  array_store::FileLayouts layouts;

  /// Other paths for the leaves of both, by which they are then compared. Each pattern has to match one.
  Renames rename;
  /// Compare values, too, which reads all arrays of equal form whose files have other hashes.
  bool compares_values = true;
  /// How far numbers may lie apart that count as equal, and NaN then equals NaN: in trees and arrays, not in JSON.
  /// Nothing: bit by bit.
  std::optional<double> tolerance;
  /// As `tolerance`, in parts of the larger of the two: 0.001 is a thousandth. Equal is what either of them allows.
  double relative_tolerance = 0;
  /// Read also what has the same hashes in both, and compare its bytes: each read is compared with the hashes, too.
  bool reads_same_files = false;
  /// Told how many bytes of arrays have been compared, of how many; on the calling thread. Null: nobody is.
  std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)> progress;
};

/// The outcome of comparing two checkpoints; they are equal when there are no differences.
struct CheckpointDiff {
  std::vector<Difference> differences;
  std::uint64_t checkpointables = 0;  ///< That both have.
  std::uint64_t arrays = 0;           ///< That both have.
  std::uint64_t compared_bytes = 0;   ///< Of arrays, in each of the two.
  std::uint64_t same_files_bytes =
      0;                         ///< Of checkpointables whose files have the same hashes: none was read.
  bool has_read_values = false;  ///< Whether more than names, types, shapes and hashes was compared.
  /// What is not compared of files of other programs, with the path of the files: what has no place in a tree, and
  /// objects that both have, whose kind is not known before they are read.
  std::vector<std::string> notes;
};

/// Compares two checkpoints: first what they say of themselves, then values. Blocks.
///
/// Either may also be the directory of a checkpointable, or a file or folder of other programs; these are compared
/// with any other, whatever their names. Checkpointables whose files have the same sizes and XXH3-128 hashes are equal
/// and are not read, unless DiffOptions::reads_same_files asks for it; `verify` says whether the disk still has those
/// bytes. What is read is verified.
/// Memory:  of each of the two, two batches of 64 MiB.
/// Errors:  as checkpointables_metadata; what keeps one of them from being read; Errc::invalid_argument for a rename
///          that is wrong, or matches nothing.
/// Example: for (const auto& each : cairn::diff_checkpoints("run/100", "run/200").differences) …
[[nodiscard]] CheckpointDiff diff_checkpoints(const std::filesystem::path& a, const std::filesystem::path& b,
                                              const DiffOptions& options = {},
                                              const Context& context = default_context());
/// The same for what was asked of two checkpoints before: of those checkpointables only, with those handlers.
[[nodiscard]] CheckpointDiff diff_checkpoints(CheckpointMetadata a, CheckpointMetadata b,
                                              const DiffOptions& options = {});

}  // namespace cairn
