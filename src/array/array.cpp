// SPDX-License-Identifier: Apache-2.0
#include "cairn/array/array.hpp"

#include <cstring>
#include <new>

#include <fmt/format.h>

#include "cairn/array/array_view.hpp"
#include "cairn/base/error.hpp"

#include "base/internal/aligned_memory.hpp"

namespace cairn {
namespace {

constexpr std::size_t kPagedBytes = std::size_t{64}
                                    << 10;       // Below, pages would waste more than alignment gains.
constexpr std::align_val_t kSmallAlignment{64};  // A cache line, and the widest vector register.

struct Memory {
  std::byte* data = nullptr;
  std::shared_ptr<const void> owner;
};

Memory allocate(std::size_t bytes) {
  if (bytes == 0) {
    return {};
  }
  if (bytes >= kPagedBytes) {
    auto pages = std::make_shared<AlignedMemory>(bytes);
    std::byte* data = pages->data();
    return {data, std::move(pages)};
  }
  auto* data = static_cast<std::byte*>(::operator new(bytes, kSmallAlignment));
  return {data,
          std::shared_ptr<void>(data, [](void* memory) { ::operator delete(memory, kSmallAlignment); })};
}

void check_owner(const std::shared_ptr<const void>& owner) {
  if (!owner) {
    throw Error(Errc::invalid_argument, "an array that shares memory needs its owner; borrow has none");
  }
}

// Gives a const view the type of Array's member, which remembers on the side that nobody may write.
MutableArrayView without_const(const ArrayView& view) {
  auto* data = const_cast<std::byte*>(view.data());
  if (is_packed(view.dtype())) {
    return {data, view.shape(), view.dtype(), view.device()};
  }
  return {data, view.shape(), view.dtype(), view.strides(), view.device()};
}

}  // namespace

Array::Array(Shape shape, DType dtype) {
  const auto bytes = cairn::byte_count(dtype, shape);
  if (!bytes) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} elements of shape {} are not a whole number of bytes below 2^63", name(dtype),
                            to_string(shape)));
  }
  Memory memory = allocate(static_cast<std::size_t>(*bytes));
  view_ = MutableArrayView(memory.data, std::move(shape), dtype);
  owner_ = std::move(memory.owner);
}

Array Array::zeros(Shape shape, DType dtype) {
  Array result(std::move(shape), dtype);
  if (result.byte_count() != 0 && result.byte_count() < kPagedBytes) {  // Fresh pages are zero already.
    std::memset(result.view_.data(), 0, static_cast<std::size_t>(result.byte_count()));
  }
  return result;
}

Array Array::copy_of(const ArrayView& view) {
  Array result(view.shape(), view.dtype());
  copy(view, result.view_);
  return result;
}

Array Array::share(ArrayView view, std::shared_ptr<const void> owner) {
  check_owner(owner);
  return {without_const(view), std::move(owner), false};
}

Array Array::share(MutableArrayView view, std::shared_ptr<const void> owner) {
  check_owner(owner);
  return {std::move(view), std::move(owner), true};
}

Array Array::borrow(ArrayView view) {
  return {without_const(view), nullptr, false};
}

Array Array::borrow(MutableArrayView view) {
  return {std::move(view), nullptr, true};
}

Array Array::reshaped(Shape shape) const {
  if (cairn::element_count(shape) != element_count()) {
    throw Error(Errc::shape_mismatch, fmt::format("cannot reshape an array of shape {} to {}",
                                                  to_string(this->shape()), to_string(shape)));
  }
  const std::span<std::byte> memory = view_.bytes();
  return {MutableArrayView(memory.data(), std::move(shape), dtype(), view_.device()), owner_, is_mutable_};
}

const MutableArrayView& Array::mutable_view() const {
  if (!is_mutable_) {
    throw Error(Errc::invalid_argument, "the array is read-only");
  }
  return view_;
}

}  // namespace cairn
