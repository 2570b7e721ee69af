// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"

#include "formats/internal/safetensors_layout.hpp"

namespace cairn::cli {

/// An array on its way to other programs.
struct ExportedArray {
  std::string path;  ///< As the checkpoint calls it.
  std::string name;  ///< In the exported files.
  DType dtype{};
  Shape shape;
  std::uint64_t bytes = 0;
};

/// A safetensors file that is planned, and the arrays that go into it: those from `first` on, as many as its layout
/// has.
struct ExportedFile {
  std::string name;
  std::size_t first = 0;
  formats::SafetensorsLayout layout;
};

/// Holds what an export takes out of a checkpoint.
struct ExportPlan {
  std::string item;  ///< The checkpointable.
  std::vector<ExportedArray> arrays;
  std::vector<ExportedFile> files;
  std::vector<std::string> left_out;  ///< Values of it, which are not arrays.
  std::vector<std::string> aliases;   ///< Further names of arrays that were left out.
};

struct ExportOptions {
  ExportOptions() = default;

  std::string item;                  ///< Empty: the only one that has arrays.
  std::string separator = "/";       ///< Between the keys of a path, in the names that others see.
  bool is_folder = false;            ///< As Hugging Face has it: files with an index; else a single file.
  std::uint64_t max_file_bytes = 0;  ///< Of a folder's files, unless one array is larger.
  bool first_names_only = false;     ///< Else an array is written under each of its names.
};

/// Decides what goes into which file.
///
/// Errors: as checkpointables_metadata; Errc::invalid_argument, which names the culprit: there are several
///         checkpointables with arrays, or none; two arrays would have one name; the names do not fit into the header
///         of a single file.
[[nodiscard]] ExportPlan plan_export(const std::filesystem::path& source, const ExportOptions& options);

}  // namespace cairn::cli
