// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cairn/api/context.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/array_store/file_layout.hpp"
#include "cairn/core/load.hpp"
#include "cairn/handlers/renames.hpp"

namespace cairn {

struct ExportOptions {
  ExportOptions() = default;

  /// The checkpointable whose arrays are exported. Empty: those of the only checkpointable that has arrays.
  std::string checkpointable;
  /// Take what one of these patterns matches, and nothing else; they are those of ArrayRules, and each has to match
  /// something. Empty: all.
  std::vector<std::string> only;
  /// The dtype that arrays are cast to, also where that loses values; as AbstractTree::set_dtype, so that a floating
  /// dtype leaves integers and booleans alone. Default: as they are stored.
  std::optional<DType> dtype;
  /// Other paths for the arrays, before the separator joins their keys. Each pattern has to match one.
  Renames rename;
  /// Stands between the keys of a path, in the names that other programs see.
  std::string separator = "/";
  /// Make a folder as Hugging Face has it, of files and an index when there are several. Default: a single file.
  bool is_folder = false;
  /// Most bytes of arrays in a file of a folder, unless one array is larger.
  std::uint64_t max_file_bytes = std::uint64_t{5} << 30;
  /// Write an array with several names once, under its first. Default: under each, with its bytes.
  bool first_names_only = false;
  /// Export what can be an array although another program has saved more that has no place in a tree: sparse and
  /// quantised tensors, objects of its classes. ExportPlan::notes name it. Default: it is an error that names it.
  bool leave_out = false;
  /// Layouts of the caller's by which files of other programs were described.
  array_store::FileLayouts layouts;
  /// Told how many bytes of arrays have been written, of how many; on the calling thread, once more before the target
  /// gets its name. What it throws stops the export. Null: nobody is.
  std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)> progress;
};

/// An array on its way to other programs.
struct ExportedArray {
  std::string path;  ///< As the checkpoint calls it.
  std::string name;  ///< In the exported files.
  DType dtype{};     ///< With which it leaves.
  Shape shape;
  std::uint64_t bytes = 0;
};

/// A file that is written, and which arrays it holds: [first_array, first_array + arrays) of the plan.
struct ExportedFile {
  std::string name;
  std::size_t first_array = 0;
  std::size_t arrays = 0;
  std::uint64_t bytes = 0;  ///< With its header.
};

/// Says what an export takes out of a checkpoint, and into which files.
struct ExportPlan {
  std::string checkpointable;
  std::vector<ExportedArray> arrays;
  std::vector<ExportedFile> files;
  /// Paths of values that are not arrays, and of objects. Of files of torch: of what those cannot have, with its kind.
  std::vector<std::string> left_out;
  std::vector<std::string> aliases;  ///< Further names of arrays, where they were left out.
  /// What a load of files of another program tells in LoadResult::problems: what has no place in a tree, and what
  /// should be known of the files.
  std::vector<std::string> notes;
};

/// Decides which arrays go into which safetensors file, and writes nothing. The name of a single file is empty.
///
/// Errors: Errc::invalid_argument, naming the culprit: several checkpointables have arrays and none is named, or none
///         has any; two arrays would have one name, or one that safetensors keeps for itself; a rename or a pattern of
///         `only` is wrong, or matches nothing, or names what is not an array; the names do not fit into the header of
///         a single file. Errc::structure_mismatch, naming what another program has saved and has no place in a tree,
///         without ExportOptions::leave_out. What keeps the checkpointable from being described.
[[nodiscard]] ExportPlan plan_export(const CheckpointMetadata& metadata, const ExportOptions& options = {});

/// Writes the arrays of a checkpointable, whole, to a safetensors file or a folder of them, for programs that know
/// nothing of Cairn. Returns what was written, when it is on the disk. Blocks.
///
/// Arrays that several processes have saved in parts are put together. What is read is verified. The target gets its
/// name when all is written; a program that is killed before leaves a directory `.tmp-…` next to it, as a save does,
/// and recovery removes it.
/// Memory:  two batches of 64 MiB.
/// Errors:  as plan_export, ArrayReader::start and ArrayReading::wait; Errc::already_exists when the target does;
///          Errc::invalid_argument when it lies in a checkpoint, or in the folder that is read; OS errors. Nothing is
///          left behind.
/// Example: cairn::export_arrays("run/100", "weights.safetensors");
ExportPlan export_arrays(const std::filesystem::path& from, const std::filesystem::path& target,
                         const ExportOptions& options = {}, const Context& context = default_context());
/// The same for a checkpoint that was described before.
ExportPlan export_arrays(const CheckpointMetadata& from, const std::filesystem::path& target,
                         const ExportOptions& options = {});

}  // namespace cairn
