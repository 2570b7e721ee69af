// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cairn/array/abstract_array.hpp"
#include "cairn/array/array.hpp"
#include "cairn/core/callers_memory.hpp"
#include "cairn/core/handler.hpp"
#include "cairn/handlers/tree.hpp"

namespace cairn {

/// Saves one array, in the files of a tree whose root it is.
///
/// Options: ArrayOptions, TreeLoadOptions.
class ArrayHandler final : public CheckpointableHandler<Array, AbstractArray> {
 public:
  [[nodiscard]] std::string_view id() const noexcept override { return "cairn.array/1"; }

  /// Errors: as TreeHandler.
  [[nodiscard]] Awaitable<Background<>> save(SaveContext context, const Array& value) const override;
  [[nodiscard]] Awaitable<Background<Array>> load(LoadContext context,
                                                  std::optional<AbstractArray> wanted) const override;
  [[nodiscard]] Awaitable<AbstractArray> metadata(LoadContext context) const override;
  [[nodiscard]] Description describe(const AbstractArray& stored) const override;
};

template <>
struct OwnsItsMemory<Array> {
  static constexpr bool kIsShared = true;

  static bool check(const Array& array) { return array.owner() != nullptr || array.byte_count() == 0; }
};

template <>
struct OwnsItsMemory<ArrayView> {
  static bool check(const ArrayView& /*view*/) { return false; }
};

template <>
struct OwnsItsMemory<MutableArrayView> {
  static bool check(const MutableArrayView& /*view*/) { return false; }
};

template <class T>
struct OwnsItsMemory<std::span<T>> {
  static bool check(std::span<T> /*elements*/) { return false; }
};

/// The elements are copied, too, unless they are on a device.
template <>
struct WatchedCopy<Array> {
  static const Array* make(const Array& value, const std::shared_ptr<WatchedMemory>& memory) {
    const Tree tree(value);
    return WatchedCopy<Tree>::make(tree, memory)->array_if();
  }
};

template <>
struct WritesToCaller<AbstractArray> {
  static bool check(const AbstractArray& wanted) { return wanted.destination.has_value(); }
};

template <>
struct HandledAs<ArrayView> {
  using type = Array;

  static Array convert(const ArrayView& view) { return Array::borrow(view); }
};

template <>
struct HandledAs<MutableArrayView> {
  using type = Array;

  static Array convert(const MutableArrayView& view) { return Array::borrow(view); }
};

template <ArrayElement T>
struct HandledAs<std::span<T>> {
  using type = Array;

  static Array convert(std::span<T> elements) { return Array(elements); }
};

template <ArrayElement T>
requires(!std::same_as<T, bool>) struct HandledAs<std::vector<T>> {
  using type = Array;

  static Array convert(const std::vector<T>& elements) { return Array(elements); }

  static std::vector<T> restore(const Array& array) { return Tree(array).as<std::vector<T>>(); }
};

}  // namespace cairn
