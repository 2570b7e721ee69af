// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which C++ types are trees: leaves, containers of the standard library, and types that say how.

#include <array>
#include <concepts>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/handlers/tree_leaf.hpp"

namespace cairn {

namespace detail {

class Places;

}  // namespace detail

/// Where a value is being read from a tree.
struct TreeReader {
  explicit TreeReader(std::string_view path_of_node = {}, Narrowing narrowing_allowed = Narrowing::refused)
      : path(path_of_node), narrowing(narrowing_allowed) {}

  std::string path;                          ///< The path of the node that is read, for errors.
  Narrowing narrowing = Narrowing::refused;  ///< Whether numbers may become others; see Tree::as.
  detail::Places* places = nullptr;  ///< Who brings the elements of arrays later; null: they are there.
};

/// How values of a type become trees, and come back. Specialise it for a type of yours, which then is one of the values that
/// trees, their containers and `Tree::as` take:
///   static Tree make(const T& value);                               arrays may be borrowed from an lvalue
///   static void read(const Tree& tree, T& value, TreeReader& at);   throws what names `at.path`
/// One that borrows arrays has `make(T&& value)`, too, which takes them over. One that reads nothing but by Tree::as with `at` may say
/// `kReadsInPlace`: its arrays are then loaded where they belong; see `into`.
template <class T>
struct TreeForm {};

namespace detail {

template <class T>
concept HasTreeForm = requires(const T& value) {
  TreeForm<T>::make(value);
};

template <class T>
concept ReadsInPlace = !HasTreeForm<T> || requires {
  TreeForm<T>::kReadsInPlace;
};

/// What keys of maps may be; those of a tree are strings.
template <class K>
concept TreeKey = std::same_as<K, std::string> || TreeInteger<K> || std::is_enum_v<K>;

/// Whether a type is a container whose elements are values of trees, or an enum.
template <class T>
struct IsNested : std::bool_constant<std::is_enum_v<T> && !std::same_as<T, TreeKind>> {};

template <class T>
inline constexpr bool kIsTreeValue =
    std::same_as<T, Tree> || TreeLeaf<const T&> || HasTreeForm<T> || IsNested<T>::value;

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

template <class T>
inline constexpr bool kIsMap = false;
template <class K, class T, class Less, class Allocator>
inline constexpr bool kIsMap<std::map<K, T, Less, Allocator>> = true;
template <class K, class T, class Hash, class Equal, class Allocator>
inline constexpr bool kIsMap<std::unordered_map<K, T, Hash, Equal, Allocator>> = true;

template <class T>
inline constexpr bool kIsVector = false;
template <class T, class Allocator>
inline constexpr bool kIsVector<std::vector<T, Allocator>> = true;

template <class T>
inline constexpr bool kIsStdArray = false;
template <class T, std::size_t N>
inline constexpr bool kIsStdArray<std::array<T, N>> = true;

/// Pairs and tuples.
template <class T>
inline constexpr bool kIsTuple = false;
template <class A, class B>
inline constexpr bool kIsTuple<std::pair<A, B>> = true;
template <class... T>
inline constexpr bool kIsTuple<std::tuple<T...>> = true;

// Null stands for the empty one: what may be null itself would not come back.
template <class T>
struct IsNested<std::optional<T>> : std::bool_constant<kIsTreeValue<T> && !kIsOptional<T>> {};

template <class K, class T, class Less, class Allocator>
struct IsNested<std::map<K, T, Less, Allocator>> : std::bool_constant<TreeKey<K> && kIsTreeValue<T>> {};

template <class K, class T, class Hash, class Equal, class Allocator>
struct IsNested<std::unordered_map<K, T, Hash, Equal, Allocator>>
    : std::bool_constant<TreeKey<K> && kIsTreeValue<T>> {};

template <class T, class Allocator>
struct IsNested<std::vector<T, Allocator>> : std::bool_constant<kIsTreeValue<T>> {};

template <class T, std::size_t N>
struct IsNested<std::array<T, N>> : std::bool_constant<kIsTreeValue<T>> {};

template <class A, class B>
struct IsNested<std::pair<A, B>> : std::bool_constant<kIsTreeValue<A> && kIsTreeValue<B>> {};

template <class... T>
struct IsNested<std::tuple<T...>> : std::bool_constant<(kIsTreeValue<T> && ...)> {};

/// What a tree is made of that is not a leaf. A const temporary could only be borrowed, and would be gone.
template <class T, class Plain = std::remove_cvref_t<T>>
concept TreeNested = !TreeLeaf<T> && (std::is_lvalue_reference_v<T> ||
                                      !std::is_const_v<T>)&&(HasTreeForm<Plain> || IsNested<Plain>::value);

}  // namespace detail

/// A type whose values trees take, and `Tree::as` returns: a leaf, an enum, std::optional, std::map and std::unordered_map (with
/// keys that are strings, integers or enums), vectors, std::arrays, pairs and tuples of those, and types with a TreeForm.
template <class T>
concept TreeValue = detail::kIsTreeValue<std::remove_cvref_t<T>>;

}  // namespace cairn
