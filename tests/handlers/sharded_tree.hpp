// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/array/sharded_array.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/sharding/policy.hpp"
#include "cairn/sharding/shards.hpp"

#include "handlers/store.hpp"

namespace cairn::testing {

/// An array whose elements are their numbers.
inline Array counted(const Shape& shape) {
  Array array(shape, DType::int32);
  std::int32_t next = 0;
  for (std::int32_t& element : array.data<std::int32_t>()) {
    element = next++;
  }
  return array;
}

/// Returns what all ranks of a sharding hold of an array, in one process.
inline ShardedArray divided(const Array& whole, const Sharding& sharding) {
  std::vector<Shard> shards;
  for (std::uint32_t rank = 0; rank < sharding.ranks(); ++rank) {
    for (const PlacedBox& placed : sharding.boxes(rank, whole.shape())) {
      shards.push_back({placed.box, whole.part(placed.box).clone(), placed.replica});
    }
  }
  return {whole.shape(), whole.dtype(), std::move(shards), std::make_shared<const Sharding>(sharding)};
}

inline Sharding rows_of(std::uint32_t ranks) {
  return Sharding::of_spec(Mesh({ranks}, {"data"}), {{"data"}});
}

inline Sharding columns_of(std::uint32_t ranks) {
  return Sharding::of_spec(Mesh({ranks}, {"model"}), {{}, {"model"}});
}

inline std::vector<std::string> data_files(const ItemMetadata& item) {
  std::vector<std::string> names;
  for (const FileMetadata& file : item.files) {
    if (file.name.ends_with(".safetensors")) {
      names.push_back(file.name);
    }
  }
  return names;
}

class ShardedTreeTest : public StoreTest {
 protected:
  static SaveOptions with(std::shared_ptr<const ShardingPolicy> policy) {
    SaveOptions options;
    options.handler_options.set(ShardingOptions(std::move(policy)));
    return options;
  }

  /// The data files alone: what programs see that know nothing of Cairn's index.
  std::filesystem::path without_index() const {
    const std::filesystem::path folder = folder_ / "alone";
    std::filesystem::create_directory(folder);
    for (const auto& file : std::filesystem::directory_iterator(item(""))) {
      if (file.path().extension() == ".safetensors") {
        std::filesystem::copy(file.path(), folder / file.path().filename());
      }
    }
    return folder;
  }

  Request wanting(AbstractTree tree) { return {"item", std::move(tree)}; }

  const Array whole_ = counted({7, 10});
};

}  // namespace cairn::testing
