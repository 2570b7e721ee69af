// SPDX-License-Identifier: Apache-2.0
#include "megatron/prepare.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "base/internal/utf8.hpp"
#include "formats/internal/index.hpp"
#include "megatron/unique_key.hpp"
#include "megatron/walk.hpp"
#include "sharding/internal/box_table.hpp"

namespace cairn::megatron::detail {
namespace {

/// A leaf of a dict, and where it lies.
template <class T>
struct Placed {
  const T* leaf = nullptr;
  std::string path;
};

using PlacedTensors = std::vector<Placed<ShardedTensor>>;
using PlacedObjects = std::vector<Placed<ShardedObject>>;

[[noreturn]] void refuse_leaf(std::string_view key, std::string_view path, std::string_view what) {
  throw Error(Errc::invalid_argument, fmt::format("'{}' at {}: {}", key, formats::shown(path), what));
}

void check_key(std::string_view key, std::string_view path) {
  if (!is_valid_utf8(key)) {
    refuse_leaf(key, path, "a key is UTF-8 text");
  }
}

/// Steps 1 and 2: the leaves that are sharded, in the order of the dict.
class Leaves {
 public:
  Leaves(StateDict& expanded, Purpose purpose) : purpose_(purpose) {
    for_each_leaf(expanded, [this](const std::string& path, StateDict& leaf) { add(path, leaf); });
  }

  PlacedTensors tensors;
  PlacedObjects objects;

 private:
  void add(const std::string& path, StateDict& leaf) {
    if (const auto* tensor = leaf.leaf_if<ShardedTensor>()) {
      add_tensor(path, leaf, *tensor);
    } else if (const auto* object = leaf.leaf_if<ShardedObject>()) {
      check_key(object->key, path);
      object->validate();
      if (purpose_ == Purpose::save && !object->data) {
        refuse_leaf(object->key, path, "an object without data cannot be saved");
      }
      objects.push_back({object, path});
    } else if (const Tree* value = leaf.leaf_if<Tree>(); value && value->sharded_array_if()) {
      throw Error(Errc::invalid_argument,
                  fmt::format("{}: a sharded array is not a value of a state dict, a ShardedTensor is",
                              formats::shown(path)));
    }
  }

  void add_tensor(const std::string& path, StateDict& leaf, const ShardedTensor& tensor) {
    check_key(tensor.key, path);
    tensor.validate();
    if (tensor.flattened_range && tensor.flattened_range->size() == 0) {
      return;
    }
    if (purpose_ == Purpose::save && !tensor.data) {
      refuse_leaf(tensor.key, path, "a tensor without data cannot be saved");
    }
    if (purpose_ == Purpose::load && tensor.data && !tensor.data->is_mutable()) {
      refuse_leaf(tensor.key, path, "its data are read-only, so that nothing can be loaded into them");
    }
    if (!tensor.data) {
      ShardedTensor with_memory = tensor;
      with_memory.init_data();
      leaf = std::move(with_memory);
    }
    tensors.push_back({leaf.leaf_if<ShardedTensor>(), path});
  }

  Purpose purpose_;
};

bool is_before(const Box& a, const Box& b) {
  const auto compared = [](const Shape& left, const Shape& right) {
    return std::lexicographical_compare(left.begin(), left.end(), right.begin(), right.end());
  };
  if (a.offsets() != b.offsets()) {
    return compared(a.offsets(), b.offsets());
  }
  return compared(a.extents(), b.extents());
}

bool is_same_memory(const Array& a, const Array& b) {
  return a.view().data() == b.view().data() && a.view().strides() == b.view().strides();
}

/// A box, and which of the tensors of its key it belongs to.
struct NumberedBox {
  PreparedBox prepared;
  std::size_t tensor = 0;
};

void check_overlaps(const std::vector<NumberedBox>& boxes, std::span<const Placed<ShardedTensor>> tensors) {
  std::vector<Box> all;
  all.reserve(boxes.size());
  for (const NumberedBox& one : boxes) {
    all.push_back(one.prepared.box);
  }
  const sharding::BoxTable table(all);
  for (const NumberedBox& one : boxes) {
    for (const sharding::BoxOverlap& overlap : table.overlaps(one.prepared.box)) {
      if (all[overlap.number] != one.prepared.box) {
        const std::size_t other = boxes[overlap.number].tensor;
        throw Error(
            Errc::invalid_argument,
            fmt::format("'{}': boxes {} at {} and {} at {} overlap and are not equal", tensors[0].leaf->key,
                        to_string(one.prepared.box), formats::shown(tensors[one.tensor].path),
                        to_string(all[overlap.number]), formats::shown(tensors[other].path)));
      }
    }
  }
}

/// Leaves out boxes that are there already: of a save all but one, of a load those of the same memory.
void drop_equal(std::vector<NumberedBox>& boxes, Purpose purpose) {
  std::stable_sort(boxes.begin(), boxes.end(), [](const NumberedBox& a, const NumberedBox& b) {
    return is_before(a.prepared.box, b.prepared.box);
  });
  std::vector<NumberedBox> kept;
  auto first_equal = kept.size();  // Among those that are kept.
  for (NumberedBox& one : boxes) {
    if (kept.empty() || kept.back().prepared.box != one.prepared.box) {
      first_equal = kept.size();
    }
    const auto same = std::find_if(
        kept.begin() + static_cast<std::ptrdiff_t>(first_equal), kept.end(), [&](const NumberedBox& other) {
          return purpose == Purpose::save || is_same_memory(other.prepared.data, one.prepared.data);
        });
    if (same == kept.end()) {
      kept.push_back(std::move(one));
    } else if (one.prepared.is_main && !same->prepared.is_main) {
      same->prepared = std::move(one.prepared);
    }
  }
  boxes = std::move(kept);
}

/// Step 3 for the tensors of one key.
PreparedTensor joined_tensor(std::span<const Placed<ShardedTensor>> tensors, Purpose purpose) {
  const ShardedTensor& first = *tensors[0].leaf;
  if (parse_unique_key(first.key)) {
    refuse_leaf(first.key, tensors[0].path, "a tensor's key cannot end as the name of an object does");
  }
  PreparedTensor joined{first.key, first.dtype, first.global_shape, false, {}};
  std::vector<NumberedBox> boxes;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const ShardedTensor& tensor = *tensors[i].leaf;
    if (tensor.global_shape != first.global_shape || tensor.dtype != first.dtype) {
      throw Error(Errc::invalid_argument,
                  fmt::format("'{}': shape {} of {} at {}, {} of {} at {}", first.key, first.global_shape,
                              first.dtype, formats::shown(tensors[0].path), tensor.global_shape, tensor.dtype,
                              formats::shown(tensors[i].path)));
    }
    joined.allow_shape_mismatch = joined.allow_shape_mismatch || tensor.allow_shape_mismatch;
    for (Shard& shard : shards_of(tensor, 0)) {
      boxes.push_back({{std::move(shard.box), std::move(shard.data), tensor.replica_id.is_main()}, i});
    }
  }
  if (tensors.size() > 1) {  // Boxes of one tensor have nothing in common.
    drop_equal(boxes, purpose);
    if (purpose == Purpose::load) {
      check_overlaps(boxes, tensors);
    }
  }
  joined.boxes.reserve(boxes.size());
  for (NumberedBox& one : boxes) {
    joined.boxes.push_back(std::move(one.prepared));
  }
  return joined;
}

/// Calls add(range) for each run of elements of which `key_of` says the same; sorts them by that.
template <class T, class KeyOf, class Add>
void for_each_group(std::vector<T>& elements, const KeyOf& key_of, const Add& add) {
  std::stable_sort(elements.begin(), elements.end(),
                   [&](const T& a, const T& b) { return key_of(a) < key_of(b); });
  for (auto begin = elements.begin(); begin != elements.end();) {
    const auto end =
        std::find_if(begin, elements.end(), [&](const T& one) { return key_of(one) != key_of(*begin); });
    add(std::span<const T>(begin, end));
    begin = end;
  }
}

struct NamedObject {
  std::string unique_key;
  Placed<ShardedObject> placed;
};

PreparedObject joined_object(std::span<const NamedObject> objects) {
  const auto found = std::find_if(objects.begin(), objects.end(), [](const NamedObject& one) {
    return one.placed.leaf->replica_id.is_main();
  });
  const bool is_main = found != objects.end();
  const ShardedObject& chosen = *(is_main ? *found : objects.front()).placed.leaf;
  return {objects.front().unique_key, chosen.key, chosen.global_shape, chosen.data.value_or(Tree()), is_main};
}

/// Each key has one grid, and is not the key of a tensor.
void check_roles(const std::vector<NamedObject>& objects, const PlacedTensors& tensors) {
  std::map<std::string_view, const Placed<ShardedObject>*> by_key;
  for (const NamedObject& one : objects) {
    const ShardedObject& object = *one.placed.leaf;
    const auto [found, is_new] = by_key.try_emplace(object.key, &one.placed);
    if (!is_new && found->second->leaf->global_shape != object.global_shape) {
      throw Error(Errc::invalid_argument,
                  fmt::format("'{}': a grid of {} objects at {}, of {} at {}", object.key,
                              found->second->leaf->global_shape, formats::shown(found->second->path),
                              object.global_shape, formats::shown(one.placed.path)));
    }
  }
  for (const Placed<ShardedTensor>& tensor : tensors) {
    if (const auto found = by_key.find(tensor.leaf->key); found != by_key.end()) {
      throw Error(Errc::invalid_argument,
                  fmt::format("'{}' is a tensor at {} and an object at {}", tensor.leaf->key,
                              formats::shown(tensor.path), formats::shown(found->second->path)));
    }
  }
}

/// The plain values of a node; nothing where there are none. A container that was empty is one, unless a factory has
/// built it.
std::optional<Tree> common_of(const StateDict& node, const Merges& merges, std::string& path,
                              std::size_t depth) {
  check_depth(depth, path);
  if (const Tree* leaf = node.leaf_if<Tree>()) {
    return *leaf;
  }
  if (!node.is_container()) {
    return std::nullopt;
  }
  bool is_empty = true;
  Tree::Map children;
  Tree::List elements;
  for_each_child(node, path, [&](const StateDict& child) {
    is_empty = false;
    if (auto common = common_of(child, merges, path, depth + 1)) {
      if (node.list_if()) {
        elements.push_back(*std::move(common));
      } else {
        children.try_emplace(children.end(), formats::split_path(path).back(), *std::move(common));
      }
    }
  });
  if (children.empty() && elements.empty() && (!is_empty || merges.contains(path))) {
    return std::nullopt;
  }
  return node.list_if() ? Tree::list(std::move(elements)) : Tree::map(std::move(children));
}

}  // namespace

PreparedDict prepare(const StateDict& dict, Purpose purpose) {
  if (!dict.map_if()) {
    throw Error(Errc::invalid_argument, fmt::format("a state dict is a map, not {}", described(dict)));
  }
  PreparedDict prepared;
  prepared.expanded = dict;
  build_factories(prepared.expanded, prepared.merges);
  Leaves leaves(prepared.expanded, purpose);
  std::vector<NamedObject> objects;
  for (Placed<ShardedObject>& placed : leaves.objects) {
    std::string unique_key = placed.leaf->unique_key();
    objects.push_back({std::move(unique_key), std::move(placed)});
  }
  check_roles(objects, leaves.tensors);
  for_each_group(
      leaves.tensors, [](const auto& one) { return std::string_view(one.leaf->key); },
      [&](std::span<const Placed<ShardedTensor>> tensors) {
        prepared.tensors.push_back(joined_tensor(tensors, purpose));
      });
  for_each_group(
      objects, [](const NamedObject& one) { return std::string_view(one.unique_key); },
      [&](std::span<const NamedObject> equal) { prepared.objects.push_back(joined_object(equal)); });
  prepared.common = Tree::map();
  if (purpose == Purpose::save) {
    std::string path;
    prepared.common = common_of(prepared.expanded, prepared.merges, path, 0).value_or(Tree::map());
  }
  return prepared;
}

ShardedArray held(const PreparedTensor& tensor, std::uint32_t rank) {
  std::vector<Shard> shards;
  shards.reserve(tensor.boxes.size());
  for (const PreparedBox& one : tensor.boxes) {
    shards.push_back({one.box, one.data, one.is_main ? 0 : rank + 1});
  }
  return {tensor.shape, tensor.dtype, std::move(shards)};
}

AbstractShardedArray wanted(const PreparedTensor& tensor) {
  AbstractShardedArray wanted(tensor.shape, tensor.dtype);
  wanted.on_mismatch = tensor.allow_shape_mismatch ? ShapeMismatch::pad_and_crop : ShapeMismatch::refuse;
  std::uint32_t replica = 0;
  for (const PreparedBox& one : tensor.boxes) {  // Equal boxes follow each other.
    replica = !wanted.shards.empty() && wanted.shards.back().box == one.box ? replica + 1 : 0;
    wanted.place_into(one.box, one.data, replica);
  }
  return wanted;
}

}  // namespace cairn::megatron::detail
