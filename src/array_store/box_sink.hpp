// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "cairn/array/array_view.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/formats/foreign_catalogue.hpp"
#include "cairn/staging/device_copier.hpp"
#include "cairn/staging/pieces.hpp"

#include "array/internal/cast.hpp"
#include "array_store/array_bytes.hpp"
#include "base/internal/mutex.hpp"
#include "formats/internal/foreign_index.hpp"

namespace cairn::array_store {

/// The distances of the elements of an array among its bytes.
class ElementLayout {
 public:
  /// Makes those of a dense, row-major array.
  ///
  /// Shape: as those of boxes that are asked for; its bytes fit in 63 bits.
  ElementLayout(const Shape& extents, std::size_t item_bytes);

  /// Makes those of an array with these distances of neighbours.
  ElementLayout(Strides pitches, std::size_t item_bytes)
      : pitches_(std::move(pitches)), item_bytes_(static_cast<std::int64_t>(item_bytes)) {}

  /// The distance of neighbours along a dimension.
  [[nodiscard]] std::int64_t pitch(std::size_t dimension) const noexcept { return pitches_[dimension]; }

  /// Where the first element of a box lies when the dimensions before `from` are at index 0.
  [[nodiscard]] std::int64_t begin(const Box& box, std::size_t from = 0) const noexcept;

  /// Where the last one ends. The box has elements.
  [[nodiscard]] std::int64_t end(const Box& box, std::size_t from = 0) const noexcept;

  [[nodiscard]] std::int64_t item_bytes() const noexcept { return item_bytes_; }

 private:
  Strides pitches_;
  std::int64_t item_bytes_;
};

/// A box of a stored slice, and where its elements go.
struct BoxTarget {
  ElementLayout layout;  ///< Of the slice.
  Box box;               ///< In it; has elements.
  ElementMemory to;      ///< Of the extents of the box.
};

/// Takes a part of a box from memory, where its first element lies at `from`.
void place(const BoxTarget& target, const Box& part, const std::byte* from, Narrowing narrowing);

/// Takes bytes of a slice to those boxes of it that want them, and drops what nobody wants: columns of a matrix are
/// read as whole rows, once for all that want some. Layouts of the boxes have pitches that fall, each at least as long
/// as what lies within it.
///
/// Each write makes at most two strided copies for each dimension and box.
/// Threads: as ByteSink.
class BoxSink final : public ByteSink {
 public:
  /// Takes the bytes of the slice from `first_byte` on.
  BoxSink(std::int64_t first_byte, std::vector<BoxTarget> targets, Narrowing narrowing)
      : first_byte_(first_byte), targets_(std::move(targets)), narrowing_(narrowing) {}

  void write(std::uint64_t offset_bytes, std::span<const std::byte> in) override;
  void add_copiers(std::set<DeviceCopier*>& copiers) const override;

 private:
  /// Bytes that were given, and where in the slice they begin.
  struct Range {
    std::int64_t begin = 0;
    std::span<const std::byte> bytes;

    [[nodiscard]] std::int64_t end() const noexcept {
      return begin + static_cast<std::int64_t>(bytes.size());
    }
  };

  /// An element of which a write brought one part only.
  struct Torn {
    std::array<std::byte, kMaxElementBytes> bytes{};
    std::size_t count = 0;
  };

  /// Takes what the range has of a part of a box: the dimensions before `from` are at the indexes of `part`, which is
  /// as long as 1 there, and that part begins at `base`.
  void take(std::size_t target, std::size_t from, std::int64_t base, Box part, const Range& range);
  void take_torn(std::size_t target, std::int64_t base, const Box& part, const Range& range);
  /// Takes a part of a box of which the range has all.
  void take_whole(const BoxTarget& target, const Box& part, const Range& range) const;

  std::int64_t first_byte_;
  std::vector<BoxTarget> targets_;
  Narrowing narrowing_;
  Mutex mutex_;
  // By target and place in the slice.
  std::map<std::pair<std::size_t, std::int64_t>, Torn> torn_ CAIRN_GUARDED_BY(mutex_);
};

/// Collects the bytes of a slice, decodes them when all are there, on the thread that brought the last ones, and takes
/// them to the boxes that want some of them. Layouts of the boxes are those of decoded bytes, and may be any.
///
/// Threads: as ByteSink; the ranges that are written do not overlap.
class CollectingSink final : public ByteSink {
 public:
  CollectingSink(std::uint64_t range_bytes, formats::EncodedSlice slice, std::vector<BoxTarget> targets,
                 Narrowing narrowing)
      : range_bytes_(range_bytes),
        slice_(std::move(slice)),
        targets_(std::move(targets)),
        narrowing_(narrowing) {}

  void write(std::uint64_t offset_bytes, std::span<const std::byte> in) override;
  void add_copiers(std::set<DeviceCopier*>& copiers) const override;

 private:
  /// Takes all bytes, which nobody need collect where they come at once.
  void take(std::span<const std::byte> all) const;

  const std::uint64_t range_bytes_;
  const formats::EncodedSlice slice_;
  const std::vector<BoxTarget> targets_;
  const Narrowing narrowing_;
  Mutex mutex_;
  std::vector<std::byte> bytes_ CAIRN_GUARDED_BY(mutex_);
  std::uint64_t missing_ CAIRN_GUARDED_BY(mutex_) = range_bytes_;
};

}  // namespace cairn::array_store
