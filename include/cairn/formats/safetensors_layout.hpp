// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/formats/safetensors.hpp"

namespace cairn::formats {

/// Where data starts in the files that Cairn writes, and large tensors too: safe for direct I/O.
inline constexpr std::uint64_t kSafetensorsAlignmentBytes = 4096;

/// A tensor to be written.
///
/// Ownership: name, shape and offsets must stay valid during the call that plans.
struct TensorSpec {
  std::string_view name;
  DType dtype{};
  std::span<const std::uint64_t> shape;
  /// Where the tensor lies in the array that it is a slice of, one offset a dimension; nothing for a whole array.
  std::optional<std::span<const std::uint64_t>> saved_offsets;
};

/// What plans of files need to know of a tensor: as many bytes for each, however long its name is.
struct TensorMeasure {
  std::uint64_t size_bytes = 0;
  std::uint32_t header_bytes = 0;  ///< Its entry in a header, without the digits of its place in the file.
  DType dtype{};
};

struct SafetensorsOptions {
  SafetensorsOptions() = default;

  /// Pairs of `__metadata__` beside `format`, whose value is always "pt". Must not name `format`, `DCP_VERSION` or
  /// `DCP_SHARDING_INFO`.
  std::vector<std::pair<std::string, std::string>> metadata;
  /// Most tensors in one file, for plan_safetensors_files; 0 means no limit.
  std::size_t max_tensors_per_file = 0;
  /// Most header bytes in one file; above the format's own limit nobody could read it.
  std::uint64_t max_header_bytes = kMaxSafetensorsHeaderBytes;
  /// Leave SafetensorsLayout::header empty, which is most of the work; safetensors_header() makes it later.
  bool defers_header = false;
};

/// A file that is planned, not yet written: its header, and where the bytes of each tensor go.
///
/// Invariant: header_bytes is a multiple of 4096; the tensors leave no hole behind it and end at file_size.
struct SafetensorsLayout {
  std::size_t first_spec = 0;  ///< The file holds the specs [first_spec, first_spec + offsets.size()).
  std::uint64_t header_bytes = 0;
  std::string header;  ///< The first bytes of the file: length, JSON, padding; see defers_header.
  std::vector<std::uint64_t> offsets;  ///< Of each spec, in the order given: its first byte in the file.
  std::vector<std::uint32_t> order;    ///< The specs (counted from first_spec) in the order of their bytes.
  std::uint64_t file_size = 0;
};

/// Plans one file that holds all `specs`.
///
/// Tensors whose size is a multiple of 4096 (but not 0) come first, in the order given, each then aligned to 4096;
/// the others follow by falling element size, each aligned to its own. When a spec has saved_offsets the file says
/// so for every tensor, as PyTorch's distributed checkpoints do.
///
/// Errors: Errc::invalid_argument when a name is no UTF-8 or reserved, offsets do not fit the shape, sizes overflow,
///         or the header exceeds its limit; Errc::already_exists when a name is given twice.
/// Source: docs/format.md, "Data files".
[[nodiscard]] SafetensorsLayout plan_safetensors(std::span<const TensorSpec> specs,
                                                 const SafetensorsOptions& options = {});

/// Plans as few files as the limits in `options` allow, each holding a run of `specs`; at least one.
///
/// Errors: as plan_safetensors; a name may be given again in another file.
[[nodiscard]] std::vector<SafetensorsLayout> plan_safetensors_files(std::span<const TensorSpec> specs,
                                                                    const SafetensorsOptions& options = {});

/// Looks at one tensor that is to be planned.
///
/// Errors: as plan_safetensors, for what concerns a tensor alone.
[[nodiscard]] TensorMeasure measure_tensor(const TensorSpec& spec);

/// As plan_safetensors_files, for whole tensors (without saved_offsets) whose names differ: both are the caller's to see
/// to. Headers are left empty, as with SafetensorsOptions::defers_header.
[[nodiscard]] std::vector<SafetensorsLayout> plan_measured_safetensors(
    std::span<const TensorMeasure> tensors, const SafetensorsOptions& options = {});

/// The header of a file that was planned with `options`. `specs` are those of the file's own tensors: as many as it has
/// offsets, from `first_spec` on of those that the call was given.
[[nodiscard]] std::string safetensors_header(std::span<const TensorSpec> specs,
                                             const SafetensorsLayout& layout,
                                             const SafetensorsOptions& options = {});

}  // namespace cairn::formats
