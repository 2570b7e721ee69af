// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/array/abstract_sharded_array.hpp"
#include "cairn/array/array.hpp"
#include "cairn/array/array_view.hpp"
#include "cairn/array/sharded_array.hpp"
#include "cairn/contract/checkpointable.hpp"
#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/handlers/tree_form.hpp"
#include "cairn/handlers/tree_values.hpp"

namespace cairn {

/// A part of a stored tree that is still to be read, and how.
struct WantedPart {
  std::string path;
  AbstractTree form;
};

/// An option of a load whose caller takes nothing but what objects got: then no tree is made beside them.
struct ObjectsOnly {};

/// An object of the caller's that a stored tree is loaded into.
///
/// A load calls `want` or `want_parts`, and then `finish`, each once on one of its threads; both again when a save has
/// replaced the checkpoint meanwhile. What they throw is the load's failure; the object may hold anything then.
class TreeTarget {
 public:
  virtual ~TreeTarget() = default;

  /// Returns what it asks for whatever is stored; nothing where only `want` can say.
  [[nodiscard]] virtual std::optional<AbstractTree> wants_in_any_case() const { return std::nullopt; }
  /// Returns what to load for the object: places for elements, which it makes room for. Nothing has been read
  /// but the index.
  [[nodiscard]] virtual AbstractTree want(const AbstractTree& stored) = 0;
  /// As `want`, where nobody else gets what is loaded (ObjectsOnly): the parts that the object lacks when it has taken
  /// from `stored` what that says. Nothing where only `want` can say.
  [[nodiscard]] virtual std::optional<std::vector<WantedPart>> want_parts(const AbstractTree& /*stored*/) {
    return std::nullopt;
  }
  /// Takes the rest from what was loaded; of what `want_parts` has places for nothing is in it.
  virtual void finish(const Tree& loaded) = 0;
  /// Called before `want` where members may differ from what is stored: those that it lacks keep their values, what
  /// has no member is not asked for, and both are added to `differences`, which lives until `finish` has returned. By
  /// default any difference is an error.
  virtual void allow_differences(MemberDifferences* /*differences*/) {}
  /// Called before `want` where numbers may become others (TreeLoadOptions::allow_narrowing).
  virtual void allow_narrowing() {}
  /// Called before `want` where arrays have several names: the object may want any of them, and leaves the others out.
  /// `names` lives until `finish` has returned.
  virtual void know_names(ArrayNames* /*names*/) {}
  /// Where the object lies: no two loads of one call may have the same.
  [[nodiscard]] virtual const void* object() const noexcept = 0;
};

namespace detail {

/// As a tree of its arrays' shapes: their elements must not be looked at.
[[nodiscard]] Tree tree_of_shapes(const AbstractTree& stored);

/// Collects the memory for arrays while a value is read from a tree of shapes, and what must wait for their elements.
class Places {
 public:
  void add(const std::string& path, MutableArrayView memory);
  void read_later(const TreeReader& at, std::function<void(const Tree& node, TreeReader& at)> read);

  /// Asks for the elements where they belong.
  void place(AbstractTree& wanted, Narrowing narrowing);
  /// As `place`, and for what waits, by its path.
  [[nodiscard]] std::vector<WantedPart> parts(Narrowing narrowing);
  /// Leaves out what is stored at those paths.
  static void leave_out(AbstractTree& wanted, const std::vector<std::string>& paths);
  /// Asks for nothing at those paths, as if nothing were stored there.
  static void forget(AbstractTree& wanted, const std::vector<std::string>& paths);
  void finish(const Tree& loaded) const;

 private:
  struct Place {
    std::string path;
    MutableArrayView memory;
  };

  struct Later {
    TreeReader at;
    std::function<void(const Tree& node, TreeReader& at)> read;
  };

  std::deque<Place> places_;  // There may be a million.
  std::vector<Later> later_;
};

template <class T>
class ValueTarget final : public TreeTarget {
 public:
  ValueTarget(T& value, Narrowing narrowing) : value_(value), narrowing_(narrowing) {}

  [[nodiscard]] AbstractTree want(const AbstractTree& stored) override {
    read_shapes(stored);
    AbstractTree wanted = stored;
    places_.place(wanted, narrowing_);
    if (differences_ != nullptr) {
      Places::leave_out(wanted, differences_->unexpected);
    }
    if (array_names_ != nullptr) {
      Places::forget(wanted, array_names_->left_out);
    }
    return wanted;
  }

  [[nodiscard]] std::optional<std::vector<WantedPart>> want_parts(const AbstractTree& stored) override {
    read_shapes(stored);
    return places_.parts(narrowing_);
  }

  void finish(const Tree& loaded) override { places_.finish(loaded); }

  void allow_differences(MemberDifferences* differences) override { differences_ = differences; }

  void allow_narrowing() override { narrowing_ = Narrowing::allowed; }
  void know_names(ArrayNames* names) override { array_names_ = names; }

  [[nodiscard]] const void* object() const noexcept override { return &value_; }

 private:
  void read_shapes(const AbstractTree& stored) {
    places_ = Places();
    TreeReader at({}, narrowing_);
    at.places = &places_;
    at.differences = differences_;
    at.array_names = array_names_;
    read_value(tree_of_shapes(stored), value_, at);
  }

  T& value_;
  Narrowing narrowing_;
  MemberDifferences* differences_ = nullptr;
  ArrayNames* array_names_ = nullptr;
  Places places_;
};

}  // namespace detail

/// Asks for a load into a tree: its arrays keep their memory, and get the elements that are stored, cast to their
/// type; other leaves become those that are stored. Structure, kinds and shapes must be those of the tree; a null
/// takes anything. With TreeLoadOptions::members_may_differ keys of maps that are not stored keep what they have, and
/// others that are stored are left out.
///
/// Ownership: `tree`, and the memory of its arrays, must live until the load has released it. The load fails with
///            Errc::invalid_argument when an array is read-only.
[[nodiscard]] AbstractTree into(Tree& tree, Narrowing narrowing = Narrowing::refused);

/// Asks for a load into a described struct, a container or a number, as from_tree reads it: vectors get the stored
/// length, and arrays are read where they belong, cast to the type of their elements. Members of type Tree, Array and
/// of types with a TreeForm of their own get what is loaded for them.
///
/// Ownership: `value` must live until the load has released it.
/// Errors:    of the load: those of from_tree; Errc::unsafe_cast when a cast of elements would change values.
/// Example:   load_checkpointables("run/7", {{"model", into(model)}});
template <class T>
requires(TreeValue<T> && !StatefulLoadable<T> && !std::is_const_v<T> && !std::same_as<T, Tree> &&
         !std::same_as<T, Array> && !std::same_as<T, ShardedArray> && !std::derived_from<T, ArrayView>)
    [[nodiscard]] AbstractTree into(T& value, Narrowing narrowing = Narrowing::refused) {
  return AbstractTree(std::make_shared<detail::ValueTarget<T>>(value, narrowing));
}

/// Asks for a load into an array's memory, cast to its type.
///
/// Ownership: as AbstractArray::place_into.
/// Errors:    Errc::invalid_argument when the array is read-only.
[[nodiscard]] AbstractArray into(const Array& array, Narrowing narrowing = Narrowing::refused);
[[nodiscard]] AbstractArray into(MutableArrayView view, Narrowing narrowing = Narrowing::refused);

/// Asks for a load of the boxes that a sharded array has, into their memory.
///
/// Errors: as above.
[[nodiscard]] AbstractShardedArray into(const ShardedArray& array, Narrowing narrowing = Narrowing::refused);

}  // namespace cairn
