// SPDX-License-Identifier: Apache-2.0
#pragma once

// The leaves of trees from C++ values, and back. Part of cairn/handlers/tree.hpp.

#include <algorithm>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "cairn/array/array.hpp"
#include "cairn/array/array_view.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/array/sharded_array.hpp"
#include "cairn/handlers/tree_form.hpp"
#include "cairn/handlers/tree_leaf.hpp"
#include "cairn/handlers/tree_node.hpp"
#include "cairn/handlers/tree_read.hpp"

namespace cairn {

namespace detail {

/// Sorts the elements of a container that has no order, so that all ranks have the same.
void sort_elements(Tree::List& elements);

/// An element of a container, as that was given: moved from where that is a temporary.
template <class Container, class Element>
decltype(auto) element_of(Element& element) {
  if constexpr (std::is_lvalue_reference_v<Container>) {
    return static_cast<Element&>(element);
  } else {
    return static_cast<Element&&>(element);
  }
}

/// Characters and booleans are not integers of a tree, but enums of them are.
template <class E>
auto number_of_enum(E value) {
  using Number = std::conditional_t<std::is_signed_v<std::underlying_type_t<E>>, std::int64_t, std::uint64_t>;
  return static_cast<Number>(value);
}

template <class K>
std::string text_of_key(const K& key) {
  if constexpr (std::same_as<K, std::string>) {
    return key;
  } else if constexpr (std::is_enum_v<K>) {
    return std::to_string(number_of_enum(key));
  } else {
    return std::to_string(key);
  }
}

}  // namespace detail

template <class T>
Tree Tree::nest(T&& value) {
  using Plain = std::remove_cvref_t<T>;
  static_assert(detail::ComesBack<Plain>::value,
                "this could be saved, but not loaded: a type in it is const, or has no default constructor");
  if constexpr (detail::HasTreeForm<Plain>) {
    return TreeForm<Plain>::make(std::forward<T>(value));
  } else if constexpr (std::is_enum_v<Plain>) {
    return detail::number_of_enum(value);
  } else if constexpr (detail::kIsOptional<Plain>) {
    return value ? Tree(*std::forward<T>(value)) : Tree();
  } else if constexpr (detail::kIsMap<Plain>) {
    Tree tree = map();
    for (auto& [key, child] : value) {
      tree.as_map().try_emplace(detail::text_of_key(key), detail::element_of<T>(child));
    }
    return tree;
  } else if constexpr (detail::kIsTuple<Plain>) {
    Tree tree = list();
    std::apply(
        [&tree](auto&&... parts) { (tree.push_back(Tree(std::forward<decltype(parts)>(parts))), ...); },
        std::forward<T>(value));
    return tree;
  } else if constexpr (detail::kIsSet<Plain>) {
    return nest_set(std::forward<T>(value));
  } else {
    Tree tree = list();
    if constexpr (requires { std::size(value); }) {
      tree.as_list().reserve(std::size(value));
    }
    if constexpr (detail::kIsBits<Plain>) {
      for (const bool element : value) {
        tree.push_back(element);
      }
    } else {
      for (auto& element : value) {
        tree.push_back(Tree(detail::element_of<T>(element)));
      }
    }
    return tree;
  }
}

template <class T>
Tree Tree::nest_set(T&& value) {
  Tree tree = list();
  tree.as_list().reserve(value.size());
  if constexpr (std::is_lvalue_reference_v<T>) {
    for (const auto& element : value) {
      tree.push_back(Tree(element));
    }
  } else {
    while (!value.empty()) {
      tree.push_back(Tree(std::move(value.extract(value.begin()).value())));
    }
  }
  if constexpr (detail::kIsUnorderedSet<std::remove_cvref_t<T>>) {
    detail::sort_elements(tree.as_list());
  }
  return tree;
}

namespace detail {

/// Errors: Errc::type_mismatch when the leaf is neither a boolean nor an array of rank 0 of one.
[[nodiscard]] bool boolean_value(const Tree& leaf, std::string_view path);

/// The number of a leaf, or of an array of rank 0, as an integer of so many bytes. Narrowing cuts off fractions and
/// saturates; NaN becomes 0.
///
/// Errors: Errc::type_mismatch when the leaf is not a number; Errc::unsafe_cast when it is a float, or an integer
///         that does not fit. With Narrowing::allowed only what is not a number is refused.
[[nodiscard]] std::int64_t signed_number(const Tree& leaf, std::size_t bytes, std::string_view path,
                                         Narrowing narrowing);
[[nodiscard]] std::uint64_t unsigned_number(const Tree& leaf, std::size_t bytes, std::string_view path,
                                            Narrowing narrowing);

/// The number of a leaf as a float. Floats are rounded to it, integers must be values of it. Narrowing rounds those,
/// too, and makes infinity of what exceeds the range.
///
/// Errors: Errc::type_mismatch when the leaf is not a number; Errc::unsafe_cast when it exceeds the range, or is an
///         integer that is not a value of the type.
[[nodiscard]] double double_number(const Tree& leaf, std::string_view path, Narrowing narrowing);
[[nodiscard]] float float_number(const Tree& leaf, std::string_view path, Narrowing narrowing);

/// The complex number of an array of rank 0, or a real number, as an element of a complex dtype, into `out`.
///
/// Errors: Errc::type_mismatch when the leaf is neither; Errc::unsafe_cast when the element is not a value of that
///         dtype.
void read_complex(const Tree& leaf, DType dtype, std::span<std::byte> out, std::string_view path,
                  Narrowing narrowing);

/// The same number, also where the program takes subnormal ones for zero: its own code would convert it in that mode.
[[nodiscard]] double widened(float value) noexcept;

}  // namespace detail

template <class T>
Tree::Value Tree::leaf_value(T&& value) {
  using Plain = std::remove_cvref_t<T>;
  if constexpr (detail::HasTreeForm<
                    Plain>) {  // A class that is also a range, or text: its form is what reads it.
    return std::move(nest(std::forward<T>(value)).value_);
  } else if constexpr (std::same_as<Plain, std::nullptr_t>) {
    return {};
  } else if constexpr (std::same_as<Plain, bool>) {
    return Value(std::in_place_type<bool>, value);
  } else if constexpr (detail::TreeInteger<Plain>) {
    if (std::in_range<std::int64_t>(value)) {
      return Value(std::in_place_type<std::int64_t>, static_cast<std::int64_t>(value));
    } else {
      return Value(std::in_place_type<std::uint64_t>, static_cast<std::uint64_t>(value));
    }
  } else if constexpr (std::same_as<Plain, float>) {
    return Value(std::in_place_type<double>, detail::widened(value));
  } else if constexpr (std::floating_point<Plain>) {
    return Value(std::in_place_type<double>, value);
  } else if constexpr (std::same_as<Plain, Bytes> || std::same_as<Plain, Array> ||
                       std::same_as<Plain, ShardedArray>) {
    return Value(std::in_place_type<Plain>, std::forward<T>(value));
  } else if constexpr (std::same_as<Plain, std::string>) {
    return detail::TreeText{std::forward<T>(value)};
  } else if constexpr (detail::kIsTextBuffer<Plain>) {
    const auto* end = std::find(value, value + sizeof(Plain), '\0');
    return detail::TreeText{std::string(value, static_cast<std::size_t>(end - value))};
  } else if constexpr (std::convertible_to<T, std::string_view>) {
    return detail::TreeText{std::string(static_cast<std::string_view>(value))};
  } else if constexpr (std::derived_from<Plain, ArrayView>) {
    return Value(std::in_place_type<Array>, Array::borrow(std::forward<T>(value)));
  } else if constexpr (std::is_array_v<Plain> && !std::is_lvalue_reference_v<T>) {
    return Value(std::in_place_type<Array>,
                 Array::copy_of(ArrayView(value)));  // An array of C cannot be moved.
  } else if constexpr (detail::AdoptableRange<T>) {
    return Value(std::in_place_type<Array>, Array::adopt(std::forward<T>(value)));
  } else {
    return Value(std::in_place_type<Array>, std::forward<T>(value));
  }
}

template <class T>
T Tree::as(std::string_view path, Narrowing narrowing) const& {
  if constexpr (std::same_as<T, std::nullptr_t>) {
    if (!is_null()) {
      throw_kind(TreeKind::null, path);
    }
    return nullptr;
  } else if constexpr (std::same_as<T, bool>) {
    return detail::boolean_value(*this, path);
  } else if constexpr (detail::TreeInteger<T> && std::is_signed_v<T>) {
    return static_cast<T>(detail::signed_number(*this, sizeof(T), path, narrowing));
  } else if constexpr (detail::TreeInteger<T>) {
    return static_cast<T>(detail::unsigned_number(*this, sizeof(T), path, narrowing));
  } else if constexpr (std::same_as<T, float>) {
    return detail::float_number(*this, path, narrowing);
  } else if constexpr (std::floating_point<T>) {
    return static_cast<T>(detail::double_number(*this, path, narrowing));
  } else if constexpr (detail::kIsString<T> || std::same_as<T, std::string_view>) {
    return T(std::string_view(require<detail::TreeText>(TreeKind::string, path).text));
  } else if constexpr (std::same_as<T, Bytes>) {
    if (!is_array()) {  // One that was saved alone: Bytes are an array there.
      return require<Bytes>(TreeKind::bytes, path);
    }
    return elements<T>(path);
  } else if constexpr (std::same_as<T, Array>) {
    return require<Array>(TreeKind::array, path);
  } else if constexpr (std::same_as<T, ShardedArray>) {
    return require<ShardedArray>(TreeKind::sharded_array, path);
  } else if constexpr (detail::kIsSpan<T>) {
    const auto data =
        array(path, dtype_of<typename T::value_type>()).template data<typename T::element_type>();
    if constexpr (T::extent != std::dynamic_extent) {
      detail::check_count(data.size(), T::extent, path);
    }
    return T(data.data(), data.size());
  } else if constexpr (detail::kIsArrayVector<T>) {
    return elements<T>(path);
  } else if constexpr (std::same_as<T, Tree>) {
    return *this;
  } else {
    static_assert(!std::same_as<T, MutableArrayView>,
                  "a view is a place for elements, not a result: ask for an Array");
    T value{};
    TreeReader at(path, narrowing);
    detail::read_value(*this, value, at);
    return value;
  }
}

/// A complex number is an array of rank 0.
template <class T>
requires std::same_as<T, float> || std::same_as<T, double>
struct TreeForm<std::complex<T>> {
  static constexpr DType kDType = dtype_of<std::complex<T>>();

  static Tree make(const std::complex<T>& value) {
    Array number(Shape{}, kDType);
    number.data<std::complex<T>>()[0] = value;
    return number;
  }

  static void read(const Tree& tree, std::complex<T>& value, TreeReader& at) {
    detail::read_complex(tree, kDType, std::as_writable_bytes(std::span(&value, 1)), at.path, at.narrowing);
  }
};

template <class Vector>
Vector Tree::elements(std::string_view path) const {
  const Array& held = array(path, dtype_of<typename Vector::value_type>());
  Vector elements(static_cast<std::size_t>(held.element_count()));
  if (!elements.empty()) {
    copy_range(held.view(), 0, std::as_writable_bytes(std::span(elements)));
  }
  return elements;
}

}  // namespace cairn
