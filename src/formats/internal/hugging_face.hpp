// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/formats/foreign_catalogue.hpp"

#include "formats/internal/safetensors.hpp"

namespace cairn::formats {

/// The name of the file that says which file of a folder holds which tensor, as export writes it.
inline constexpr std::string_view kHuggingFaceIndexName = "model.safetensors.index.json";

/// Returns whether a file of that name is such an index: whatever the model is called
/// (`diffusion_pytorch_model.safetensors.index.json`), and of whatever variant
/// (`model.safetensors.index.fp16.json`).
[[nodiscard]] bool is_hugging_face_index(std::string_view file) noexcept;

/// Finds the file with the whole model that transformers reads where files that list shards lie next to it; empty where
/// the lists are followed. `model.safetensors` goes before its own list; of another name a file goes before the lists
/// of its variants (`x.safetensors` before `x.safetensors.index.fp16.json` and `x.fp16.safetensors.index.json`), as
/// diffusers has it.
[[nodiscard]] std::string whole_model_of(std::span<const std::string> files,
                                         std::span<const std::string> lists);

/// Shards that are not among the files of a folder.
struct MissingShards {
  std::string present;             ///< One that is there, by whose name the others are known.
  std::uint64_t total = 0;         ///< How many there should be.
  std::uint64_t missing = 0;       ///< How many of them are not there.
  std::vector<std::string> names;  ///< Of the first of those, at most four.
};

/// Looks for `model-00001-of-00003.safetensors` without the other two among names of files; nothing where all are
/// there. What the ranks of a job have written (`shard-00002-model-00001-of-00003.safetensors`) counts together: a
/// rank has no file where it holds nothing.
[[nodiscard]] std::optional<MissingShards> find_missing_shards(std::span<const std::string> files);

/// Holds what a `model.safetensors.index.json` says.
struct HuggingFaceIndex {
  std::string path;  ///< For errors.
  /// Tensor name to file name. Invariant: each file name is one plain component.
  std::map<std::string, std::string, std::less<>> weight_map;
  /// `metadata.total_size`, in bytes, where it is given as an integer. Writers disagree on it: a hint.
  std::optional<std::uint64_t> total_size;

  /// The files that the map names, sorted.
  [[nodiscard]] std::vector<std::string> files() const;
};

/// Reads the text of a `model.safetensors.index.json`. `path` is used in errors only.
///
/// Keys other than `weight_map` and `metadata` are checked as JSON and ignored.
/// Errors: Errc::malformed_metadata, naming the byte, or the tensor and its file.
[[nodiscard]] HuggingFaceIndex parse_hugging_face_index(std::string_view text, std::string_view path);

/// A file of a folder whose header has been read.
struct FolderFile {
  std::string name;  ///< As in HuggingFaceIndex::weight_map.
  SafetensorsHeader header;
};

/// Finds the tensors of a folder of safetensors files, sorted by name: that stands in the place of a path. Boxes tile
/// their shapes, and none is empty unless the tensor is; there is one at least. Files are numbered as they are given.
///
/// Without an index every tensor of every file counts. With one, exactly those that it names, each from the file that
/// it names. A tensor that `DCP_SHARDING_INFO` gives an offset is a slice; the format does not record how large
/// the whole is, so the largest end over all slices is taken and a missing last slice cannot be noticed.
///
/// Errors: Errc::overlapping_shards, naming both files, when they hold the same part of a tensor;
///         Errc::incomplete_shards when a part is missing; Errc::malformed_metadata when slices of a tensor disagree,
///         `DCP_SHARDING_INFO` is damaged, or the index names what is not there.
[[nodiscard]] std::vector<ForeignArray> gather_tensors(std::span<const FolderFile> files,
                                                       const HuggingFaceIndex* index = nullptr);

}  // namespace cairn::formats
