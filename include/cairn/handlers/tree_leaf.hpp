// SPDX-License-Identifier: Apache-2.0
#pragma once

// What may be a leaf of a tree.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/array/sharded_array.hpp"

namespace cairn {

class Tree;
class TreeItem;

/// Bytes that mean nothing to Cairn. In a tree they are a leaf; a span of bytes is an array of uint8.
using Bytes = std::vector<std::byte>;

/// The most containers around a leaf of a tree that is saved or loaded.
inline constexpr std::size_t kMaxTreeDepth = 1000;

/// Says what a node of a tree is.
enum class TreeKind : std::uint8_t {
  null,
  boolean,
  integer,
  floating,
  string,
  bytes,
  array,
  sharded_array,
  map,
  list
};

/// "integer", "map"…, for messages.
[[nodiscard]] std::string_view name(TreeKind kind) noexcept;

namespace detail {

struct TreeAccess;

/// A string as a tree has it.
struct TreeText {
  std::string text;
  bool is_random_state = false;  ///< See Tree::random_state; does not count when texts are compared.

  friend bool operator==(const TreeText& a, const TreeText& b) noexcept { return a.text == b.text; }
};

template <class T>
concept TreeInteger = std::integral<T> && !std::same_as<T, bool> && !Character<T>;

/// An array that is a temporary and owns its elements: a tree takes it over.
template <class T>
concept AdoptableRange =
    !std::is_reference_v<T> && !std::is_const_v<T> && !BorrowableRange<T> && MutableBorrowableRange<T&>;

template <class T, class Plain = std::remove_cvref_t<T>>
concept TreeLeaf =
    !std::same_as<Plain, Tree> && !std::same_as<Plain, TreeItem> &&
    (std::same_as<Plain, std::nullptr_t> || std::same_as<Plain, bool> || TreeInteger<Plain> ||
     std::same_as<Plain, float> || std::same_as<Plain, double> || std::same_as<Plain, Bytes> ||
     std::same_as<Plain, Array> || std::same_as<Plain, ShardedArray> || std::derived_from<Plain, ArrayView> ||
     std::convertible_to<T, std::string_view> || BorrowableRange<T> || AdoptableRange<T>);

template <class T>
inline constexpr bool kIsSpan = false;
template <class T, std::size_t N>
inline constexpr bool kIsSpan<std::span<T, N>> = true;

/// Of whatever allocator: that is the program's affair.
template <class T>
inline constexpr bool kIsArrayVector = false;
template <ArrayElement T, class Allocator>
inline constexpr bool kIsArrayVector<std::vector<T, Allocator>> =
    !std::same_as<T, bool>;  // Bits are not elements.

template <class T>
inline constexpr bool kIsString = false;
template <class Allocator>
inline constexpr bool kIsString<std::basic_string<char, std::char_traits<char>, Allocator>> = true;

/// A text of at most so many characters, with a NUL behind it where there is room.
template <class T>
inline constexpr bool kIsTextBuffer = false;
template <std::size_t N>
inline constexpr bool kIsTextBuffer<char[N]> = true;

/// Memory that a load can fill: vectors and valarrays of numbers, std::arrays, C arrays, spans that are not const.
template <class T>
concept HoldsElements = MutableBorrowableRange<T&> && !std::same_as<T, Bytes>;

/// What shows memory of others, to be read: its text or its elements are saved, and load as what owns them.
template <class T>
concept ShowsOthers = (std::derived_from<T, ArrayView> && !std::derived_from<T, MutableArrayView>) ||
                      (std::convertible_to<const T&, std::string_view> && !kIsString<T> &&
                       !kIsTextBuffer<T> && !std::same_as<T, std::nullptr_t>) ||
                      (BorrowableRange<T&> && !MutableBorrowableRange<T&>);

/// What `Tree::as` returns that shows the node.
template <class T>
inline constexpr bool kShowsNode = kIsSpan<T> || ShowsOthers<T>;

}  // namespace detail

}  // namespace cairn
