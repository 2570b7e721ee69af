// SPDX-License-Identifier: Apache-2.0
#pragma once

// Containers of the standard library as trees, and back. Part of cairn/handlers/tree.hpp.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cairn/array/array_view.hpp"
#include "cairn/handlers/tree_form.hpp"
#include "cairn/handlers/tree_leaf.hpp"
#include "cairn/handlers/tree_node.hpp"

namespace cairn {

namespace detail {

template <class T>
concept SpanOfElements = kIsSpan<T> && ArrayElement<typename T::element_type>;

/// Errors: Errc::type_mismatch when the node is not a map.
[[nodiscard]] const Tree::Map& map_of(const Tree& node, std::string_view path);

/// Copies an array of rank 1.
///
/// Errors: Errc::type_mismatch, Errc::dtype_mismatch; Errc::shape_mismatch unless it has `count` elements.
void read_elements(const Tree& leaf, DType dtype, std::span<std::byte> out, std::uint64_t count,
                   std::string_view path);

/// The number of elements of an array of rank 1.
/// Errors: Errc::type_mismatch, Errc::shape_mismatch.
[[nodiscard]] std::size_t element_count_of(const Tree& leaf, std::string_view path);

/// Errors: Errc::type_mismatch when the node is not a list; Errc::shape_mismatch when its length differs.
void check_list(const Tree& list, std::size_t size, std::string_view path);

/// The integer 0 or 1 as what it was saved from.
/// Errors: Errc::type_mismatch when the node is anything else.
[[nodiscard]] bool boolean_of(const Tree& leaf, std::string_view path);

/// The integer that a key says, as a leaf. `path` is that of the map's child.
///
/// Errors: Errc::type_mismatch when it is not a decimal number, or not written as to_string writes it.
[[nodiscard]] Tree number_of_key(std::string_view key, std::string_view path);

/// Asks for the elements of an array in the memory of a value that is being filled.
void add_place(Places& places, const std::string& path, MutableArrayView memory);

/// Leaves the reading of a node until the elements of arrays are there.
void read_later(Places& places, const TreeReader& at,
                std::function<void(const Tree& node, TreeReader& at)> read);

/// Appends a key to a path while it lives.
class PathKey {
 public:
  PathKey(std::string& path, std::string_view key);
  PathKey(std::string& path, std::size_t position);
  ~PathKey() { path_.resize(end_); }
  PathKey(const PathKey&) = delete;
  PathKey& operator=(const PathKey&) = delete;

 private:
  std::string& path_;
  std::size_t end_;
};

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

template <class E>
E enum_of_number(const Tree& leaf, std::string_view path) {
  using Underlying = std::underlying_type_t<E>;
  if constexpr (std::is_same_v<Underlying, bool>) {
    return static_cast<E>(boolean_of(leaf, path));
  } else {
    using Number = std::conditional_t<std::is_signed_v<Underlying>, std::make_signed_t<Underlying>,
                                      std::make_unsigned_t<Underlying>>;
    return static_cast<E>(leaf.as<Number>(path));
  }
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

template <class K>
K read_key(const std::string& text, std::string_view path) {
  if constexpr (std::same_as<K, std::string>) {
    return text;
  } else if constexpr (std::is_enum_v<K>) {
    return enum_of_number<K>(number_of_key(text, path), path);
  } else {
    return number_of_key(text, path).as<K>(path);
  }
}

template <class T>
void read_value(const Tree& tree, T& value, TreeReader& at);

/// Fills memory with the elements of an array of rank 1, or asks for them there.
template <class T>
void read_array(const Tree& tree, T& elements, TreeReader& at) {
  if (at.places != nullptr) {
    add_place(*at.places, at.path, MutableArrayView(elements));
  } else {
    read_elements(tree, dtype_of<typename T::value_type>(), std::as_writable_bytes(std::span(elements)),
                  elements.size(), at.path);
  }
}

template <class T>
void read_map(const Tree& tree, T& value, TreeReader& at) {
  value.clear();
  for (const auto& [key, child] : map_of(tree, at.path)) {
    const PathKey name(at.path, key);
    read_value(child, value[read_key<typename T::key_type>(key, at.path)], at);
  }
}

template <class T>
void read_list(const Tree& tree, T& value, TreeReader& at) {
  if constexpr (kIsVector<T>) {
    check_list(tree, tree.size(), at.path);
    value.resize(tree.size());
  } else {
    check_list(tree, value.size(), at.path);
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const PathKey key(at.path, i);
    if constexpr (std::same_as<T, std::vector<bool>>) {
      value[i] = tree[i].template as<bool>(at.path);
    } else {
      read_value(tree[i], value[i], at);
    }
  }
}

template <class T>
void read_tuple(const Tree& tree, T& value, TreeReader& at) {
  check_list(tree, std::tuple_size_v<T>, at.path);
  std::size_t i = 0;
  const auto read_one = [&](auto& part) {
    const PathKey key(at.path, i);
    read_value(tree[i], part, at);
    ++i;
  };
  std::apply([&read_one](auto&... parts) { (read_one(parts), ...); }, value);
}

/// What takes arrays over, or looks at their elements.
template <class T>
inline constexpr bool kNeedsElements =
    std::same_as<T, Tree> || std::same_as<T, Array> || std::same_as<T, ShardedArray> || !ReadsInPlace<T>;

/// Fills a value from a tree that was made of its like.
template <class T>
void read_value(const Tree& tree, T& value, TreeReader& at) {
  if constexpr (kNeedsElements<T>) {
    if (at.places != nullptr) {
      return read_later(*at.places, at,
                        [&value](const Tree& node, TreeReader& later) { read_value(node, value, later); });
    }
  }
  if constexpr (std::same_as<T, Tree>) {
    value = tree;
  } else if constexpr (HasTreeForm<T>) {
    TreeForm<T>::read(tree, value, at);
  } else if constexpr (std::is_enum_v<T>) {
    value = enum_of_number<T>(tree, at.path);
  } else if constexpr (kIsOptional<T>) {
    value.reset();
    if (!tree.is_null()) {
      read_value(tree, value.emplace(), at);
    }
  } else if constexpr (kIsMap<T>) {
    read_map(tree, value, at);
  } else if constexpr (kIsTuple<T>) {
    read_tuple(tree, value, at);
  } else if constexpr (std::same_as<T, Bytes>) {
    value = tree.as<Bytes>(at.path);
  } else if constexpr (kIsArrayVector<T>) {
    value.resize(element_count_of(tree, at.path));
    read_array(tree, value, at);
  } else if constexpr (SpanOfElements<T> || (kIsStdArray<T> && TreeLeaf<T&>)) {
    read_array(tree, value, at);
  } else if constexpr (kIsVector<T> || kIsStdArray<T>) {
    read_list(tree, value, at);
  } else {
    value = tree.as<T>(at.path, at.narrowing);
  }
}

}  // namespace detail

template <class T>
Tree Tree::nest(T&& value) {
  using Plain = std::remove_cvref_t<T>;
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
  } else {
    Tree tree = list();
    tree.as_list().reserve(value.size());
    if constexpr (std::same_as<Plain, std::vector<bool>>) {
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

}  // namespace cairn
