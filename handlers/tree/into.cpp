// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/into.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "assembler.hpp"
#include "containers.hpp"
#include "formats/internal/index.hpp"
#include "index_names.hpp"

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

/// Returns what is wanted for one leaf of a tree that is loaded into.
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

  [[nodiscard]] std::optional<AbstractTree> wants_in_any_case() const override {
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

  [[nodiscard]] AbstractTree want(const AbstractTree& stored) override {
    AbstractTree wanted = *wants_in_any_case();
    if (differences_ != nullptr) {
      AbstractTree built = stored;
      built.materialise();
      std::string path;
      leave_differences(std::as_const(built), wanted, path);
    }
    return wanted;
  }

  void finish(const Tree& loaded) override {
    Tree fresh = loaded;
    if (differences_ != nullptr) {
      keep_missing(tree_, fresh);
    }
    tree_ = std::move(fresh);
  }

  void allow_differences(MemberDifferences* differences) override { differences_ = differences; }

  [[nodiscard]] const void* object() const noexcept override { return &tree_; }

 private:
  /// Asks for nothing where only one of the two has a key. `path` is that of both, and is so again afterwards.
  void leave_differences(const AbstractTree& stored, AbstractTree& wanted, std::string& path) {
    const auto* stored_list = TreeAccess::list(stored);
    auto* wanted_list = TreeAccess::list(wanted);
    if (stored_list && wanted_list) {
      for (std::size_t i = 0; i < std::min(stored_list->size(), wanted_list->size()); ++i) {
        const detail::PathKey inside(path, i);
        leave_differences((*stored_list)[i], (*wanted_list)[i], path);
      }
    }
    const auto* stored_map = TreeAccess::map(stored);
    auto* wanted_map = TreeAccess::map(wanted);
    if (!stored_map || !wanted_map) {
      return;
    }
    for (auto next = wanted_map->begin(); next != wanted_map->end();) {
      const detail::PathKey inside(path, next->first);
      const auto found = stored_map->find(next->first);
      if (found == stored_map->end()) {
        differences_->missing.push_back(path);
        next = wanted_map->erase(next);
      } else {
        leave_differences(found->second, next->second, path);
        ++next;
      }
    }
    for (const auto& [key, child] : *stored_map) {
      const detail::PathKey inside(path, key);
      if (wanted_map->try_emplace(key, placeholder).second) {
        differences_->unexpected.push_back(path);
      }
    }
  }

  /// Moves what only the tree of before has to the new one.
  static void keep_missing(Tree& before, Tree& fresh) {
    auto* old_list = TreeAccess::list(before);
    auto* new_list = TreeAccess::list(fresh);
    if (old_list && new_list) {
      for (std::size_t i = 0; i < std::min(old_list->size(), new_list->size()); ++i) {
        keep_missing((*old_list)[i], (*new_list)[i]);
      }
    }
    auto* old_map = TreeAccess::map(before);
    auto* new_map = TreeAccess::map(fresh);
    if (old_map && new_map) {
      for (auto& [key, child] : *old_map) {
        const auto [found, is_missing] = new_map->try_emplace(key);
        if (is_missing) {
          found->second = std::move(child);
        } else {
          keep_missing(child, found->second);
        }
      }
    }
  }

  Tree& tree_;
  Narrowing narrowing_;
  MemberDifferences* differences_ = nullptr;
};

}  // namespace

namespace detail {

Tree tree_of_shapes(const AbstractTree& stored) {
  // No element is read through it: what fills a value from such a tree only asks for shapes.
  static std::byte nowhere{};
  const auto of_shape = [](const Shape& shape, DType dtype) {
    return Array::borrow(ArrayView(&nowhere, shape, dtype));
  };
  if (const auto* view = TreeAccess::leaf<std::shared_ptr<const formats::Index>>(stored)) {
    const formats::Index& index = **view;
    Assembler<Tree> assembler(index.path(), index.size());
    for (std::size_t i = 0; i < index.size(); ++i) {
      const formats::IndexEntry entry = index.entry(i);
      if (entry.kind == formats::EntryKind::list) {
        assembler.add_list(entry.name, entry.list_size());
      } else if (entry.kind == formats::EntryKind::array) {
        const formats::IndexArray array = index.array(entry);
        assembler.add(entry.name, of_shape(Shape(array.dims), array.dtype));
      } else {
        assembler.add(entry.name, scalar_of(index, entry));
      }
    }
    return assembler.finish();
  }
  AbstractTree built = stored;
  built.materialise();
  Tree shapes;
  TreeAccess::clone(std::as_const(built), shapes, [&](const AbstractTree& from, Tree& to) {
    if (const auto* array = TreeAccess::leaf<AbstractArray>(from)) {
      to = of_shape(array->shape, array->dtype);
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
  TreeReader later = at;
  later.places = nullptr;  // The elements are there then.
  later_.push_back({std::move(later), std::move(read)});
}

void Places::place(AbstractTree& wanted, Narrowing narrowing) {
  wanted.materialise();
  for (Place& place : places_) {
    wanted.at(place.path) = wanted_in(Array::borrow(std::move(place.memory)), narrowing, place.path);
  }
  places_.clear();
}

std::vector<WantedPart> Places::parts(Narrowing narrowing) {
  std::vector<WantedPart> parts;
  parts.reserve(places_.size() + later_.size());
  for (Place& place : places_) {
    AbstractArray wanted = wanted_in(Array::borrow(std::move(place.memory)), narrowing, place.path);
    parts.push_back({std::move(place.path), std::move(wanted)});
  }
  places_.clear();
  for (const Later& later : later_) {
    parts.push_back({later.at.path, as_saved});
  }
  return parts;
}

void Places::leave_out(AbstractTree& wanted, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    wanted.at(path) = placeholder;
  }
}

void Places::forget(AbstractTree& wanted, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const std::size_t slash = path.rfind('/');
    AbstractTree& parent = slash == std::string::npos ? wanted : wanted.at(path.substr(0, slash));
    parent.as_map().erase(keys_of(path).back());
  }
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
