// SPDX-License-Identifier: Apache-2.0
#include "cairn/array_store/array_entries.hpp"

#include <span>
#include <utility>

namespace cairn {
namespace {

/// As std::equal, which calls memcmp for what are two numbers mostly.
bool is_equal(std::span<const std::uint64_t> dims, const Shape& shape) noexcept {
  if (dims.size() != shape.size()) {
    return false;
  }
  bool is_same = true;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    is_same = is_same && dims[i] == shape[i];
  }
  return is_same;
}

}  // namespace

void ArrayEntries::Iterator::settle() {
  if (position_ >= entries_->end_) {
    return;
  }
  if (entries_->described_) {
    const Described& array = (*entries_->described_)[position_];
    current_ = {array.name, array.dtype, array.shape,
                checked_byte_count(array.name, array.dtype, array.shape)};
    return;
  }
  formats::IndexArray array;
  if (!entries_->index_->next_array(position_, array)) {
    return;
  }
  // Neighbours are often of one dtype and shape: what was computed for the last one then holds.
  const bool is_alike = array.dtype == current_.dtype && is_equal(array.dims, current_.shape);
  if (!is_alike) {
    Shape shape(array.dims);
    current_.bytes = checked_byte_count(array.name, array.dtype, shape);
    current_.dtype = array.dtype;
    current_.shape = std::move(shape);
  }
  current_.name = array.name;
}

}  // namespace cairn
