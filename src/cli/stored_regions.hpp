// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/staging/pieces.hpp"
#include "cairn/tools/array_reader.hpp"

namespace cairn::cli {

/// A box of an array that a checkpoint has, whatever boxes it is stored in there: its elements, row-major.
struct Region {
  std::string path;  ///< Of the array.
  DType dtype{};
  Shape shape;  ///< Of the array.
  Box box;

  /// How many bytes one element takes that can be read alone; 0 for packed types, which are read whole.
  [[nodiscard]] std::uint64_t element_bytes() const { return is_packed(dtype) ? 0 : bits(dtype) / 8; }
};

/// Some of the bytes of a region, and where they go.
struct RegionRange {
  const Region* region = nullptr;
  std::uint64_t begin_bytes = 0;  ///< A multiple of its element_bytes(); 0 for packed types.
  std::span<std::byte> out;
};

/// Starts to read ranges of arrays.
///
/// Ownership: what `out` of the ranges refers to must live as long as the reading.
/// Errors:    as ArrayReader::start.
[[nodiscard]] ArrayReading start_ranges(const ArrayReader& arrays, std::span<const RegionRange> ranges);

/// A region as a file of another checkpoint holds it.
class RegionSource final : public ByteSource {
 public:
  RegionSource(std::shared_ptr<const ArrayReader> arrays, Region region)
      : arrays_(std::move(arrays)), region_(std::move(region)) {}

  [[nodiscard]] const Region& region() const { return region_; }

  /// Alone: start_ranges reads many at once.
  void read(std::uint64_t offset_bytes, std::span<std::byte> out) const override;
  [[nodiscard]] std::string describe() const override { return region_.path; }

 private:
  const std::shared_ptr<const ArrayReader> arrays_;
  const Region region_;
};

}  // namespace cairn::cli
