// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/dtype.hpp"

#include "formats/internal/safetensors.hpp"

namespace cairn::formats {

/// Where data starts in the files that Cairn writes, and large tensors too: safe for direct I/O.
inline constexpr std::uint64_t kSafetensorsAlignmentBytes = 4096;

/// A tensor to be written. One of complex128 is written as F64 with one more axis of two, real and imaginary; shape
/// and offsets do not count that axis.
///
/// Ownership: name and shape must stay valid during the call.
struct TensorSpec {
  std::string_view name;
  DType dtype{};
  std::span<const std::uint64_t> shape;
  /// Of a slice: where its first element lies in the whole array. Empty: zeros.
  std::span<const std::uint64_t> offsets = {};
  /// A further slice of an array of which the file holds one already. Where it lies is not said, which marks the
  /// file: readers that know slices by these offsets only refuse it, where they would miss a part of the array
  /// without a word.
  bool is_further = false;
};

/// Holds what plans of files need to know of a tensor: as many bytes for each, however long its name is.
struct TensorMeasure {
  std::uint64_t size_bytes = 0;
  std::uint32_t header_bytes = 0;  ///< Its entry in a header, without the digits of its place in the file.
  DType dtype{};
};

/// A file that is planned, not yet written: how large its header is, and where the bytes of each tensor go.
///
/// Invariant: header_bytes is a multiple of 4096; the tensors leave no hole behind it and end at file_size.
struct SafetensorsLayout {
  std::size_t first_spec = 0;  ///< The file holds the specs [first_spec, first_spec + offsets.size()).
  std::uint64_t header_bytes = 0;
  std::vector<std::uint64_t> offsets;  ///< Of each spec, in the order given: its first byte in the file.
  std::vector<std::uint32_t> order;    ///< The specs (counted from first_spec) in the order of their bytes.
  std::uint64_t file_size = 0;
  bool has_slices = false;  ///< Its header says where in their arrays the tensors lie.
};

/// Looks at one tensor that is to be planned.
///
/// Errors: Errc::invalid_argument when the name is not UTF-8 or is reserved, the size overflows, its entry exceeds the
///         limit of headers, or an array of complex128 has as many dimensions as a tensor may have.
[[nodiscard]] TensorMeasure measure_tensor(const TensorSpec& spec);

/// Returns what a tensor adds to the header of a file that has slices, be it one or not; a further slice adds
/// nothing.
[[nodiscard]] std::uint64_t offset_entry_bytes(const TensorSpec& spec);

/// Plans as few files as the limit of headers allows, each holding a run of the tensors; at least one. That names
/// differ is the caller's to see to.
///
/// Tensors whose size is a multiple of 4096 (but not 0) come first, in the order given, each then aligned to 4096;
/// the others follow by falling element size, each aligned to its own.
/// `has_slices`: some are slices; then the header_bytes of all include offset_entry_bytes.
/// Errors: Errc::invalid_argument when a file or the header of a single tensor would be too large.
/// Source: docs/format.md, "Data files".
[[nodiscard]] std::vector<SafetensorsLayout> plan_safetensors(
    std::span<const TensorMeasure> tensors, std::uint64_t max_header_bytes = kMaxSafetensorsHeaderBytes,
    bool has_slices = false);

/// The first bytes of a planned file: length, JSON, padding. `specs` are those of the file's own tensors: as many as
/// it has offsets, from `first_spec` on of those that were planned.
[[nodiscard]] std::pmr::string safetensors_header(
    std::span<const TensorSpec> specs, const SafetensorsLayout& layout,
    std::pmr::memory_resource* memory = std::pmr::get_default_resource());

}  // namespace cairn::formats
