// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "formats/internal/index.hpp"
#include "megatron/prepare.hpp"
#include "megatron/walk.hpp"

namespace cairn::megatron::detail {
namespace {

[[noreturn]] void refuse_place(std::string_view path, std::string_view what) {
  throw Error(
      Errc::structure_mismatch,
      fmt::format(
          "{}: the common state of the checkpoint has {} there, and the request asks for something else",
          formats::shown(path), what));
}

/// Returns whether a node is a leaf that is not a plain value, or has one.
bool has_sharded(const StateDict& node) {
  if (const auto* children = node.map_if()) {
    return std::any_of(children->begin(), children->end(),
                       [](const auto& child) { return has_sharded(child.second); });
  }
  if (const auto* elements = node.list_if()) {
    return std::any_of(elements->begin(), elements->end(), has_sharded);
  }
  return node.leaf_if<Tree>() == nullptr;
}

/// Goes through a request beside the tree that is to have it.
class Assembly {
 public:
  Assembly(const PreparedDict& request, const LoadedParts& loaded) : request_(request), loaded_(loaded) {}

  /// Puts what was loaded of a node into `slot`, which holds what common state has there. Returns whether something of
  /// it was dropped.
  bool place(std::optional<Tree>& slot, const StateDict& node, std::string& path, std::size_t depth) const {
    bool is_dropped = false;
    if (const auto* children = node.map_if()) {
      is_dropped = place_map(slot, *children, path, depth);
    } else if (const auto* elements = node.list_if()) {
      is_dropped = place_list(slot, *elements, path, depth);
    } else {
      is_dropped = place_leaf(slot, node, path);
    }
    const auto merge = request_.merges.find(path);
    if (merge != request_.merges.end()) {
      if (is_dropped) {
        slot.reset();
      } else if (slot) {
        slot = merged(merge->second, *std::move(slot), path);
      }
    }
    return is_dropped;
  }

 private:
  bool place_leaf(std::optional<Tree>& slot, const StateDict& leaf, const std::string& path) const {
    const auto fill = [&](const Tree& value) {
      if (slot) {
        refuse_place(path, fmt::format("a value of kind {}", name(slot->kind())));
      }
      slot = value;
    };
    if (const auto* tensor = leaf.leaf_if<ShardedTensor>()) {
      if (tensor->flattened_range && tensor->flattened_range->size() == 0) {
        return false;  // It is left out.
      }
      if (loaded_.dropped.contains(tensor->key)) {
        return true;
      }
      fill(*tensor->data);
    } else if (const auto* object = leaf.leaf_if<ShardedObject>()) {
      if (loaded_.dropped.contains(object->key)) {
        return true;
      }
      fill(loaded_.objects.at(object->unique_key()));
    } else if (const auto* local = leaf.leaf_if<LocalNonpersistentObject>()) {
      fill(local->value);
    }
    return false;
  }

  bool place_map(std::optional<Tree>& slot, const StateDict::Map& children, std::string& path,
                 std::size_t depth) const {
    bool is_dropped = false;
    for (const auto& [key, child] : children) {
      const PathStep step(path, key);
      std::optional<Tree> child_slot;
      if (slot && slot->is_map()) {
        if (const auto found = slot->as_map().find(key); found != slot->as_map().end()) {
          child_slot = std::move(found->second);
          slot->as_map().erase(found);
        }
      }
      is_dropped = place(child_slot, child, path, depth + 1) || is_dropped;
      if (child_slot) {
        if (slot && !slot->is_map()) {
          refuse_place(path, fmt::format("a value of kind {} around it", name(slot->kind())));
        }
        if (!slot) {
          slot = Tree::map();
        }
        slot->as_map().insert_or_assign(key, *std::move(child_slot));
      }
    }
    return is_dropped;
  }

  bool place_list(std::optional<Tree>& slot, const StateDict::List& elements, std::string& path,
                  std::size_t depth) const {
    if (std::none_of(elements.begin(), elements.end(), has_sharded)) {
      return false;
    }
    std::vector<std::optional<Tree>> slots = slots_of(slot, elements, path);
    bool is_dropped = false;
    Tree::List placed;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const PathStep step(path, i);
      is_dropped = place(slots[i], elements[i], path, depth + 1) || is_dropped;
      if (slots[i]) {
        placed.push_back(*std::move(slots[i]));
      }
    }
    if (slot || !placed.empty()) {
      slot = Tree::list(std::move(placed));
    }
    return is_dropped;
  }

  /// What common state has for each element of a list. It has left out elements of which nothing is a plain value.
  std::vector<std::optional<Tree>> slots_of(std::optional<Tree>& slot, const StateDict::List& elements,
                                            std::string& path) const {
    std::vector<std::optional<Tree>> slots(elements.size());
    if (!slot) {
      return slots;
    }
    if (!slot->is_list()) {
      refuse_place(path, fmt::format("a value of kind {}", name(slot->kind())));
    }
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const PathStep step(path, i);
      if (slot->size() == elements.size() || has_plain(elements[i], path)) {
        positions.push_back(i);
      }
    }
    if (positions.size() != slot->size()) {
      throw Error(
          Errc::structure_mismatch,
          fmt::format(
              "{}: the common state of the checkpoint has a list of {} elements there, the request one "
              "of {}, {} of them with plain values",
              formats::shown(path), slot->size(), elements.size(), positions.size()));
    }
    for (std::size_t i = 0; i < positions.size(); ++i) {
      slots[positions[i]] = std::move(slot->as_list()[i]);
    }
    return slots;
  }

  /// Returns whether a node gives common state something, as common_of has it.
  bool has_plain(const StateDict& node, std::string& path) const {
    if (!node.is_container()) {
      return node.leaf_if<Tree>() != nullptr;
    }
    bool is_empty = true;
    bool has_some = false;
    for_each_child(node, path, [&](const StateDict& child) {
      is_empty = false;
      has_some = has_some || has_plain(child, path);
    });
    return has_some || (is_empty && !request_.merges.contains(path));
  }

  const PreparedDict& request_;
  const LoadedParts& loaded_;
};

}  // namespace

Tree assemble(const PreparedDict& request, LoadedParts loaded) {
  std::optional<Tree> state = std::exchange(loaded.common, Tree());
  std::string path;
  Assembly(request, loaded).place(state, request.expanded, path, 0);
  return state ? *std::move(state) : Tree::map();
}

}  // namespace cairn::megatron::detail
