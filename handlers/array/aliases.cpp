// SPDX-License-Identifier: Apache-2.0
#include "aliases.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cairn/array/shared_memory.hpp"

#include "divide.hpp"
#include "formats/internal/index.hpp"

namespace cairn::detail {
namespace {

/// The memory of a leaf: of one array, or of each shard that has elements.
std::vector<const ArrayView*> views_of(const Tree& leaf) {
  std::vector<const ArrayView*> views;
  if (const Array* array = leaf.array_if()) {
    views.push_back(&array->view());
  } else if (const ShardedArray* sharded = leaf.sharded_array_if()) {
    for (const Shard* shard : sorted_shards(*sharded)) {
      views.push_back(&shard->data.view());
    }
  }
  return views;
}

bool is_same_shard(const Shard* a, const Shard* b) {
  return a->box == b->box && a->replica == b->replica && is_same_memory(a->data.view(), b->data.view());
}

bool is_same_array(const ArrayLeaf& a, const ArrayLeaf& b) {
  if (a.stored != b.stored || a.policy != b.policy || a.is_replicated != b.is_replicated ||
      a.leaf->kind() != b.leaf->kind()) {
    return false;
  }
  if (const Array* array = a.leaf->array_if()) {
    return is_same_memory(array->view(), b.leaf->array_if()->view());
  }
  const ShardedArray& one = *a.leaf->sharded_array_if();
  const ShardedArray& other = *b.leaf->sharded_array_if();
  if (one.shape() != other.shape() || one.dtype() != other.dtype()) {
    return false;
  }
  const std::vector<const Shard*> left = sorted_shards(one);
  const std::vector<const Shard*> right = sorted_shards(other);
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), is_same_shard);
}

}  // namespace

FoundAliases find_aliases(std::span<const ArrayLeaf> leaves) {
  FoundAliases found;
  std::vector<NamedView> different;
  // By the first element and the bytes: views of one begin may be many, and are the same only where they end alike.
  std::map<std::pair<const std::byte*, std::uint64_t>, std::vector<const ArrayLeaf*>> by_memory;
  for (const ArrayLeaf& leaf : leaves) {
    const std::vector<const ArrayView*> views = views_of(*leaf.leaf);
    std::vector<const ArrayLeaf*>& before = by_memory[{views.front()->data(), views.front()->byte_count()}];
    const auto same = std::find_if(before.begin(), before.end(),
                                   [&leaf](const ArrayLeaf* other) { return is_same_array(*other, leaf); });
    if (same != before.end()) {
      found.names.emplace(leaf.path, (*same)->path);
      continue;
    }
    before.push_back(&leaf);
    for (const ArrayView* view : views) {
      different.push_back({formats::shown(leaf.path), *view});
    }
  }
  found.overlap = find_overlap(different);
  return found;
}

}  // namespace cairn::detail
