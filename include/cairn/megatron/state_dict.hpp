// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cairn/handlers/tree.hpp"
#include "cairn/megatron/factory.hpp"
#include "cairn/megatron/sharded_object.hpp"
#include "cairn/megatron/sharded_tensor.hpp"

namespace cairn::megatron {

namespace detail {

template <class T>
inline constexpr bool kIsSharded =
    std::same_as<T, ShardedTensor> || std::same_as<T, ShardedObject> ||
    std::same_as<T, ShardedTensorFactory> || std::same_as<T, LocalNonpersistentObject>;

}  // namespace detail

/// Nested maps and lists of tensors, objects, factories, local objects and plain values.
///
/// Plain values are trees: numbers, texts, bytes, null and arrays; a tree that is a map or a list becomes one of these.
/// A save takes them from rank 0 only. Copies have containers of their own; leaves do not change, so copies share them.
/// Invariant: at most kMaxTreeDepth containers deep; functions that go through it refuse a deeper one.
/// Threads:   a value.
/// Example:   StateDict dict = {{"weight", ShardedTensor::from_rank_offsets("weight", local, {{0, rank, ranks}})},
///                              {"optimizer", {{"step", 100}}}};
class StateDict {
 public:
  using Map = std::map<std::string, StateDict, std::less<>>;
  using List = std::vector<StateDict>;

  /// An empty map.
  StateDict() noexcept = default;

  /// Errors: Errc::invalid_argument when a key is given twice.
  StateDict(std::initializer_list<std::pair<const std::string, StateDict>> items);

  template <class T>
  // NOLINTNEXTLINE(google-explicit-constructor): leaves are written as they are.
  requires detail::kIsSharded<T> StateDict(T leaf)
      : value_(std::in_place_type<std::shared_ptr<const T>>, std::make_shared<const T>(std::move(leaf))) {}

  /// Errors: Errc::invalid_argument when a tree is deeper than kMaxTreeDepth.
  template <class T>
  // NOLINTNEXTLINE(google-explicit-constructor)
  requires(!std::same_as<std::remove_cvref_t<T>, StateDict> && !detail::kIsSharded<std::remove_cvref_t<T>> &&
           std::convertible_to<T, Tree>) StateDict(T&& value)
      : StateDict(of_tree(Tree(std::forward<T>(value)), 0)) {}

  StateDict(const StateDict& other);
  StateDict(StateDict&& other) noexcept : value_(std::exchange(other.value_, Value())) {}
  StateDict& operator=(StateDict other) noexcept {
    value_.swap(other.value_);
    return *this;
  }
  ~StateDict() = default;

  [[nodiscard]] static StateDict list(List elements = {});

  /// The child of that key; a map gets an empty map there where it has none.
  ///
  /// Errors: Errc::type_mismatch when this is not a map.
  StateDict& operator[](std::string_view key) &;

  /// Errors (all): Errc::type_mismatch when this is not a map or list; Errc::not_found.
  [[nodiscard]] const StateDict& operator[](std::string_view key) const&;
  [[nodiscard]] StateDict operator[](std::string_view key) && { return taken(std::as_const(*this)[key]); }
  [[nodiscard]] const StateDict& operator[](std::size_t i) const&;
  StateDict& operator[](std::size_t i) & { return const_cast<StateDict&>(std::as_const(*this)[i]); }
  [[nodiscard]] StateDict operator[](std::size_t i) && { return taken(std::as_const(*this)[i]); }

  /// The node with that path, which is written as that of a Tree; null where there is none.
  [[nodiscard]] const StateDict* find(std::string_view path) const&;
  const StateDict* find(std::string_view path) const&& = delete;
  [[nodiscard]] bool contains(std::string_view path) const { return find(path) != nullptr; }

  /// Errors: Errc::not_found, naming the path.
  [[nodiscard]] const StateDict& at(std::string_view path) const&;
  [[nodiscard]] StateDict& at(std::string_view path) & {
    return const_cast<StateDict&>(std::as_const(*this).at(path));
  }
  [[nodiscard]] StateDict at(std::string_view path) && { return taken(std::as_const(*this).at(path)); }

  /// The children; null when this is another kind of node.
  [[nodiscard]] const Map* map_if() const& noexcept;
  [[nodiscard]] Map* map_if() &;
  const Map* map_if() const&& = delete;
  [[nodiscard]] const List* list_if() const& noexcept;
  [[nodiscard]] List* list_if() & noexcept { return const_cast<List*>(std::as_const(*this).list_if()); }
  const List* list_if() const&& = delete;

  [[nodiscard]] bool is_container() const noexcept { return map_if() != nullptr || list_if() != nullptr; }

  /// The leaf, when it is a `T`: one of the four of this module, or a Tree.
  template <class T>
  [[nodiscard]] const T* leaf_if() const& noexcept {
    if constexpr (std::same_as<T, Tree>) {
      return std::get_if<Tree>(&value_);
    } else {
      const auto* leaf = std::get_if<std::shared_ptr<const T>>(&value_);
      return leaf ? leaf->get() : nullptr;
    }
  }
  template <class T>
  const T* leaf_if() const&& = delete;

  /// The same as a tree.
  ///
  /// Errors: Errc::type_mismatch, naming the path of a leaf that is not a plain value.
  [[nodiscard]] Tree tree() const;

 private:
  using Value =
      std::variant<std::unique_ptr<Map>, std::unique_ptr<List>, Tree, std::shared_ptr<const ShardedTensor>,
                   std::shared_ptr<const ShardedObject>, std::shared_ptr<const ShardedTensorFactory>,
                   std::shared_ptr<const LocalNonpersistentObject>>;

  static StateDict of_tree(Tree tree, std::size_t depth);
  /// A part of what is a temporary.
  static StateDict taken(const StateDict& part) noexcept { return std::move(const_cast<StateDict&>(part)); }

  Value value_;  // A null map is an empty one.
};

}  // namespace cairn::megatron
