// SPDX-License-Identifier: Apache-2.0
#pragma once

// The templates of Tree that turn C++ values into leaves and back.

#include <cmath>
#include <concepts>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/array/copy.hpp"
#include "cairn/handlers/tree.hpp"

namespace cairn {

namespace detail {

template <class T>
inline constexpr bool kIsSpan = false;
template <class T>
inline constexpr bool kIsSpan<std::span<T>> = true;

template <class T>
inline constexpr bool kIsArrayVector = false;
template <ArrayElement T>
inline constexpr bool kIsArrayVector<std::vector<T>> = !std::same_as<T, bool>;  // Bits are no elements.

}  // namespace detail

template <class T>
void Tree::assign_leaf(T&& value) {
  using Plain = std::remove_cvref_t<T>;
  if constexpr (std::same_as<Plain, std::nullptr_t>) {
    value_ = std::monostate();
  } else if constexpr (std::same_as<Plain, bool>) {
    value_.emplace<bool>(value);
  } else if constexpr (detail::TreeInteger<Plain>) {
    if (std::in_range<std::int64_t>(value)) {
      value_.emplace<std::int64_t>(static_cast<std::int64_t>(value));
    } else {
      value_.emplace<std::uint64_t>(static_cast<std::uint64_t>(value));
    }
  } else if constexpr (std::floating_point<Plain>) {
    value_.emplace<double>(value);
  } else if constexpr (std::same_as<Plain, Bytes>) {
    value_.emplace<Bytes>(std::forward<T>(value));
  } else if constexpr (std::same_as<Plain, Array>) {
    value_.emplace<Array>(std::forward<T>(value));
  } else if constexpr (std::same_as<Plain, std::string>) {
    value_.emplace<std::string>(std::forward<T>(value));
  } else if constexpr (std::convertible_to<T, std::string_view>) {
    value_.emplace<std::string>(static_cast<std::string_view>(value));
  } else if constexpr (std::derived_from<Plain, ArrayView>) {
    value_.emplace<Array>(Array::borrow(std::forward<T>(value)));
  } else if constexpr (detail::AdoptableRange<T>) {
    value_.emplace<Array>(Array::adopt(std::forward<T>(value)));
  } else {
    value_.emplace<Array>(std::forward<T>(value));
  }
}

template <class T>
T Tree::as(std::string_view path) const {
  if constexpr (std::same_as<T, bool>) {
    return require<bool>(TreeKind::boolean, path);
  } else if constexpr (detail::TreeInteger<T>) {
    return integer<T>(path);
  } else if constexpr (std::floating_point<T>) {
    const double value = require<double>(TreeKind::floating, path);
    const T converted = static_cast<T>(value);
    if (std::isinf(converted) && !std::isinf(value)) {
      throw_floating(value, path);
    }
    return converted;
  } else if constexpr (std::same_as<T, std::string> || std::same_as<T, std::string_view>) {
    return require<std::string>(TreeKind::string, path);
  } else if constexpr (std::same_as<T, Bytes>) {
    return require<Bytes>(TreeKind::bytes, path);
  } else if constexpr (std::same_as<T, Array>) {
    return require<Array>(TreeKind::array, path);
  } else if constexpr (detail::kIsSpan<T>) {
    return array(path, dtype_of<typename T::value_type>()).template data<typename T::element_type>();
  } else {
    static_assert(detail::kIsArrayVector<T>, "no leaf of a tree has this type");
    const Array& held = array(path, dtype_of<typename T::value_type>());
    T elements(static_cast<std::size_t>(held.element_count()));
    if (!elements.empty()) {
      copy_range(held.view(), 0, std::as_writable_bytes(std::span(elements)));
    }
    return elements;
  }
}

}  // namespace cairn
