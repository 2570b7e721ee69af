// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include "cairn/array/shape.hpp"
#include "cairn/base/error.hpp"

#include "array/internal/require_within.hpp"
#include "base/internal/checked.hpp"

namespace cairn {
namespace {

/// The box is not within the shape.
std::string why_not_within(const Box& box, const Shape& shape) {
  if (box.rank() != shape.size()) {
    return fmt::format("the box has rank {}, the array {}", box.rank(), shape.size());
  }
  std::size_t axis = 0;
  while (box.end(axis) <= shape[axis]) {
    ++axis;
  }
  return fmt::format("axis {} ends at {}, the box at {}", axis, shape[axis], box.end(axis));
}

}  // namespace

Box::Box(Shape offsets, Shape extents) : offsets_(std::move(offsets)), extents_(std::move(extents)) {
  bool is_sound = offsets_.size() == extents_.size();
  for (std::size_t dimension = 0; is_sound && dimension < offsets_.size(); ++dimension) {
    is_sound = checked_add(offsets_[dimension], extents_[dimension]).has_value();
  }
  if (!is_sound) {
    throw Error(Errc::invalid_argument, fmt::format("offsets {} and extents {} do not form a box",
                                                    to_string(offsets_), to_string(extents_)));
  }
}

Box Box::whole(const Shape& shape) {
  return {Shape(shape.size(), 0), shape};
}

bool Box::is_empty() const noexcept {
  return std::find(extents_.begin(), extents_.end(), std::uint64_t{0}) != extents_.end();
}

bool Box::is_whole(const Shape& shape) const noexcept {
  return extents_ == shape &&
         std::all_of(offsets_.begin(), offsets_.end(), [](auto offset) { return offset == 0; });
}

bool Box::is_within(const Shape& shape) const noexcept {
  if (rank() != shape.size()) {
    return false;
  }
  for (std::size_t dimension = 0; dimension < rank(); ++dimension) {
    if (end(dimension) > shape[dimension]) {
      return false;
    }
  }
  return true;
}

void require_within(std::string_view what, const Box& box, const Shape& shape) {
  if (!box.is_within(shape)) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} {} is not within an array of shape {}: {}", what, to_string(box),
                            to_string(shape), why_not_within(box, shape)));
  }
}

bool Box::contains(const Box& inner) const noexcept {
  if (rank() != inner.rank()) {
    return false;
  }
  for (std::size_t dimension = 0; dimension < rank(); ++dimension) {
    if (inner.begin(dimension) < begin(dimension) || inner.end(dimension) > end(dimension)) {
      return false;
    }
  }
  return true;
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  if (a.rank() != b.rank()) {
    return std::nullopt;
  }
  Shape offsets(a.rank(), 0);
  Shape extents(a.rank(), 0);
  for (std::size_t dimension = 0; dimension < a.rank(); ++dimension) {
    const std::uint64_t begin = std::max(a.begin(dimension), b.begin(dimension));
    const std::uint64_t end = std::min(a.end(dimension), b.end(dimension));
    if (begin >= end) {
      return std::nullopt;
    }
    offsets[dimension] = begin;
    extents[dimension] = end - begin;
  }
  return Box(std::move(offsets), std::move(extents));
}

std::string to_string(const Box& box) {
  std::string text = "[";
  for (std::size_t dimension = 0; dimension < box.rank(); ++dimension) {
    text += fmt::format("{}{}:{}", dimension == 0 ? "" : ", ", box.begin(dimension), box.end(dimension));
  }
  return text + "]";
}

std::ostream& operator<<(std::ostream& out, const Box& box) {
  return out << to_string(box);
}

}  // namespace cairn
