// SPDX-License-Identifier: Apache-2.0
#pragma once

// Saves and loads of state dicts without files and ranks: what the parts of the module make of them, in memory.

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/array/array_view.hpp"
#include "cairn/base/error.hpp"
#include "cairn/megatron/state_dict.hpp"

#include "megatron/prepare.hpp"

namespace cairn::testing {

/// 0, 1, 2… in the shape.
inline Array counted(const Shape& shape, std::int32_t first = 0) {
  Array array(shape, DType::int32);
  for (std::int32_t& element : array.data<std::int32_t>()) {
    element = first++;
  }
  return array;
}

inline Array numbers(std::initializer_list<std::int32_t> values) {
  return Array::adopt(std::vector<std::int32_t>(values));
}

/// A contiguous copy of a box of an array.
inline Array cut(const Array& whole, const Box& box) {
  return whole.part(box).clone();
}

inline Array flat(const Array& array) {
  return array.reshaped({array.element_count()});
}

/// Ranks have saved this together: whole tensors, objects, and the plain values of rank 0.
class MemoryCheckpoint {
 public:
  /// Each element must be held by exactly one main replica, as a save of ranks sees to.
  explicit MemoryCheckpoint(const std::vector<megatron::StateDict>& ranks) {
    std::map<std::string, Array> counts;
    for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
      const auto prepared = megatron::detail::prepare(ranks[rank], megatron::detail::Purpose::save);
      for (const auto& tensor : prepared.tensors) {
        const ShardedArray array = held(tensor, rank);
        tensors.try_emplace(tensor.key, array.shape(), array.dtype());
        Array& count =
            counts.try_emplace(tensor.key, Array::zeros(array.shape(), DType::uint8)).first->second;
        for (const Shard& shard : array.shards()) {
          if (shard.replica == 0) {
            copy(shard.data.view(), tensors.at(tensor.key).mutable_view().part(shard.box));
            add_one(count.part(shard.box));
          }
        }
      }
      for (const auto& object : prepared.objects) {
        if (object.is_main && !objects.try_emplace(object.unique_key, object.data).second) {
          throw Error(Errc::overlapping_shards, object.unique_key);
        }
      }
      common = rank == 0 ? prepared.common : common;
    }
    for (const auto& [key, count] : counts) {
      for (const std::uint8_t one : count.data<const std::uint8_t>()) {
        if (one != 1) {
          throw Error(one == 0 ? Errc::incomplete_shards : Errc::overlapping_shards, key);
        }
      }
    }
  }

  /// One rank alone has saved this.
  [[nodiscard]] static MemoryCheckpoint of(const megatron::StateDict& dict) {
    return MemoryCheckpoint(std::vector<megatron::StateDict>{dict});
  }

  /// One rank gets this; keys that are not there are left out.
  [[nodiscard]] Tree load(const megatron::StateDict& request) const {
    const auto prepared = megatron::detail::prepare(request, megatron::detail::Purpose::load);
    megatron::detail::LoadedParts loaded{common, objects, {}};
    for (const auto& tensor : prepared.tensors) {
      const auto stored = tensors.find(tensor.key);
      if (stored == tensors.end()) {
        loaded.dropped.insert(tensor.key);
        continue;
      }
      const AbstractShardedArray array = wanted(tensor);
      for (const WantedShard& shard : array.shards) {
        copy(stored->second.part(shard.box).view(), shard.destination->mutable_view());
      }
    }
    for (const auto& object : prepared.objects) {
      if (!objects.contains(object.unique_key)) {
        loaded.dropped.insert(object.key);
      }
    }
    return assemble(prepared, std::move(loaded));
  }

  std::map<std::string, Array> tensors;
  std::map<std::string, Tree> objects;
  Tree common = Tree::map();

 private:
  static void add_one(const Array& part) {
    const Array sums = part.clone();
    for (std::uint8_t& one : sums.data<std::uint8_t>()) {
      ++one;
    }
    copy(sums.view(), part.mutable_view());
  }
};

}  // namespace cairn::testing
