// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/tools/array_reader.hpp"

namespace cairn::tools {

/// A box of a stored array, as its elements lie row-major, whatever boxes it is stored in.
struct Region {
  std::string path;  ///< Of the array.
  DType dtype{};
  Shape shape;  ///< Of the array.
  Box box;
  /// The dtype that it is cast from, also where that loses values; none: it is read as it is stored.
  DType stored{};

  /// Errors: Errc::malformed_metadata when it has more bytes than there can be.
  [[nodiscard]] std::uint64_t size_bytes() const;
};

/// Returns the region that is all of an array.
[[nodiscard]] Region whole_region(std::string path, const AbstractArray& array);

/// Some of the bytes of a region: whole elements.
struct RegionPiece {
  std::size_t region = 0;  ///< Which one, as they were given.
  std::uint64_t offset_bytes = 0;
  std::span<const std::byte> bytes;
};

/// Reads regions one after the other, verified, in bounded memory: it holds two batches of 64 MiB, of which one is read
/// while the other is used. A region of or from a packed type is read whole, and makes a larger batch if it must.
///
/// Threads: not safe.
class ArrayStream {
 public:
  ArrayStream(ArrayReader arrays, std::vector<Region> regions);
  ~ArrayStream();
  ArrayStream(const ArrayStream&) = delete;
  ArrayStream& operator=(const ArrayStream&) = delete;

  /// Returns the next bytes, in the order of the regions and of their elements; nothing at the end. Two streams of
  /// regions of equal sizes and dtypes give pieces of equal sizes.
  ///
  /// Ownership: the bytes are valid until the next call.
  /// Errors:    as ArrayReader::start and ArrayReading::wait.
  [[nodiscard]] std::optional<RegionPiece> next();

 private:
  struct Batch;

  /// Starts to read as many of the next bytes as make a batch; null when there are none.
  std::unique_ptr<Batch> start();

  const ArrayReader arrays_;
  const std::vector<Region> regions_;
  std::size_t region_ = 0;         // Where the next batch begins,
  std::uint64_t begin_bytes_ = 0;  // in this region.
  std::unique_ptr<Batch> current_;
  std::unique_ptr<Batch> next_;
};

}  // namespace cairn::tools
