// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/array/array_view.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/array/sharded_array.hpp"
#include "cairn/contract/handler.hpp"
#include "cairn/contract/value_traits.hpp"
#include "cairn/core/load.hpp"
#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/handlers/tree_form.hpp"
#include "cairn/handlers/tree_leaf.hpp"
#include "cairn/handlers/tree_load_options.hpp"

namespace cairn {

namespace array_store {
class FileLayout;  // cairn/array_store/file_layout.hpp
}

/// How arrays are stored, for saves: `save_options.handler_options.set(ArrayOptions(DType::bfloat16))`.
struct ArrayOptions {
  ArrayOptions() = default;

  explicit ArrayOptions(DType storage, Narrowing narrowing_allowed = Narrowing::refused)
      : storage_dtype(storage), narrowing(narrowing_allowed) {}

  /// The dtype on disk; nothing: as in memory. A floating dtype leaves integers, booleans and complex numbers alone.
  std::optional<DType> storage_dtype;
  /// Says whether the cast may lose values (float32 to bfloat16 does). Default: such a save fails.
  Narrowing narrowing = Narrowing::refused;

  [[nodiscard]] OptionWords same_on_all_ranks() const;  ///< See OptionSet.
};

/// Numbers the data files of a save, which else have the number of the rank that writes them: so files of saves that
/// will be one checkpoint have different names. For one process.
struct FileNumber {
  std::uint32_t number = 0;
};

/// The id under which state dicts in Megatron's terms are saved. Their arrays and indexes lie as those of trees.
inline constexpr std::string_view kStateDictId = "cairn.megatron/1";

/// Saves trees: scalars and structure in `index.fb`, arrays in safetensors files.
///
/// A load is strict: what it asks for and what is stored must have the same paths; see TreeLoadOptions. What
/// a placeholder stands for is left out of the result (null when it is an element of a list). It reads
/// files that others wrote, too, by their layouts: of safetensors each tensor is one key of a flat map.
/// Options: ArrayOptions, TreeLoadOptions.
/// Source:  docs/format.md, "Trees".
class TreeHandler final : public CheckpointableHandler<Tree, AbstractTree> {
 public:
  TreeHandler() = default;

  /// Reads files of other programs by these layouts, too.
  explicit TreeHandler(std::vector<std::shared_ptr<const array_store::FileLayout>> layouts)
      : layouts_(std::move(layouts)) {}

  [[nodiscard]] std::string_view id() const noexcept override { return "cairn.tree/1"; }
  [[nodiscard]] Participation participation() const noexcept override { return Participation::all; }

  /// Errors: Errc::invalid_argument when the tree is too deep, a string is not UTF-8, or, with
  ///         Snapshot::share, an array has no owner; Errc::unsafe_cast when the storage dtype would lose
  ///         values.
  [[nodiscard]] Awaitable<Background<>> save(SaveContext context, const Tree& value) const override;

  /// Errors: Errc::structure_mismatch, listing what is missing and unexpected; Errc::type_mismatch,
  ///         Errc::shape_mismatch, Errc::unsafe_cast, naming the path; Errc::malformed_metadata,
  ///         Errc::incomplete_shards, Errc::overlapping_shards when files are damaged.
  [[nodiscard]] Awaitable<Background<Tree>> load(LoadContext context,
                                                 std::optional<AbstractTree> wanted) const override;

  [[nodiscard]] Awaitable<AbstractTree> metadata(LoadContext context) const override;
  [[nodiscard]] Description describe(const AbstractTree& stored) const override;

  /// Returns whether a layout recognises them.
  [[nodiscard]] bool recognises(std::span<const std::string> files) const override;
  /// As above; but TreeLoadOptions::layout takes any.
  ///
  /// Errors: Errc::invalid_argument when no layout is called so.
  [[nodiscard]] bool takes(std::span<const std::string> files, const OptionSet& options) const override;

 private:
  std::vector<std::shared_ptr<const array_store::FileLayout>> layouts_{};
};

/// Saves one array, in the files of a tree whose root it is.
///
/// Options: ArrayOptions, TreeLoadOptions.
class ArrayHandler final : public CheckpointableHandler<Array, AbstractArray> {
 public:
  [[nodiscard]] std::string_view id() const noexcept override { return "cairn.array/1"; }

  /// Errors: as TreeHandler.
  [[nodiscard]] Awaitable<Background<>> save(SaveContext context, const Array& value) const override;
  [[nodiscard]] Awaitable<Background<Array>> load(LoadContext context,
                                                  std::optional<AbstractArray> wanted) const override;
  [[nodiscard]] Awaitable<AbstractArray> metadata(LoadContext context) const override;
  [[nodiscard]] Description describe(const AbstractArray& stored) const override;
};

template <>
struct OwnsItsMemory<Array> {
  static constexpr bool kIsShared = true;

  static bool check(const Array& array) { return array.owner() != nullptr || array.byte_count() == 0; }
};

template <>
struct OwnsItsMemory<ArrayView> {
  static bool check(const ArrayView& /*view*/) { return false; }
};

template <>
struct OwnsItsMemory<MutableArrayView> {
  static bool check(const MutableArrayView& /*view*/) { return false; }
};

template <class T, std::size_t N>
struct OwnsItsMemory<std::span<T, N>> {
  static bool check(std::span<T, N> /*elements*/) { return false; }
};

/// The elements are copied, too, unless they are on a device.
template <>
struct WatchedCopy<Array> {
  static const Array* make(const Array& value, const std::shared_ptr<WatchedMemory>& memory) {
    const Tree tree(value);
    return WatchedCopy<Tree>::make(tree, memory)->array_if();
  }
};

template <>
struct WritesToCaller<AbstractArray> {
  static bool check(const AbstractArray& wanted) { return wanted.destination.has_value(); }
};

template <>
struct HandledAs<ArrayView> {
  using type = Array;

  static Array convert(const ArrayView& view) { return Array::borrow(view); }
};

template <>
struct HandledAs<MutableArrayView> {
  using type = Array;

  static Array convert(const MutableArrayView& view) { return Array::borrow(view); }
};

template <ArrayElement T, std::size_t N>
struct HandledAs<std::span<T, N>> {
  using type = Array;

  static Array convert(std::span<T, N> elements) { return Array(elements); }
};

template <ArrayElement T, class Allocator>
requires(!std::same_as<T, bool>) struct HandledAs<std::vector<T, Allocator>> {
  using Vector = std::vector<T, Allocator>;
  using type = Array;

  static Array convert(const Vector& elements) { return Array(elements); }

  static Vector restore(const Array& array) { return Tree(array).as<Vector>(); }
};

namespace detail {

/// What is a tree of its own where nobody else handles it: numbers, strings, containers, described structs.
template <class T>
concept TreeAlone =
    kIsTreeValue<T> && !std::same_as<T, Tree> && !std::same_as<T, Array> && !std::same_as<T, ShardedArray> &&
    !std::derived_from<T, ArrayView> && !kIsSpan<T> && !kIsArrayVector<T>;

}  // namespace detail

/// Its tree has one leaf when the value is a number or a string.
template <detail::TreeAlone T>
struct HandledAs<T> {
  using type = T;
  using Otherwise = Tree;

  static Tree convert_otherwise(const T& value) { return Tree(value); }

  static auto restore_otherwise(const Tree& tree, const OptionSet& of_load, LoadResult& result) {
    if constexpr (detail::kShowsNode<T>) {
      static_assert(
          !detail::kShowsNode<T>,
          "what it shows is gone with the loaded tree: take a std::string, a std::vector or an Array");
      return T();
    } else {
      const auto* options = of_load.find<TreeLoadOptions>();
      const bool may_narrow = options != nullptr && options->allow_narrowing;
      const Narrowing narrowing = may_narrow ? Narrowing::allowed : Narrowing::refused;
      if (options == nullptr || !options->members_may_differ) {
        return tree.as<T>({}, narrowing);
      }
      T value{};
      MemberDifferences differences;
      TreeReader at({}, narrowing);
      at.differences = &differences;
      detail::read_value(tree, value, at);
      detail::require_some_taken(tree, differences);
      result.missing = std::move(differences.missing);
      result.unexpected = std::move(differences.unexpected);
      return value;
    }
  }
};

}  // namespace cairn
