// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "cairn/array/stored_slices.hpp"

#include "formats/internal/index.hpp"

namespace cairn::detail {

/// The slices of an array, read where an index describes them.
class IndexedSlices final : public StoredSlices {
 public:
  /// `array` and `layout` are of that index.
  IndexedSlices(formats::Index index, formats::IndexArray array, std::string_view layout)
      : index_(std::move(index)), array_(array), layout_(layout) {}

  [[nodiscard]] std::size_t size() const noexcept override { return array_.slice_count; }

  [[nodiscard]] Box box(std::size_t i) const override {
    const formats::IndexSlice slice = this->slice(i);
    return slice.is_whole ? Box::whole(Shape(array_.dims)) : Box(Shape(slice.offsets), Shape(slice.extents));
  }

  [[nodiscard]] std::string_view file(std::size_t i) const override { return slice(i).file; }

  [[nodiscard]] std::string_view layout() const override { return layout_; }

  [[nodiscard]] std::string_view policy() const override { return policy_of(index_, array_); }

  /// Returns the policy of an array all of whose files one policy made; empty where none did.
  static std::string_view policy_of(const formats::Index& index, const formats::IndexArray& array) {
    if (index.policy_count() == 0 || array.slice_count == 0) {
      return {};
    }
    return index.policy_of_file(index.slice(array, 0).file_number);
  }

 private:
  [[nodiscard]] formats::IndexSlice slice(std::size_t i) const {
    return index_.slice(array_, static_cast<std::uint32_t>(i < size() ? i : size()));  // Which is refused.
  }

  formats::Index index_;  // Shares its bytes, which the others refer to.
  formats::IndexArray array_;
  std::string_view layout_;
};

}  // namespace cairn::detail
