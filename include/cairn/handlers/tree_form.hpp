// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which C++ types are trees: leaves, containers of the standard library, and types that say how.

#include <array>
#include <concepts>
#include <cstddef>
#include <deque>
#include <forward_list>
#include <functional>
#include <initializer_list>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/handlers/tree_leaf.hpp"

namespace cairn {

namespace detail {

class Places;

}  // namespace detail

/// Where the members of structs and the stored keys differ, by their paths.
struct MemberDifferences {
  std::vector<std::string> missing;     ///< Members that are not stored: they keep their values.
  std::vector<std::string> unexpected;  ///< Keys that are no members: what they hold is left out.
};

/// Names of arrays that have several, by their paths. A struct need not have a member for each of them.
struct ArrayNames {
  std::set<std::string, std::less<>> names;
  std::vector<std::string> left_out;  ///< Those without a member.
};

/// The place in a tree from which a value is being read.
struct TreeReader {
  explicit TreeReader(std::string_view path_of_node = {}, Narrowing narrowing_allowed = Narrowing::refused)
      : path(path_of_node), narrowing(narrowing_allowed) {}

  std::string path;                          ///< The path of the node that is read, for errors.
  Narrowing narrowing = Narrowing::refused;  ///< Whether numbers may become others; see Tree::as.
  MemberDifferences* differences = nullptr;  ///< Takes where members and keys differ; null: that is an error.
  ArrayNames* array_names = nullptr;         ///< Null: none are known.
  detail::Places* places = nullptr;  ///< Who brings the elements of arrays later; null: they are there.
};

/// How values of a type become trees, and come back. Specialise it for a type of yours, which then is one of the
/// values that trees, their containers and `Tree::as` take:
///   static Tree make(const T& value);                               arrays may be borrowed from an lvalue
///   static void read(const Tree& tree, T& value, TreeReader& at);   throws what names `at.path`
/// One that borrows arrays has `make(T&& value)`, too, which takes them over. One that reads nothing but by Tree::as
/// with `at` may say `kReadsInPlace`: its arrays are then loaded where they belong; see `into`.
template <class T>
struct TreeForm {};

namespace detail {

template <class T>
concept HasTreeForm = requires(const T& value, const Tree& tree, T& read_into, TreeReader& at) {
  TreeForm<T>::make(value);
  TreeForm<T>::read(tree, read_into, at);
};

template <class T>
concept ReadsInPlace = !HasTreeForm<T> || requires {
  TreeForm<T>::kReadsInPlace;
};

/// What keys of maps may be; those of a tree are strings.
template <class K>
concept TreeKey = std::same_as<K, std::string> || TreeInteger<K> || std::is_enum_v<K>;

/// Says whether a type is a container whose elements are values of trees, or an enum.
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

/// Booleans that are bits: its elements are no objects.
template <class T>
inline constexpr bool kIsBits = false;
template <class Allocator>
inline constexpr bool kIsBits<std::vector<bool, Allocator>> = true;

/// What is as long as one makes it.
template <class T>
inline constexpr bool kIsSequence = false;
template <class T, class Allocator>
inline constexpr bool kIsSequence<std::vector<T, Allocator>> = true;
template <class T, class Allocator>
inline constexpr bool kIsSequence<std::deque<T, Allocator>> = true;
template <class T, class Allocator>
inline constexpr bool kIsSequence<std::list<T, Allocator>> = true;
template <class T, class Allocator>
inline constexpr bool kIsSequence<std::forward_list<T, Allocator>> = true;

template <class T>
inline constexpr bool kIsOrderedSet = false;
template <class T, class Less, class Allocator>
inline constexpr bool kIsOrderedSet<std::set<T, Less, Allocator>> = true;
template <class T, class Less, class Allocator>
inline constexpr bool kIsOrderedSet<std::multiset<T, Less, Allocator>> = true;

template <class T>
inline constexpr bool kIsUnorderedSet = false;
template <class T, class Hash, class Equal, class Allocator>
inline constexpr bool kIsUnorderedSet<std::unordered_set<T, Hash, Equal, Allocator>> = true;
template <class T, class Hash, class Equal, class Allocator>
inline constexpr bool kIsUnorderedSet<std::unordered_multiset<T, Hash, Equal, Allocator>> = true;

template <class T>
inline constexpr bool kIsSet = kIsOrderedSet<T> || kIsUnorderedSet<T>;

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

template <class T>
requires(kIsSequence<T> || kIsSet<T>) struct IsNested<T>
    : std::bool_constant<kIsTreeValue<typename T::value_type>> {
};

template <class T, std::size_t N>
struct IsNested<std::array<T, N>> : std::bool_constant<kIsTreeValue<T>> {};

template <class T, std::size_t N>
struct IsNested<T[N]> : std::bool_constant<kIsTreeValue<T>> {};

template <class A, class B>
struct IsNested<std::pair<A, B>> : std::bool_constant<kIsTreeValue<A> && kIsTreeValue<B>> {};

template <class... T>
struct IsNested<std::tuple<T...>> : std::bool_constant<(kIsTreeValue<T> && ...)> {};

/// Says whether a value that is saved loads as one of its type, or, where it shows memory of others, as what
/// owns it. All leaves do.
template <class T>
struct ComesBack : std::bool_constant<!std::is_const_v<T>> {};

/// Of what a load makes room for: elements of containers.
template <class T>
inline constexpr bool kIsMadeByLoads = ComesBack<T>::value&& std::default_initializable<T>;

template <class T>
requires(kIsSequence<T> || kIsSet<T>) struct ComesBack<T>
    : std::bool_constant<kIsMadeByLoads<typename T::value_type>> {
};

template <class T>
struct ComesBack<std::optional<T>> : std::bool_constant<kIsMadeByLoads<T>> {};

template <class T>
requires kIsMap<T>
struct ComesBack<T> : std::bool_constant<kIsMadeByLoads<typename T::mapped_type>> {
};

template <class A, class B>
struct ComesBack<std::pair<A, B>> : std::bool_constant<ComesBack<A>::value && ComesBack<B>::value> {};

template <class... T>
struct ComesBack<std::tuple<T...>> : std::bool_constant<(ComesBack<T>::value && ...)> {};

/// A type that nothing makes a tree of: to name it is an error that says what to do, where the compiler names the type.
template <class T>
struct FormOf {
  static_assert(kIsTreeValue<T>,
                "this type has no form in a tree: describe it with BOOST_DESCRIBE_STRUCT and include "
                "cairn/handlers/describe.hpp, specialise cairn::TreeForm for it, or save what it holds as an "
                "array");
};

template <class T>
concept ConvertsToTree = std::derived_from<T, Tree> || requires(const T& value) {
  value.operator Tree();
};

template <class T>
inline constexpr bool kIsInitializerList = false;
template <class T>
inline constexpr bool kIsInitializerList<std::initializer_list<T>> = true;

/// What is given for a tree and is none; see FormOf.
template <class T, class Plain = std::remove_cvref_t<T>>
concept WithoutTreeForm = !std::same_as<Plain, TreeItem> && !std::is_enum_v<Plain> &&
                          !kIsInitializerList<Plain> && !ConvertsToTree<Plain> && !kIsTreeValue<Plain>;

/// What a tree is made of that is not a leaf. A const temporary could only be borrowed, and would be gone.
template <class T, class Plain = std::remove_cvref_t<T>>
concept TreeNested = !TreeLeaf<T> && (std::is_lvalue_reference_v<T> ||
                                      !std::is_const_v<T>)&&(HasTreeForm<Plain> || IsNested<Plain>::value);

}  // namespace detail

/// A type whose values trees take, and `Tree::as` returns: a leaf, an enum, std::optional, std::map and
/// std::unordered_map (with keys that are strings, integers or enums), sequences, sets, std::arrays, C arrays, pairs
/// and tuples of those, durations, random engines, and types with a TreeForm. What shows memory of others
/// (std::string_view, std::span<const T>, ArrayView) is taken, and loads as what owns it.
template <class T>
concept TreeValue = detail::kIsTreeValue<std::remove_cvref_t<T>>;

}  // namespace cairn
