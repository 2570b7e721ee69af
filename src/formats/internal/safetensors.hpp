// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"

namespace cairn::formats {

/// A file begins with the size of its JSON header, in this many bytes, little-endian.
inline constexpr std::uint64_t kSafetensorsLengthBytes = 8;

/// The most bytes of header that the reference implementation opens, padding included.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

/// One tensor of a safetensors file.
///
/// Invariant: begin <= end, and end - begin is the size that dtype and shape ask for.
struct SafetensorsTensor {
  std::string name;
  DType dtype{};
  Shape shape;
  std::uint64_t begin = 0;  ///< First byte in the file (not in the data section).
  std::uint64_t end = 0;
};

/// Holds what a safetensors file says of itself.
///
/// Invariant: the tensors are sorted by `begin`, touch each other, and fill the file from `data_begin` to its end, but
///            for the trailing bytes. Names are unique.
struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;
  /// The pairs of `__metadata__`, sorted by key.
  std::vector<std::pair<std::string, std::string>> metadata;
  std::uint64_t data_begin = 0;
  std::uint64_t trailing_bytes = 0;  ///< Behind the last tensor; none where they are refused.

  /// The value of a key of `metadata`, or null when it has none.
  [[nodiscard]] const std::string* find_metadata(std::string_view key) const noexcept;
};

/// The bytes before the data of a file of `file_size` bytes, told from its first eight: read so many, then call
/// parse_safetensors. Of something else that has the name of such a file the error says what it is, where
/// `first_bytes` has kTellingBytes of them.
///
/// Errors: Errc::malformed_metadata when the file is too small or the header too large for it or for the format.
/// Source: docs/format.md, "Data files".
[[nodiscard]] std::uint64_t safetensors_prefix_size(std::span<const std::byte> first_bytes,
                                                    std::uint64_t file_size, std::string_view path);

/// Returns whether a file begins as one of safetensors does, whatever its name: with the length of a header that fits
/// into it, and '{'.
[[nodiscard]] bool begins_as_safetensors(std::span<const std::byte> first_bytes,
                                         std::uint64_t file_size) noexcept;

/// Says what becomes of bytes behind the last tensor, which the reference implementation refuses.
enum class TrailingBytes : std::uint8_t { refused, allowed };

/// Reads and checks the header of a safetensors file.
///
/// Takes what the reference implementation takes and reads it the same, except where that would be ambiguous or
/// no array could hold it: docs/format.md lists the differences. `path` is used in errors only.
///
/// Shape:  `prefix` holds at least the first safetensors_prefix_size() bytes of the file.
/// Errors: Errc::malformed_metadata, naming the tensor or the byte of the header.
[[nodiscard]] SafetensorsHeader parse_safetensors(std::span<const std::byte> prefix, std::uint64_t file_size,
                                                  std::string_view path,
                                                  TrailingBytes trailing = TrailingBytes::refused);

}  // namespace cairn::formats
