// SPDX-License-Identifier: Apache-2.0
#pragma once

// How values are read from trees: leaves, containers, memory that is filled. Part of cairn/handlers/tree.hpp.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cairn/array/array.hpp"
#include "cairn/array/array_view.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/array/sharded_array.hpp"
#include "cairn/handlers/tree_form.hpp"
#include "cairn/handlers/tree_leaf.hpp"
#include "cairn/handlers/tree_node.hpp"

namespace cairn::detail {

/// A type to which a load may give another length. Vectors of Eigen have `resize`, too, but those that are bounded
/// end the program in it.
template <class T>
concept Resizable = requires(T& value, std::size_t size) {
  value.resize(size);
}
&&!requires {
  requires T::MaxSizeAtCompileTime != -1;
};

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

/// Errors: Errc::shape_mismatch when the numbers differ.
void check_count(std::size_t stored, std::size_t wanted, std::string_view path);

/// Errors: Errc::type_mismatch when the node is not a list; Errc::shape_mismatch when its length differs.
void check_list(const Tree& list, std::size_t size, std::string_view path);

/// Errors: Errc::structure_mismatch, always: a set has no second element that is equal.
[[noreturn]] void throw_twice(std::string_view path);

/// Errors: Errc::shape_mismatch when the text has more characters than fit.
void read_text(const Tree& leaf, std::span<char> out, std::string_view path);

/// Copies an array.
///
/// Errors: Errc::type_mismatch, Errc::dtype_mismatch, Errc::shape_mismatch.
void read_view(const Tree& leaf, const MutableArrayView& out, std::string_view path);

/// The integer 0 or 1 as what it was saved from.
/// Errors: Errc::type_mismatch when the node is anything else.
[[nodiscard]] bool boolean_of(const Tree& leaf, std::string_view path);

/// The integer that a key says, as a leaf. `path` is that of the map's child.
///
/// Errors: Errc::type_mismatch when it is not a decimal number, or not written as to_string writes it.
[[nodiscard]] Tree number_of_key(std::string_view key, std::string_view path);

/// Refuses differences that leave nothing of a tree: something was wanted, something is stored, and nothing fits.
///
/// Errors: Errc::structure_mismatch.
void require_some_taken(const Tree& stored, const MemberDifferences& differences);

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
  if constexpr (Resizable<T>) {
    const std::size_t count = element_count_of(tree, at.path);
    if (static_cast<std::size_t>(std::ranges::size(elements)) != count) {
      elements.resize(count);
    }
  }
  if (at.places != nullptr) {
    add_place(*at.places, at.path, MutableArrayView(elements));
  } else {
    read_elements(tree, dtype_of<std::ranges::range_value_t<T>>(),
                  std::as_writable_bytes(std::span(elements)),
                  static_cast<std::uint64_t>(std::ranges::size(elements)), at.path);
  }
}

template <class T>
void read_map(const Tree& tree, T& value, TreeReader& at) {
  T before =
      std::move(value);  // What has the same key stays where it is, and keeps members that are not stored.
  value.clear();
  const auto read_one = [&](const std::string& text, const Tree& child) {
    const PathKey name(at.path, text);
    const auto key = read_key<typename T::key_type>(text, at.path);
    value.insert(before.extract(key));
    read_value(child, value[key], at);
  };
  if constexpr (TreeInteger<typename T::key_type>) {
    if (tree.is_list()) {  // Layers 0, 1 and so on that were a flat map's, where those of another file have gaps.
      for (std::size_t i = 0; i < tree.size(); ++i) {
        read_one(std::to_string(i), tree[i]);
      }
      return;
    }
  }
  for (const auto& [text, child] : map_of(tree, at.path)) {
    read_one(text, child);
  }
}

template <class T>
void read_list(const Tree& tree, T& value, TreeReader& at) {
  if constexpr (kIsSequence<T>) {
    check_list(tree, tree.size(), at.path);
    value.resize(tree.size());
  } else {
    check_list(tree, std::size(value), at.path);
  }
  std::size_t i = 0;
  for (auto&& element : value) {
    const PathKey key(at.path, i);
    if constexpr (kIsBits<T>) {
      element = tree[i].template as<bool>(at.path);
    } else {
      read_value(tree[i], element, at);
    }
    ++i;
  }
}

template <class T>
void read_set(const Tree& tree, T& value, TreeReader& at) {
  check_list(tree, tree.size(), at.path);
  value.clear();
  for (std::size_t i = 0; i < tree.size(); ++i) {
    const PathKey key(at.path, i);
    typename T::value_type element{};
    read_value(tree[i], element, at);
    value.insert(std::move(element));
    if (value.size() != i + 1) {
      throw_twice(at.path);
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

/// What takes arrays over, or looks at their elements. Those of sets are complete before they are where they belong.
template <class T>
inline constexpr bool kNeedsElements = std::same_as<T, Tree> || std::same_as<T, Array> ||
                                       std::same_as<T, ShardedArray> || !ReadsInPlace<T> || kIsSet<T>;

/// What takes an array of one element for a number, or an array of bytes for Bytes.
template <class T>
inline constexpr bool kMayNeedElements =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || std::same_as<T, Bytes>;

template <class T>
void read_form(const Tree& tree, T& value, TreeReader& at) {
  if constexpr (std::same_as<T, Tree>) {
    value = tree;
  } else if constexpr (HasTreeForm<T>) {
    TreeForm<T>::read(tree, value, at);
  } else if constexpr (std::is_enum_v<T>) {
    value = enum_of_number<T>(tree, at.path);
  } else if constexpr (kIsOptional<T>) {
    if (tree.is_null()) {
      value.reset();
    } else {
      read_value(tree, value ? *value : value.emplace(), at);
    }
  } else if constexpr (kIsMap<T>) {
    read_map(tree, value, at);
  } else if constexpr (kIsTuple<T>) {
    read_tuple(tree, value, at);
  } else if constexpr (kIsSet<T>) {
    read_set(tree, value, at);
  } else if constexpr (kIsTextBuffer<T>) {
    read_text(tree, value, at.path);
  } else if constexpr (std::same_as<T, MutableArrayView>) {
    at.places != nullptr ? add_place(*at.places, at.path, value) : read_view(tree, value, at.path);
  } else if constexpr (HoldsElements<T>) {
    read_array(tree, value, at);
  } else if constexpr (IsNested<T>::value && !std::same_as<T, Bytes>) {
    read_list(tree, value, at);
  } else {
    value = tree.as<T>(at.path, at.narrowing);
  }
}

/// Fills a value from a tree that was made of its like.
template <class T>
void read_value(const Tree& tree, T& value, TreeReader& at) {
  static_assert(!std::is_const_v<T>, "nothing can be loaded into what is const");
  if constexpr (ShowsOthers<T> && !HasTreeForm<T>) {
    static_assert(!ShowsOthers<T>,
                  "this would show memory of the tree, which may be gone before it: load a std::string, a "
                  "std::vector or an Array");
  } else if constexpr (kIsTreeValue<T>) {
    if constexpr (kNeedsElements<T> || kMayNeedElements<T>) {
      if (at.places != nullptr && (kNeedsElements<T> || tree.is_array())) {
        return read_later(*at.places, at,
                          [&value](const Tree& node, TreeReader& later) { read_value(node, value, later); });
      }
    }
    read_form(tree, value, at);
  } else {
    static_cast<void>(sizeof(FormOf<T>));
  }
}

}  // namespace cairn::detail
