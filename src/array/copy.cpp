// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "cairn/array/array_view.hpp"
#include "cairn/base/error.hpp"

#include "array/internal/cast.hpp"

namespace cairn {
namespace {

constexpr std::size_t kBounceBytes = std::size_t{64} << 10;  // Stays in the level 2 cache.

void check_host(const ArrayView& view) {
  if (view.device().kind != Device::Kind::cpu) {
    throw Error(Errc::invalid_argument, "the array's memory is not the host's");
  }
}

void check_range(std::uint64_t begin_byte, std::size_t size, std::uint64_t image_bytes) {
  if (begin_byte > image_bytes || size > image_bytes - begin_byte) {
    throw Error(Errc::invalid_argument, fmt::format("{} bytes at {} are not within an array of {} bytes",
                                                    size, begin_byte, image_bytes));
  }
}

// A strided array as runs of contiguous bytes: the last dimensions are merged into the run as far as they are
// contiguous, dimensions with one element are left out, and neighbours that step evenly become one dimension.
struct Runs {
  std::uint64_t run_bytes = 0;
  std::size_t rank = 0;
  std::array<std::uint64_t, kMaxRank> extents;
  std::array<std::int64_t, kMaxRank> strides;

  explicit Runs(const ArrayView& view) : run_bytes(bits(view.dtype()) / 8) {
    std::size_t begin =
        kMaxRank;  // Dimensions are found from the last one on, so they fill the arrays from the end.
    for (std::size_t dimension = view.rank(); dimension-- > 0;) {
      const std::uint64_t extent = view.shape()[dimension];
      const std::int64_t stride = view.strides()[dimension];
      if (extent == 1) {
        continue;
      }
      if (begin == kMaxRank && stride == static_cast<std::int64_t>(run_bytes)) {
        run_bytes *= extent;
      } else if (begin != kMaxRank && continues(begin, stride)) {
        extents[begin] *= extent;
      } else {
        --begin;
        extents[begin] = extent;
        strides[begin] = stride;
      }
    }
    rank = kMaxRank - begin;
    for (std::size_t dimension = 0; dimension < rank; ++dimension) {
      extents[dimension] = extents[begin + dimension];
      strides[dimension] = strides[begin + dimension];
    }
  }

 private:
  // Whether `stride` is what the dimension at `inner` covers. It fits: ArrayView checked the distances.
  bool continues(std::size_t inner, std::int64_t stride) const {
    std::int64_t covered = 0;
    return !__builtin_mul_overflow(static_cast<std::int64_t>(extents[inner]), strides[inner], &covered) &&
           covered == stride;
  }
};

// The position of one run, counted up like an odometer.
class Cursor {
 public:
  Cursor(const Runs& runs, std::uint64_t run) : runs_(runs) {
    for (std::size_t dimension = runs_.rank; dimension-- > 0;) {
      index_[dimension] = run % runs_.extents[dimension];
      run /= runs_.extents[dimension];
      offset_ += static_cast<std::int64_t>(index_[dimension]) * runs_.strides[dimension];
    }
  }

  [[nodiscard]] std::int64_t offset() const { return offset_; }

  /// How many runs follow along the innermost dimension, this one included.
  [[nodiscard]] std::uint64_t row_rest() const {
    return runs_.rank == 0 ? 1 : runs_.extents[runs_.rank - 1] - index_[runs_.rank - 1];
  }

  /// Goes on by `count` <= row_rest() runs.
  void advance(std::uint64_t count) {
    if (runs_.rank == 0) {
      return;
    }
    std::size_t dimension = runs_.rank - 1;
    index_[dimension] += count;
    offset_ += static_cast<std::int64_t>(count) * runs_.strides[dimension];
    while (index_[dimension] == runs_.extents[dimension] && dimension > 0) {
      offset_ -= static_cast<std::int64_t>(index_[dimension]) * runs_.strides[dimension];
      index_[dimension] = 0;
      --dimension;
      ++index_[dimension];
      offset_ += runs_.strides[dimension];
    }
  }

 private:
  const Runs& runs_;
  std::array<std::uint64_t, kMaxRank> index_{};
  std::int64_t offset_ = 0;
};

// Which way bytes go between the strided array and the packed buffer.
struct Gather {
  using Strided = const std::byte*;
  using Packed = std::byte*;

  static void move(Strided strided, Packed packed, std::size_t size) { std::memcpy(packed, strided, size); }
};

struct Scatter {
  using Strided = std::byte*;
  using Packed = const std::byte*;

  static void move(Strided strided, Packed packed, std::size_t size) { std::memcpy(strided, packed, size); }
};

// A size known to the compiler turns the memcpy of one element into a load and a store.
template <class Way, std::size_t kSize>
void move_row(typename Way::Strided strided, std::int64_t stride, typename Way::Packed packed,
              std::size_t count) {
  for (std::size_t run = 0; run < count; ++run) {
    Way::move(strided + static_cast<std::int64_t>(run) * stride, packed + run * kSize, kSize);
  }
}

template <class Way>
void move_row(typename Way::Strided strided, std::int64_t stride, typename Way::Packed packed,
              std::size_t count, std::size_t run_bytes) {
  switch (run_bytes) {
    case 1:
      return move_row<Way, 1>(strided, stride, packed, count);
    case 2:
      return move_row<Way, 2>(strided, stride, packed, count);
    case 4:
      return move_row<Way, 4>(strided, stride, packed, count);
    case 8:
      return move_row<Way, 8>(strided, stride, packed, count);
    case 16:
      return move_row<Way, 16>(strided, stride, packed, count);
    default:
      break;
  }
  for (std::size_t run = 0; run < count; ++run) {
    Way::move(strided + static_cast<std::int64_t>(run) * stride, packed + run * run_bytes, run_bytes);
  }
}

template <class Way>
void move_range(const ArrayView& view, typename Way::Strided strided, std::uint64_t begin_byte,
                typename Way::Packed packed, std::size_t size) {
  check_host(view);
  check_range(begin_byte, size, view.byte_count());
  if (size == 0) {
    return;
  }
  if (view.is_contiguous()) {
    return Way::move(strided + begin_byte, packed, size);
  }
  const Runs runs(view);
  Cursor cursor(runs, begin_byte / runs.run_bytes);
  std::size_t done = 0;
  if (const std::uint64_t skipped = begin_byte % runs.run_bytes; skipped != 0) {
    done = static_cast<std::size_t>(std::min<std::uint64_t>(size, runs.run_bytes - skipped));
    Way::move(strided + cursor.offset() + skipped, packed, done);
    cursor.advance(1);
  }
  while (size - done >= runs.run_bytes) {
    const std::uint64_t count = std::min<std::uint64_t>((size - done) / runs.run_bytes, cursor.row_rest());
    const std::int64_t stride = runs.rank == 0 ? 0 : runs.strides[runs.rank - 1];
    move_row<Way>(strided + cursor.offset(), stride, packed + done, static_cast<std::size_t>(count),
                  static_cast<std::size_t>(runs.run_bytes));
    done += static_cast<std::size_t>(count * runs.run_bytes);
    cursor.advance(count);
  }
  if (done < size) {
    Way::move(strided + cursor.offset(), packed + done, size - done);
  }
}

// Keeps the products in `translate` within 64 bits; more than any machine addresses.
constexpr std::uint64_t kMaxTranslatedBytes = std::uint64_t{1} << 56;

// The range [begin, begin + size) of bytes of elements of one type, as bytes of another type.
struct Translated {
  std::uint64_t begin;
  std::uint64_t size;
};

Translated translate(std::uint64_t begin, std::size_t size, DType from, DType to) {
  const auto aligned = [&](std::uint64_t bytes) {
    return bytes <= kMaxTranslatedBytes && bytes * 8 % bits(from) == 0 &&
           bytes * 8 / bits(from) * bits(to) % 8 == 0;
  };
  if (!is_valid(from) || !is_valid(to) || !aligned(begin) || !aligned(size)) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} bytes at {} of {} are not whole elements, or not whole bytes of {}", size,
                            begin, name(from), name(to)));
  }
  return {begin * 8 / bits(from) * bits(to) / 8, size * 8 / bits(from) * bits(to) / 8};
}

// The most bytes of `type` at once, so that the same elements as `type` and as `other` fit in bounce buffers.
// A multiple of 24 elements is a whole number of bytes for every type.
std::size_t chunk_bytes(DType type, DType other) {
  const std::size_t elements = kBounceBytes * 8 / std::max(bits(type), bits(other)) / 24 * 24;
  return elements * bits(type) / 8;
}

}  // namespace

void copy(const ArrayView& from, const MutableArrayView& to) {
  if (from.dtype() != to.dtype()) {
    throw Error(Errc::dtype_mismatch,
                fmt::format("cannot copy {} to {}", name(from.dtype()), name(to.dtype())));
  }
  if (from.shape() != to.shape()) {
    throw Error(Errc::shape_mismatch,
                fmt::format("cannot copy shape {} to {}", to_string(from.shape()), to_string(to.shape())));
  }
  if (to.is_contiguous()) {
    check_host(to);
    return copy_range(from, 0, to.bytes());
  }
  if (from.is_contiguous()) {
    check_host(from);
    return scatter_range(from.bytes(), 0, to);
  }
  std::array<std::byte, kBounceBytes> bounce;
  for (std::uint64_t begin = 0; begin < from.byte_count(); begin += kBounceBytes) {
    const auto size =
        static_cast<std::size_t>(std::min<std::uint64_t>(kBounceBytes, from.byte_count() - begin));
    copy_range(from, begin, std::span(bounce).first(size));
    scatter_range(std::span(bounce).first(size), begin, to);
  }
}

void copy_range(const ArrayView& from, std::uint64_t begin_byte, std::span<std::byte> out) {
  move_range<Gather>(from, from.data(), begin_byte, out.data(), out.size());
}

void scatter_range(std::span<const std::byte> in, std::uint64_t begin_byte, const MutableArrayView& to) {
  move_range<Scatter>(to, to.data(), begin_byte, in.data(), in.size());
}

void cast_range(const ArrayView& from, DType to, std::uint64_t begin_byte, std::span<std::byte> out,
                Narrowing narrowing) {
  const auto source = translate(begin_byte, out.size(), to, from.dtype());
  check_host(from);
  check_range(source.begin, static_cast<std::size_t>(source.size), from.byte_count());
  if (from.is_contiguous()) {
    const auto in =
        from.bytes().subspan(static_cast<std::size_t>(source.begin), static_cast<std::size_t>(source.size));
    return cast(in, from.dtype(), out, to, narrowing);
  }
  std::array<std::byte, kBounceBytes> bounce;
  const std::size_t step = chunk_bytes(from.dtype(), to);
  for (std::uint64_t done = 0; done < source.size; done += step) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(step, source.size - done));
    const auto piece = std::span(bounce).first(size);
    const auto target = translate(done, size, from.dtype(), to);
    copy_range(from, source.begin + done, piece);
    cast(piece, from.dtype(),
         out.subspan(static_cast<std::size_t>(target.begin), static_cast<std::size_t>(target.size)), to,
         narrowing);
  }
}

void cast_scatter_range(std::span<const std::byte> in, DType from, std::uint64_t begin_byte,
                        const MutableArrayView& to, Narrowing narrowing) {
  const auto whole = translate(begin_byte, in.size(), from, to.dtype());
  check_host(to);
  check_range(whole.begin, static_cast<std::size_t>(whole.size), to.byte_count());
  if (to.is_contiguous()) {
    const auto out =
        to.bytes().subspan(static_cast<std::size_t>(whole.begin), static_cast<std::size_t>(whole.size));
    return cast(in, from, out, to.dtype(), narrowing);
  }
  std::array<std::byte, kBounceBytes> bounce;
  const std::size_t step = chunk_bytes(from, to.dtype());
  for (std::size_t done = 0; done < in.size(); done += step) {
    const std::size_t size = std::min(step, in.size() - done);
    const auto target = translate(done, size, from, to.dtype());
    const auto piece = std::span(bounce).first(static_cast<std::size_t>(target.size));
    cast(in.subspan(done, size), from, piece, to.dtype(), narrowing);
    scatter_range(piece, whole.begin + target.begin, to);
  }
}

}  // namespace cairn
