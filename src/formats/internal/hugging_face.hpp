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

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"

#include "formats/internal/safetensors.hpp"

namespace cairn::formats {

/// The name of the file that says which file of a folder holds which tensor.
inline constexpr std::string_view kHuggingFaceIndexName = "model.safetensors.index.json";

/// What a `model.safetensors.index.json` says.
struct HuggingFaceIndex {
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

/// A part of a tensor: its bytes [begin, end) in a file hold `box`, dense and row-major.
struct TensorSlice {
  std::size_t file = 0;  ///< Which of the files that gather_tensors was given.
  Box box;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// A tensor put together from the files of a folder.
///
/// Invariant: the boxes tile the shape, and none is empty unless the tensor is.
struct FolderTensor {
  std::string name;
  DType dtype{};
  Shape shape;
  std::vector<TensorSlice> slices;  ///< One or more.
};

/// Finds the tensors of a folder of safetensors files, sorted by name.
///
/// Without an index every tensor of every file counts. With one, exactly those that it names, each from the file that
/// it names. A tensor that `DCP_SHARDING_INFO` gives an offset is a slice; the format does not record how large
/// the whole is, so the largest end over all slices is taken and a missing last slice cannot be noticed.
///
/// Errors: Errc::overlapping_shards, naming both files, when they hold the same part of a tensor;
///         Errc::incomplete_shards when a part is missing; Errc::malformed_metadata when slices of a tensor disagree, `DCP_SHARDING_INFO` is damaged, or
///         the index names what is not there.
[[nodiscard]] std::vector<FolderTensor> gather_tensors(std::span<const FolderFile> files,
                                                       const HuggingFaceIndex* index = nullptr);

}  // namespace cairn::formats
