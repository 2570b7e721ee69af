// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/into.hpp"

#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "containers.hpp"

namespace cairn {
namespace {

using detail::TreeAccess;

AbstractArray wanted_in(const Array& array, Narrowing narrowing, std::string_view path) {
  if (!array.is_mutable()) {
    throw Error(Errc::invalid_argument, fmt::format("{} is read-only: nothing can be loaded into it",
                                                    path.empty() ? "the array" : detail::shown(path)));
  }
  AbstractArray wanted(array.shape(), array.dtype());
  wanted.place_into(array);
  wanted.allows_narrowing = narrowing == Narrowing::allowed;
  return wanted;
}

AbstractShardedArray wanted_in(const ShardedArray& array, Narrowing narrowing, std::string_view path) {
  AbstractShardedArray wanted(array.shape(), array.dtype());
  for (const Shard& shard : array.shards()) {
    static_cast<void>(wanted_in(shard.data, narrowing, path));  // For its refusal.
    wanted.place_into(shard.box, shard.data, shard.replica);
  }
  wanted.layout = array.layout();
  wanted.allows_narrowing = narrowing == Narrowing::allowed;
  return wanted;
}

/// What is wanted for one leaf of a tree that is loaded into.
AbstractTree wanted_for(const Tree& leaf, Narrowing narrowing, std::string_view path) {
  if (const Array* array = leaf.array_if()) {
    return wanted_in(*array, narrowing, path);
  }
  if (const ShardedArray* sharded = leaf.sharded_array_if()) {
    return wanted_in(*sharded, narrowing, path);
  }
  if (leaf.is_null()) {
    return as_saved;
  }
  const bool is_number = leaf.is_integer() || leaf.kind() == TreeKind::floating;
  return {leaf.kind(), is_number ? narrowing : Narrowing::refused};
}

class WholeTree final : public TreeTarget {
 public:
  WholeTree(Tree& tree, Narrowing narrowing) : tree_(tree), narrowing_(narrowing) {}

  [[nodiscard]] AbstractTree want(const AbstractTree& /*stored*/) override {
    AbstractTree wanted(std::as_const(tree_));
    const auto add = [&wanted, this](std::string_view path, const Tree& leaf) {
      if (!TreeAccess::is_container(leaf)) {
        wanted.at(path) = wanted_for(leaf, narrowing_, path);
      }
    };
    std::string path;
    TreeAccess::visit(std::as_const(tree_), path, 0, add);
    return wanted;
  }

  void finish(const Tree& loaded) override { tree_ = loaded; }

  [[nodiscard]] const void* object() const noexcept override { return &tree_; }

 private:
  Tree& tree_;
  Narrowing narrowing_;
};

}  // namespace

namespace detail {

Tree tree_of_shapes(const AbstractTree& stored) {
  // No element is read through it: what fills a value from such a tree only asks for shapes.
  static std::byte nowhere{};
  AbstractTree built = stored;
  built.materialise();
  Tree shapes;
  TreeAccess::clone(std::as_const(built), shapes, [](const AbstractTree& from, Tree& to) {
    if (const auto* array = TreeAccess::leaf<AbstractArray>(from)) {
      to = Array::borrow(ArrayView(&nowhere, array->shape, array->dtype));
    } else {
      to = from.stored_value();
    }
  });
  return shapes;
}

void add_place(Places& places, const std::string& path, MutableArrayView memory) {
  places.add(path, std::move(memory));
}

void read_later(Places& places, const TreeReader& at, std::function<void(const Tree&, TreeReader&)> read) {
  places.read_later(at, std::move(read));
}

void Places::add(const std::string& path, MutableArrayView memory) {
  places_.push_back({path, std::move(memory)});
}

void Places::read_later(const TreeReader& at, std::function<void(const Tree&, TreeReader&)> read) {
  later_.push_back({TreeReader(at.path, at.narrowing), std::move(read)});
}

void Places::place(AbstractTree& wanted, Narrowing narrowing) {
  wanted.materialise();
  for (Place& place : places_) {
    wanted.at(place.path) = wanted_in(Array::borrow(std::move(place.memory)), narrowing, place.path);
  }
  places_.clear();
}

void Places::finish(const Tree& loaded) const {
  for (const Later& later : later_) {
    TreeReader at = later.at;
    later.read(loaded.at(at.path), at);
  }
}

}  // namespace detail

AbstractTree into(Tree& tree, Narrowing narrowing) {
  return AbstractTree(std::make_shared<WholeTree>(tree, narrowing));
}

AbstractArray into(const Array& array, Narrowing narrowing) {
  return wanted_in(array, narrowing, {});
}

AbstractArray into(MutableArrayView view, Narrowing narrowing) {
  return wanted_in(Array::borrow(std::move(view)), narrowing, {});
}

AbstractShardedArray into(const ShardedArray& array, Narrowing narrowing) {
  return wanted_in(array, narrowing, {});
}

}  // namespace cairn
