// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cairn/array/abstract_sharded_array.hpp"
#include "cairn/array/array.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/contract/handler.hpp"
#include "cairn/contract/value_traits.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/sharding/sharding.hpp"

namespace cairn {

namespace formats {
class Index;
struct ForeignDetails;
struct IndexEntry;
}  // namespace formats

/// Stands for whatever is stored at its place in a tree, and asks to leave it there.
struct Placeholder {
  bool operator==(const Placeholder&) const = default;
};

inline constexpr Placeholder placeholder;

/// Stands for whatever is stored at its place in a tree, and asks for it as it was saved.
struct AsSaved {
  bool operator==(const AsSaved&) const = default;
};

inline constexpr AsSaved as_saved;

class TreeTarget;

namespace detail {

struct TreeAccess;

/// A leaf of an abstract tree that is not an array; `value` is null where only the kind is known.
struct AbstractScalar {
  TreeKind kind = TreeKind::null;
  Tree value;
  Narrowing narrowing = Narrowing::refused;
  bool operator==(const AbstractScalar&) const = default;
};

}  // namespace detail

/// A tree without its arrays: what metadata answers, and what a load asks for.
///
/// A tree without elements. The one that metadata returns is a view on the stored index. The first access
/// that could change it builds the tree in memory; const access never does. A temporary returns its parts as
/// values, so that nothing refers to what is gone: `metadata(path).at("w").as_array()`.
/// Threads: a value.
/// Example:
///   AbstractTree wanted = metadata("run/100");
///   wanted["params"].set_dtype(DType::bfloat16);
///   wanted["optimizer"] = placeholder;
///   wanted["step"] = TreeKind::floating;
/// or without a question before:
///   AbstractTree wanted;
///   wanted["params"]["w"] = AbstractArray({3}, DType::float64);
///   wanted["optimizer"] = as_saved;
class AbstractTree {
 public:
  using Map = std::map<std::string, AbstractTree, std::less<>>;
  using List = std::vector<AbstractTree>;

  /// Null; becomes a map at the first `tree[key]`.
  AbstractTree() noexcept;

  AbstractTree(AbstractArray array);  // NOLINT(google-explicit-constructor)

  AbstractTree(AbstractShardedArray array);  // NOLINT(google-explicit-constructor)

  AbstractTree(Placeholder);  // NOLINT(google-explicit-constructor)

  AbstractTree(AsSaved);  // NOLINT(google-explicit-constructor)

  /// A scalar, string, bytes or null of whatever value; TreeKind::map and list make empty ones. An integer that is
  /// stored is loaded as a floating-point number that is exactly it; other casts between the two need narrowing,
  /// which does as Tree::as.
  ///
  /// Errors: Errc::invalid_argument for arrays, which need a shape, and for narrowing to what is not a number.
  AbstractTree(TreeKind kind,  // NOLINT: implicit, for wanted["x"] = kind.
               Narrowing narrowing = Narrowing::refused);

  /// An object that a load fills, as a whole; see `into`.
  explicit AbstractTree(std::shared_ptr<TreeTarget> target);

  /// The description of a tree; scalars are kept.
  explicit AbstractTree(const Tree& tree);

  /// A view on an index.
  explicit AbstractTree(formats::Index index);

  AbstractTree(const AbstractTree& other);

  AbstractTree(AbstractTree&& other) noexcept;
  AbstractTree& operator=(AbstractTree other) noexcept;

  ~AbstractTree();

  [[nodiscard]] bool is_placeholder() const noexcept { return std::holds_alternative<Placeholder>(value_); }

  [[nodiscard]] bool is_as_saved() const noexcept { return std::holds_alternative<AsSaved>(value_); }

  /// The object to fill; null when this describes a tree.
  [[nodiscard]] std::shared_ptr<TreeTarget> target() const noexcept;

  /// Returns whether nothing has been changed yet, so that this is still a view on an index.
  [[nodiscard]] bool is_view() const noexcept { return std::holds_alternative<View>(value_); }

  /// Builds the whole tree in memory, as the first access that could change it does.
  void materialise();
  /// Returns what the node is; null for a placeholder, `as_saved` and a target.
  [[nodiscard]] TreeKind kind() const;

  /// The child of that key; a map, or null that becomes one, gets a null child where there is none.
  ///
  /// Errors: Errc::type_mismatch when this is neither a map nor null.
  AbstractTree& operator[](std::string_view key) &;
  AbstractTree operator[](std::string_view key) && { return std::move((*this)[key]); }
  /// Errors: Errc::type_mismatch when this is not a list; Errc::not_found.
  AbstractTree& operator[](std::size_t i) &;
  AbstractTree operator[](std::size_t i) && { return std::move((*this)[i]); }

  /// The node with that path; the const form returns a part of the tree that is independent of it.
  ///
  /// Errors: Errc::not_found, naming the path.
  [[nodiscard]] AbstractTree& at(std::string_view path) &;
  [[nodiscard]] AbstractTree at(std::string_view path) const&;
  [[nodiscard]] AbstractTree at(std::string_view path) && { return std::move(at(path)); }

  /// The children, to iterate and to change.
  ///
  /// Errors: Errc::type_mismatch when this is another kind of node.
  [[nodiscard]] Map& as_map() &;
  [[nodiscard]] Map as_map() && { return std::move(as_map()); }
  [[nodiscard]] List& as_list() &;
  [[nodiscard]] List as_list() && { return std::move(as_list()); }
  /// Appends to a list; null becomes one.
  /// Errors: as as_list.
  void push_back(AbstractTree element);

  /// The array, to ask for another form of it.
  /// Errors: Errc::type_mismatch when this is not an array.
  [[nodiscard]] AbstractArray& as_array() &;
  [[nodiscard]] const AbstractArray& as_array() const&;
  [[nodiscard]] AbstractArray as_array() && { return std::move(as_array()); }

  /// The boxes that are asked for of an array; see `shard`.
  /// Errors: Errc::type_mismatch when they are not: all of it is, or this is another kind of node.
  [[nodiscard]] AbstractShardedArray& as_sharded_array() &;
  [[nodiscard]] const AbstractShardedArray& as_sharded_array() const&;
  [[nodiscard]] AbstractShardedArray as_sharded_array() && { return std::move(as_sharded_array()); }

  /// Asks for what a rank holds of this array when it is divided so, as a sharded array; where that was asked for
  /// already, in another division.
  ///
  /// Errors: as as_array and Sharding::boxes; Errc::invalid_argument when a box of the array is wanted.
  void shard(const Sharding& sharding, std::uint32_t rank);

  /// The stored scalar, string or bytes; null where only the kind is known.
  [[nodiscard]] const Tree& stored_value() const& noexcept;
  [[nodiscard]] Tree stored_value() && { return std::as_const(*this).stored_value(); }

  /// Whether a number that is asked for may be another one than is stored.
  [[nodiscard]] Narrowing narrowing() const noexcept;

  /// Requests another dtype for every array below, except what is wanted `as_saved`. A floating dtype leaves integers
  /// and booleans as they are: counters stay counters when weights are cast. Complex arrays become complex64 for
  /// float32 and complex128 for float64, and stay what they are for other floating dtypes, of which none is complex. By
  /// default this may lose precision or range.
  ///
  /// Errors: Errc::invalid_argument when the dtype is unknown.
  void set_dtype(DType dtype, Narrowing narrowing = Narrowing::allowed);

  /// Asks for the elements of this array in memory of the caller's; see AbstractArray::place_into.
  ///
  /// Errors: as as_array and AbstractArray::place_into.
  void place_into(Array destination) { as_array().place_into(std::move(destination)); }

  void place_into(MutableArrayView destination) { as_array().place_into(std::move(destination)); }

  template <MutableBorrowableRange R>
  void place_into(R&& destination) {
    place_into(MutableArrayView(destination));
  }

  /// The arrays below, in the order of their paths.
  [[nodiscard]] ArrayEntries arrays() const;

  /// The other leaves below, and every list, in the order of their paths.
  [[nodiscard]] std::vector<DescribedValue> values() const;

  /// The name of the layout by which files of other programs were read; told by what metadata returned.
  [[nodiscard]] std::string layout() const;
  /// Objects that another program has saved and that have no place in a tree: told by what metadata returned.
  [[nodiscard]] std::vector<DescribedValue> left_out() const;
  /// What should be known of files of other programs, a sentence each: told by what metadata returned.
  [[nodiscard]] std::vector<std::string> problems() const;

  /// By which sharding policies the arrays were divided among files; told by what metadata returned, and by its
  /// arrays, which do not name files. None where nobody asked for anything.
  [[nodiscard]] std::vector<FilesOfPolicy> policies() const;
  /// Returns what those say of themselves: a sentence, or several with "; " between them.
  [[nodiscard]] std::string policy() const;

  friend bool operator==(const AbstractTree& a, const AbstractTree& b);

 private:
  friend struct detail::TreeAccess;

  using Scalar = detail::AbstractScalar;
  using View = std::shared_ptr<const formats::Index>;
  using Value = std::variant<Scalar, AbstractArray, AbstractShardedArray, Placeholder, AsSaved,
                             std::unique_ptr<Map>, std::unique_ptr<List>, View, std::shared_ptr<TreeTarget>>;

  explicit AbstractTree(Scalar scalar);

  /// What is known of files of other programs; null of a checkpoint's.
  [[nodiscard]] const formats::ForeignDetails* foreign() const noexcept;

  /// The node of one entry of an index; the elements of a list are not filled in.
  static AbstractTree of_entry(const formats::Index& index, const formats::IndexEntry& entry);
  /// The tree that the entries at and below `path` make; the root's path is empty.
  static AbstractTree of_index(const formats::Index& index, std::string_view path);

  void open();
  [[noreturn]] void throw_kind(TreeKind wanted) const;

  Value value_;
};

/// Calls `visitor` for every leaf, placeholder, `as_saved`, empty map, and every list (before its elements), with its
/// path.
///
/// Errors: Errc::invalid_argument when the tree is deeper than kMaxTreeDepth; what `visitor` throws.
void visit_leaves(const AbstractTree& tree,
                  const std::function<void(std::string_view path, const AbstractTree& leaf)>& visitor);

/// So does that of a sharded array.
template <>
struct WritesToCaller<AbstractShardedArray> {
  static bool check(const AbstractShardedArray& wanted);
};

/// The load of a tree writes to the caller's memory where it asks for that: see `place_into`.
template <>
struct WritesToCaller<AbstractTree> {
  static bool check(const AbstractTree& wanted);
};

}  // namespace cairn
