// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>

#include "cairn/handlers/tree.hpp"

namespace cairn {

/// A struct or class whose members BOOST_DESCRIBE_STRUCT or BOOST_DESCRIBE_CLASS has listed.
template <class T>
concept Described = std::is_class_v<T> && boost::describe::has_describe_members<T>::value;

namespace detail {

template <class T>
using PublicMembers =
    boost::describe::describe_members<T, boost::describe::mod_public | boost::describe::mod_inherited>;

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

template <class T>
inline constexpr bool kIsStringMap = false;
template <class T, class Less, class Allocator>
inline constexpr bool kIsStringMap<std::map<std::string, T, Less, Allocator>> = true;

template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;

template <class T>
inline constexpr bool kIsStdArray = false;
template <class T, std::size_t N>
inline constexpr bool kIsStdArray<std::array<T, N>> = true;

template <class T>
concept SpanOfElements = kIsSpan<T> && ArrayElement<typename T::element_type>;

/// Errors: Errc::structure_mismatch, listing what the map lacks of `keys` and has beside them.
void check_keys(const Tree& map, std::span<const std::string_view> keys, std::string_view path);

/// Errors: Errc::type_mismatch when the node is no map.
[[nodiscard]] const Tree::Map& map_of(const Tree& node, std::string_view path);

/// Copies an array of rank 1.
///
/// Errors: Errc::type_mismatch, Errc::dtype_mismatch; Errc::shape_mismatch unless it has `count` elements.
void read_elements(const Tree& leaf, DType dtype, std::span<std::byte> out, std::uint64_t count,
                   std::string_view path);

/// The number of elements of an array of rank 1.
/// Errors: Errc::type_mismatch, Errc::shape_mismatch.
[[nodiscard]] std::size_t element_count_of(const Tree& leaf, std::string_view path);

/// Errors: Errc::type_mismatch when the node is no list; Errc::shape_mismatch when its length is another.
void check_list(const Tree& list, std::size_t size, std::string_view path);

/// The integer 0 or 1 as what it was saved from.
/// Errors: Errc::type_mismatch when the node is anything else.
[[nodiscard]] bool boolean_of(const Tree& leaf, std::string_view path);

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

template <class T>
Tree describe_value(const T& value) {
  if constexpr (std::same_as<T, Tree> || TreeLeaf<const T&>) {
    return value;
  } else if constexpr (std::is_enum_v<T>) {
    using Number =
        std::conditional_t<std::is_signed_v<std::underlying_type_t<T>>, std::int64_t, std::uint64_t>;
    return static_cast<Number>(value);
  } else if constexpr (kIsOptional<T>) {
    return value ? describe_value(*value) : Tree();
  } else if constexpr (kIsStringMap<T>) {
    Tree tree = Tree::map();
    for (const auto& [key, child] : value) {
      tree.as_map().try_emplace(key, describe_value(child));
    }
    return tree;
  } else if constexpr (kIsVector<T> || kIsStdArray<T>) {
    Tree tree = Tree::list();
    for (const auto& element : value) {
      tree.push_back(describe_value(static_cast<const typename T::value_type&>(element)));
    }
    return tree;
  } else {
    static_assert(Described<T>,
                  "a member's type has no form in a tree: describe it with BOOST_DESCRIBE_STRUCT");
    Tree tree = Tree::map();
    boost::mp11::mp_for_each<PublicMembers<T>>(
        [&](auto member) { tree.as_map().try_emplace(member.name, describe_value(value.*member.pointer)); });
    return tree;
  }
}

template <class T>
void read_value(const Tree& tree, T& value, std::string& path);

/// Characters and booleans are no integers of a tree, but enums of them are.
template <class T>
void read_enum(const Tree& tree, T& value, std::string_view path) {
  using Underlying = std::underlying_type_t<T>;
  if constexpr (std::is_same_v<Underlying, bool>) {
    value = static_cast<T>(boolean_of(tree, path));
  } else {
    using Number = std::conditional_t<std::is_signed_v<Underlying>, std::make_signed_t<Underlying>,
                                      std::make_unsigned_t<Underlying>>;
    value = static_cast<T>(tree.as<Number>(path));
  }
}

template <class T>
void read_list(const Tree& tree, T& value, std::string& path) {
  if constexpr (kIsVector<T>) {
    check_list(tree, tree.size(), path);
    value.resize(tree.size());
  } else {
    check_list(tree, value.size(), path);
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const PathKey key(path, i);
    if constexpr (std::same_as<T, std::vector<bool>>) {
      value[i] = tree[i].template as<bool>(path);
    } else {
      read_value(tree[i], value[i], path);
    }
  }
}

template <class T>
void read_members(const Tree& tree, T& value, std::string& path) {
  constexpr std::size_t kCount = boost::mp11::mp_size<PublicMembers<T>>::value;
  std::array<std::string_view, kCount> names;
  std::size_t next = 0;
  boost::mp11::mp_for_each<PublicMembers<T>>([&](auto member) { names[next++] = member.name; });
  check_keys(tree, names, path);
  boost::mp11::mp_for_each<PublicMembers<T>>([&](auto member) {
    const PathKey key(path, member.name);
    read_value(tree[std::string_view(member.name)], value.*member.pointer, path);
  });
}

template <class T>
void read_value(const Tree& tree, T& value, std::string& path) {
  if constexpr (std::same_as<T, Tree>) {
    value = tree;
  } else if constexpr (std::is_enum_v<T>) {
    read_enum(tree, value, path);
  } else if constexpr (kIsOptional<T>) {
    value.reset();
    if (!tree.is_null()) {
      read_value(tree, value.emplace(), path);
    }
  } else if constexpr (kIsStringMap<T>) {
    value.clear();
    for (const auto& [name, child] : map_of(tree, path)) {
      const PathKey key(path, name);
      read_value(child, value[name], path);
    }
  } else if constexpr (std::same_as<T, Bytes>) {
    value = tree.as<Bytes>(path);
  } else if constexpr (kIsArrayVector<T>) {
    value.resize(element_count_of(tree, path));
    read_elements(tree, dtype_of<typename T::value_type>(), std::as_writable_bytes(std::span(value)),
                  value.size(), path);
  } else if constexpr (SpanOfElements<T> || (kIsStdArray<T> && TreeLeaf<T&>)) {
    read_elements(tree, dtype_of<typename T::value_type>(), std::as_writable_bytes(std::span(value)),
                  value.size(), path);
  } else if constexpr (kIsVector<T> || kIsStdArray<T>) {
    read_list(tree, value, path);
  } else if constexpr (Described<T>) {
    read_members(tree, value, path);
  } else {
    value = tree.as<T>(path);
  }
}

}  // namespace detail

/// A struct as a tree: members become keys, in the order of their names.
///
/// Vectors, std::arrays and spans of numbers become arrays that borrow the members; enums integers; an empty
/// optional null; std::map<std::string, T> a map; other vectors and std::arrays lists; described structs
/// maps.
/// Ownership: the object must stay valid, and its vectors in place, as long as the tree is used.
/// Example:   save("run/100", to_tree(simulation));
template <Described T>
[[nodiscard]] Tree to_tree(const T& object) {
  return detail::describe_value(object);
}

/// Fills a struct from a tree that to_tree made of its like. The elements of arrays are copied, except those
/// of members of type Array, which share them with the tree; spans must have the stored length.
///
/// Errors: Errc::structure_mismatch when members and keys differ; Errc::type_mismatch, Errc::dtype_mismatch,
///         Errc::shape_mismatch; each names the path. Members before the culprit have then been filled.
template <Described T>
void from_tree(const Tree& tree, T& object) {
  std::string path;
  detail::read_value(tree, object, path);
}

}  // namespace cairn
