// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/array/sharded_array.hpp"
#include "cairn/handlers/tree_form.hpp"
#include "cairn/handlers/tree_leaf.hpp"

namespace cairn {

/// Nested maps and lists whose leaves are arrays, sharded or whole, integers, floats, booleans, strings, bytes and
/// null.
///
/// Braces make trees: a list of pairs whose first parts are strings is a map, any other list is a list. Vectors,
/// std::arrays and views of numbers that outlive the expression are borrowed as arrays, temporary ones taken over.
/// Other containers, enums and types with a TreeForm become nodes, too. Copies of a tree have containers and scalars
/// of their own; the elements of arrays are shared, as with Array.
///
/// A path names a node: keys joined by '/', with '~' in a key written "~0", '/' "~1" and an empty key "~2"; elements
/// of lists have decimal keys. The root's path is empty. Where a program writes a path, a key with a '~' that is no
/// escape is that key.
///
/// A temporary returns its parts as values, so that nothing refers to what is gone: `load(path).at("w")`. What would
/// point into one (`find`, `array_if`, `bytes_if`) does not compile: name the tree first.
///
/// Ownership: as Array: what is borrowed must stay valid as long as the tree and its copies are used.
/// Threads:   a value.
/// Example:   Tree state = {{"params", {{"w", w}, {"b", b}}}, {"step", 100}};
class Tree {
 public:
  using Map = std::map<std::string, Tree, std::less<>>;
  using List = std::vector<Tree>;

  /// Null; becomes a map at the first `tree[key]`.
  Tree() noexcept;

  /// Errors: Errc::invalid_argument when a key is given twice.
  Tree(std::initializer_list<TreeItem> items);

  template <class T>
  // NOLINTNEXTLINE(google-explicit-constructor): leaves are written as they are.
  requires detail::TreeLeaf<T> Tree(T&& value) : value_(leaf_value(std::forward<T>(value))) {}

  /// A list, a map, null or a number of what is not a leaf; see TreeValue. A pair or tuple is a list, and so are
  /// std::vector<bool> and sets; the elements of unordered ones are sorted.
  /// Ownership: arrays in a container that is an lvalue are borrowed, those in a temporary taken over.
  template <class T>
  // NOLINTNEXTLINE(google-explicit-constructor)
  requires detail::TreeNested<T> Tree(T&& value) : Tree(nest(std::forward<T>(value))) {}

  /// Does not compile for any other type, also by braces and by assignment: the error names it. TreeValue tells whether
  /// a type is one of those.
  template <class T>
  requires detail::WithoutTreeForm<T>
  explicit Tree(T&& /*value*/) { static_cast<void>(sizeof(detail::FormOf<std::remove_cvref_t<T>>)); }

  template <class T>
  requires detail::WithoutTreeForm<T> Tree& operator=(T&& value) {
    return *this = Tree(std::forward<T>(value));
  }

  Tree(const Tree& other);

  Tree(Tree&& other) noexcept;
  Tree& operator=(Tree other) noexcept;

  ~Tree();

  /// A map or a list whatever the braces look like.
  [[nodiscard]] static Tree map(Map children = {});
  [[nodiscard]] static Tree list(List elements = {});
  [[nodiscard]] static Tree list(std::initializer_list<TreeItem> items);

  /// A string that is the state of a random engine: each rank may have its own, and saves do not compare them. For the
  /// TreeForm of an engine. It is stored, and loads, as any string.
  [[nodiscard]] static Tree random_state(std::string state);

  [[nodiscard]] TreeKind kind() const noexcept;

  [[nodiscard]] bool is_null() const noexcept { return kind() == TreeKind::null; }

  [[nodiscard]] bool is_map() const noexcept { return kind() == TreeKind::map; }

  [[nodiscard]] bool is_list() const noexcept { return kind() == TreeKind::list; }

  [[nodiscard]] bool is_array() const noexcept { return kind() == TreeKind::array; }

  [[nodiscard]] bool is_string() const noexcept { return kind() == TreeKind::string; }

  [[nodiscard]] bool is_integer() const noexcept { return kind() == TreeKind::integer; }

  /// Returns whether `random_state` has made this leaf.
  [[nodiscard]] bool is_random_state() const noexcept {
    const auto* text = std::get_if<detail::TreeText>(&value_);
    return text != nullptr && text->is_random_state;
  }

  /// Children of a map or list; 0 for leaves.
  [[nodiscard]] std::size_t size() const noexcept;

  /// The child of that key; a map, or null that becomes one, gets a null child where there is none.
  ///
  /// Errors: Errc::type_mismatch when this is neither a map nor null.
  Tree& operator[](std::string_view key) &;

  /// Errors (all): Errc::type_mismatch when this is not a map or list; Errc::not_found.
  [[nodiscard]] const Tree& operator[](std::string_view key) const&;
  [[nodiscard]] Tree operator[](std::string_view key) && { return taken(std::as_const(*this)[key]); }
  [[nodiscard]] const Tree& operator[](std::size_t i) const&;
  Tree& operator[](std::size_t i) & { return const_cast<Tree&>(std::as_const(*this)[i]); }
  [[nodiscard]] Tree operator[](std::size_t i) && { return taken(std::as_const(*this)[i]); }

  /// The node with that path.
  ///
  /// Errors: Errc::not_found, naming the path.
  [[nodiscard]] const Tree& at(std::string_view path) const&;
  [[nodiscard]] Tree& at(std::string_view path) & { return const_cast<Tree&>(std::as_const(*this).at(path)); }
  [[nodiscard]] Tree at(std::string_view path) && { return taken(std::as_const(*this).at(path)); }

  /// As `at`, or null where there is none.
  [[nodiscard]] const Tree* find(std::string_view path) const&;
  const Tree* find(std::string_view path) const&& = delete;

  [[nodiscard]] bool contains(std::string_view path) const { return find(path) != nullptr; }

  /// The children, to iterate and to change.
  ///
  /// Errors: Errc::type_mismatch when this is another kind of node.
  [[nodiscard]] const Map& as_map() const&;
  [[nodiscard]] Map& as_map() & { return const_cast<Map&>(std::as_const(*this).as_map()); }
  [[nodiscard]] Map as_map() && { return std::move(as_map()); }
  [[nodiscard]] const List& as_list() const&;
  [[nodiscard]] List& as_list() & { return const_cast<List&>(std::as_const(*this).as_list()); }
  [[nodiscard]] List as_list() && { return std::move(as_list()); }

  /// Appends to a list; null becomes one.
  /// Errors: Errc::type_mismatch when this is another kind of node.
  void push_back(Tree element);

  /// The leaf as a C++ value: bool, an integer type, float or double (also of an array of rank 0),
  /// std::string(_view), Bytes, Array, ShardedArray, std::span and std::vector of an array's elements, or any other
  /// TreeValue. An integer becomes a float that is exactly it; with Narrowing::allowed any number becomes any other:
  /// rounded as float, cut off and saturated as integer, NaN as 0.
  ///
  /// Ownership: string_view and span are valid as long as this node.
  /// Errors:    Errc::type_mismatch when the leaf is of another kind; Errc::unsafe_cast for a float as an integer,
  ///            for an integer that does not fit or is not a value of the float type, and for a number that exceeds
  ///            the range of float (one within it is rounded); Errc::dtype_mismatch when an array has other elements.
  ///            `path` is used in errors only. Of containers: as from_tree.
  template <class T>
  [[nodiscard]] T as(std::string_view path = {}, Narrowing narrowing = Narrowing::refused) const&;

  /// A view of the leaf of a temporary tree would be gone with it.
  template <class T>
  [[nodiscard]] T as(std::string_view path = {}, Narrowing narrowing = Narrowing::refused) const&& {
    static_assert(!detail::kShowsNode<T>,
                  "this shows memory of a temporary tree: name the tree first, or ask for a std::string or a "
                  "std::vector");
    return static_cast<const Tree&>(*this).template as<T>(path, narrowing);
  }

  /// The leaf with that path, as `as` returns it; errors name the path.
  template <class T>
  [[nodiscard]] T get(std::string_view path, Narrowing narrowing = Narrowing::refused) const& {
    return at(path).template as<T>(path, narrowing);
  }

  template <class T>
  [[nodiscard]] T get(std::string_view path, Narrowing narrowing = Narrowing::refused) const&& {
    static_assert(!detail::kShowsNode<T>,
                  "this shows memory of a temporary tree: name the tree first, or ask for a std::string or a "
                  "std::vector");
    return at(path).template as<T>(path, narrowing);
  }

  /// The array of this leaf; null when it is another kind of node.
  [[nodiscard]] const Array* array_if() const& noexcept { return std::get_if<Array>(&value_); }
  const Array* array_if() const&& = delete;

  [[nodiscard]] const ShardedArray* sharded_array_if() const& noexcept {
    return std::get_if<ShardedArray>(&value_);
  }
  const ShardedArray* sharded_array_if() const&& = delete;

  /// The bytes of this leaf; null when it is another kind of node.
  [[nodiscard]] const Bytes* bytes_if() const& noexcept { return std::get_if<Bytes>(&value_); }
  const Bytes* bytes_if() const&& = delete;

  /// The integer when it exceeds the range of std::int64_t; nothing for all other nodes.
  [[nodiscard]] std::optional<std::uint64_t> large_integer() const noexcept {
    const auto* large = std::get_if<std::uint64_t>(&value_);
    return large ? std::optional(*large) : std::nullopt;
  }

  /// Equal structure and values; arrays and floats are equal when their bits are.
  friend bool operator==(const Tree& a, const Tree& b);

 private:
  friend struct detail::TreeAccess;

  // Integers above the range of int64 are kept as uint64; smaller ones never are.
  using Value = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, detail::TreeText,
                             Bytes, Array, ShardedArray, std::unique_ptr<Map>, std::unique_ptr<List>>;

  /// A part of a tree that is a temporary.
  static Tree taken(const Tree& part) noexcept { return std::move(const_cast<Tree&>(part)); }

  template <class T>
  static Value leaf_value(T&& value);

  template <class T>
  static Tree nest(T&& value);

  template <class T>
  static Tree nest_set(T&& value);

  template <class T>
  const T& require(TreeKind wanted, std::string_view path) const {
    if (const T* held = std::get_if<T>(&value_)) {
      return *held;
    }
    throw_kind(wanted, path);
  }

  template <class Vector>
  [[nodiscard]] Vector elements(std::string_view path) const;

  [[nodiscard]] const Array& array(std::string_view path, DType dtype) const;
  [[noreturn]] void throw_kind(TreeKind wanted, std::string_view path) const;

  Value value_;
};

/// One item between the braces of a tree.
class TreeItem {
 public:
  TreeItem(std::initializer_list<TreeItem> items);

  template <class T>
  requires(!std::same_as<std::remove_cvref_t<T>, TreeItem> && std::constructible_from<Tree, T>)
      // NOLINTNEXTLINE(google-explicit-constructor): items are values.
      TreeItem(T&& value)
      : tree_(std::forward<T>(value)) {}

 private:
  friend class Tree;

  mutable Tree tree_;  // Moved out by the tree that is made of the list, whose items are const.
  bool is_pair_ = false;
};

}  // namespace cairn
