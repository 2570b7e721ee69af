// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "array_store/array_bytes.hpp"
#include "array_store/box_sink.hpp"
#include "array_store/read_steps.hpp"
#include "formats/internal/foreign_index.hpp"
#include "formats/internal/index.hpp"

namespace cairn::array_store {
namespace {

/// Shorter gaps between wanted bytes are read, not skipped: to be verified, chunks of this size are read whole anyway.
constexpr std::int64_t kFewestSkippedBytes = 1 << 20;

/// A box within a box.
Box moved_into(const Box& inner, const Box& outer) {
  Shape offsets = inner.offsets();
  for (std::size_t d = 0; d < offsets.size(); ++d) {
    offsets[d] -= outer.begin(d);
  }
  return {std::move(offsets), inner.extents()};
}

/// An array, and a box of it.
struct BoxOf {
  Shape extents;
  Box box;

  [[nodiscard]] bool is_whole(std::size_t d) const { return box.extents()[d] == extents[d]; }
};

/// Counts bytes instead of elements of a packed type: the dimensions from `last` on become one.
bool count_bytes(BoxOf& part, std::size_t last, unsigned bits) {
  std::uint64_t inner_bits = bits;
  for (std::size_t d = last + 1; d < part.extents.size(); ++d) {
    inner_bits *= part.extents[d];
  }
  const auto cut = [last](const Shape& shape) { return Shape(std::span(shape).first(last + 1)); };
  BoxOf bytes{cut(part.extents), {}};
  Shape offsets = cut(part.box.offsets());
  Shape extents = cut(part.box.extents());
  for (std::uint64_t* count : {&bytes.extents[last], &offsets[last], &extents[last]}) {
    *count *= inner_bits;
    if (*count % 8 != 0) {
      return false;
    }
    *count /= 8;
  }
  bytes.box = Box(std::move(offsets), std::move(extents));
  part = std::move(bytes);
  return true;
}

/// The same elements of both, as bytes. False when a byte would be cut.
bool count_bytes(BoxOf& a, BoxOf& b, unsigned bits) {
  if (a.extents.empty()) {
    return false;
  }
  std::size_t last = a.extents.size() - 1;
  while (last > 0 && a.is_whole(last) && b.is_whole(last)) {
    --last;
  }
  BoxOf c = a;
  BoxOf d = b;
  if (!count_bytes(c, last, bits) || !count_bytes(d, last, bits)) {
    return false;
  }
  a = std::move(c);
  b = std::move(d);
  return true;
}

/// The axes from the one whose elements are furthest apart on; those of one index come first.
std::vector<std::size_t> axes_by_stride(const Shape& extents, const ElementLayout& layout) {
  std::vector<std::size_t> axes(extents.size());
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  std::stable_sort(axes.begin(), axes.end(), [&](std::size_t a, std::size_t b) {
    const bool a_is_one = extents[a] == 1;
    const bool b_is_one = extents[b] == 1;
    return a_is_one != b_is_one ? a_is_one : !a_is_one && layout.pitch(a) > layout.pitch(b);
  });
  return axes;
}

/// Makes the pieces of one slice.
class SlicePieces {
 public:
  SlicePieces(const formats::Index& index, const ReadArray& array, const Region& region,
              std::vector<DestinationPiece>& pieces)
      : index_(index), array_(array), region_(region), pieces_(pieces) {
    stored_ = index.slice(array.stored, region.slice);
    form_ = stored_.form;
    slice_ = stored_.is_whole ? Box::whole(Shape(array.stored.dims))
                              : Box(Shape(stored_.offsets), Shape(stored_.extents));
  }

  [[nodiscard]] const Box& slice() const noexcept { return slice_; }

  /// `shared` is what the slice has of the box `wanted`, which goes to `memory`.
  void add(const Box& shared, const Box& wanted, const Array& memory, DeviceCopier* copier) {
    BoxOf from{slice_.extents(), moved_into(shared, slice_)};
    BoxOf to{wanted.extents(), moved_into(shared, wanted)};
    MutableArrayView view = memory.mutable_view();
    DType stored = array_.stored.dtype;
    if (form_ != nullptr && (is_packed(stored) || is_packed(view.dtype()))) {
      refuse_packed(shared);
    }
    const bool is_packed_there = is_packed(stored) && !(shared == slice_ && !is_packed(view.dtype()));
    const bool is_packed_here = is_packed(view.dtype()) && shared != wanted;
    if (is_packed_there || is_packed_here) {
      if (stored != view.dtype() || !count_bytes(from, to, bits(stored))) {
        refuse_packed(shared);
      }
      stored = DType::uint8;
      view = MutableArrayView(view.data(), to.extents, stored, view.device());
    }
    // A packed slice that is taken whole is measured in bytes only.
    const std::size_t item_bytes = is_packed(stored) ? 0 : bits(stored) / 8;
    BoxTarget target{ElementLayout(from.extents, item_bytes),
                     from.box,
                     {stored, view.part(to.box), memory.owner(), copier}};
    if (form_ != nullptr) {
      if (form_->strides) {
        target.layout = ElementLayout(*form_->strides, item_bytes);
      }
      if (is_collected(*form_, slice_.extents(), stored)) {
        collected_.push_back(std::move(target));
        return;
      }
      sort_axes(target, from.extents);
    }
    const bool is_dense =
        static_cast<std::uint64_t>(target.layout.end(target.box) - target.layout.begin(target.box)) ==
        target.to.view.element_count() * item_bytes;
    if (is_packed(target.to.view.dtype()) && !is_dense) {
      refuse_packed(shared);
    }
    if (is_packed(stored)) {
      pieces_.push_back(contiguous_piece(std::move(target.to), region_.begin, region_.end));
    } else {
      split(target, 0, target.box);
    }
  }

  /// Makes pieces of what was added.
  void finish() {
    if (!collected_.empty()) {
      return add_collected();
    }
    std::sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.begin < b.begin; });
    for (std::size_t i = 0; i < runs_.size();) {
      std::int64_t end = runs_[i].end;
      std::size_t next = i + 1;
      while (next < runs_.size() && runs_[next].begin < end) {
        end = std::max(end, runs_[next++].end);
      }
      add_piece(std::span(runs_).subspan(i, next - i), end);
      i = next;
    }
  }

 private:
  /// Bytes of the slice, from the first to the last of a box.
  struct Run {
    std::int64_t begin;
    std::int64_t end;
    BoxTarget target;
  };

  [[noreturn]] void refuse_packed(const Box& box) const {
    throw Error(
        Errc::invalid_argument,
        fmt::format("{}: {}: box {} of elements of {} bits cannot be taken out of the stored {}, or not as "
                    "another dtype; load the whole array as it is stored",
                    index_.path(), formats::shown(array_.stored.name), to_string(box),
                    bits(array_.stored.dtype), to_string(slice_)));
  }

  /// Adds runs for a part of a box: one for each index of the outer dimensions between which there is much to skip.
  void split(const BoxTarget& target, std::size_t d, const Box& part) {
    const ElementLayout& layout = target.layout;
    const bool is_one = d < part.rank() && part.extents()[d] == 1;
    if (d == part.rank() ||
        (!is_one &&
         layout.pitch(d) - (layout.end(part, d + 1) - layout.begin(part, d + 1)) < kFewestSkippedBytes)) {
      BoxTarget own = target;
      own.box = part;
      own.to.view = target.to.view.part(moved_into(part, target.box));
      runs_.push_back({layout.begin(part), layout.end(part), std::move(own)});
      return;
    }
    Shape offsets = part.offsets();
    Shape extents = part.extents();
    extents[d] = 1;
    for (std::uint64_t i = 0; i < part.extents()[d]; ++i) {
      offsets[d] = part.begin(d) + i;
      split(target, d + 1, Box(offsets, extents));
    }
  }

  void add_piece(std::span<Run> runs, std::int64_t end) {
    const std::int64_t begin = runs[0].begin;
    const std::uint64_t file_begin = region_.begin + static_cast<std::uint64_t>(begin);
    const std::uint64_t file_end = region_.begin + static_cast<std::uint64_t>(end);
    BoxTarget& first = runs[0].target;
    const std::uint64_t item_bytes = static_cast<std::uint64_t>(first.layout.item_bytes());
    const bool is_dense =
        runs.size() == 1 && first.to.view.element_count() * item_bytes == file_end - file_begin;
    if (is_dense && (first.to.copier == nullptr || first.to.view.is_contiguous())) {
      pieces_.push_back(contiguous_piece(std::move(first.to), file_begin, file_end));
      return;
    }
    std::vector<BoxTarget> targets;
    for (Run& run : runs) {
      targets.push_back(std::move(run.target));
    }
    DestinationPiece piece;
    piece.offset_bytes = file_begin;
    piece.size_bytes = file_end - file_begin;
    piece.sink = std::make_shared<BoxSink>(begin, std::move(targets), array_.narrowing);
    pieces_.push_back(std::move(piece));
  }

  /// The bytes from `begin` to `end` of the file are all elements of the box.
  [[nodiscard]] DestinationPiece contiguous_piece(ElementMemory to, std::uint64_t begin,
                                                  std::uint64_t end) const {
    return make_piece(begin, end, std::move(to), array_.narrowing, array_.stored.name);
  }

  /// Puts the axes in the order in which elements lie, in the slice and in memory alike.
  static void sort_axes(BoxTarget& target, const Shape& extents) {
    const std::vector<std::size_t> order = axes_by_stride(extents, target.layout);
    Strides pitches(order.size(), 0);
    Shape offsets(order.size(), 0);
    Shape sizes(order.size(), 0);
    Strides strides(order.size(), 0);
    // Further apart than all elements, for an axis of one index: no other divides the bytes.
    const std::int64_t far = target.layout.end(Box::whole(extents));
    for (std::size_t d = 0; d < order.size(); ++d) {
      pitches[d] = extents[order[d]] == 1 ? far : target.layout.pitch(order[d]);
      offsets[d] = target.box.begin(order[d]);
      sizes[d] = target.box.extents()[order[d]];
      strides[d] = target.to.view.strides()[order[d]];
    }
    const MutableArrayView& view = target.to.view;
    target.to.view = MutableArrayView(view.data(), sizes, view.dtype(), std::move(strides), view.device());
    target.layout = ElementLayout(std::move(pitches), static_cast<std::size_t>(target.layout.item_bytes()));
    target.box = Box(std::move(offsets), std::move(sizes));
  }

  void add_collected() {
    DestinationPiece piece;
    piece.offset_bytes = region_.begin;
    piece.size_bytes = region_.end - region_.begin;
    formats::EncodedSlice slice;
    slice.form = *form_;
    slice.dtype = array_.stored.dtype;
    slice.extents = slice_.extents();
    slice.first = stored_.first;
    slice.elements = stored_.elements;
    slice.needed_bytes = static_cast<std::uint64_t>(collected_[0].layout.end(Box::whole(slice.extents)));
    slice.name = fmt::format("{}/{}: {}", index_.path(), stored_.file, formats::shown(array_.stored.name));
    piece.sink = std::make_shared<CollectingSink>(piece.size_bytes, std::move(slice), std::move(collected_),
                                                  array_.narrowing);
    pieces_.push_back(std::move(piece));
  }

  const formats::Index& index_;
  const ReadArray& array_;
  const Region& region_;
  std::vector<DestinationPiece>& pieces_;
  formats::IndexSlice stored_;
  Box slice_;
  const formats::SliceForm* form_ = nullptr;  ///< Null: elements lie one behind the other.
  std::vector<BoxTarget> collected_;
  std::vector<Run> runs_;
};

}  // namespace

bool is_collected(const formats::SliceForm& form, const Shape& extents, DType dtype) {
  if (form.is_big_endian || !form.codecs.empty()) {
    return true;
  }
  if (!form.strides) {
    return false;
  }
  std::int64_t inner = bits(dtype) / 8;
  const std::vector<std::size_t> axes =
      axes_by_stride(extents, ElementLayout(*form.strides, bits(dtype) / 8));
  for (auto axis = axes.rbegin(); axis != axes.rend() && extents[*axis] > 1; ++axis) {
    if ((*form.strides)[*axis] < inner) {
      return true;
    }
    inner += static_cast<std::int64_t>(extents[*axis] - 1) * (*form.strides)[*axis];
  }
  return false;
}

void add_box_pieces(const formats::Index& index, const ReadArray& array, const Region& region,
                    std::span<const Array> memory, std::vector<DestinationPiece>& pieces) {
  SlicePieces slice(index, array, region, pieces);
  if (array.boxes == nullptr) {
    slice.add(slice.slice(), Box::whole(Shape(array.stored.dims)), memory[array.first], array.copier);
    return slice.finish();
  }
  const auto [begin, end] = array.boxes->parts_of(region.slice);
  for (auto part = begin; part != end; ++part) {
    slice.add(part->shared, array.boxes->shards[part->shard].box, memory[array.first + part->shard],
              array.boxes->copiers[part->shard]);
  }
  slice.finish();
}

}  // namespace cairn::array_store
