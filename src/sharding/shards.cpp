// SPDX-License-Identifier: Apache-2.0
#include "cairn/sharding/shards.hpp"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn {
namespace {

ShardedArray make_sharded(const Sharding& sharding, Shape shape, DType dtype, std::vector<PlacedBox> boxes,
                          std::vector<Array> locals) {
  std::vector<Shard> shards;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    shards.push_back({std::move(boxes[i].box), std::move(locals[i]), boxes[i].replica});
  }
  return {std::move(shape), dtype, std::move(shards), std::make_shared<const Sharding>(sharding)};
}

}  // namespace

ShardedArray shard(const Sharding& sharding, std::uint32_t rank, Shape shape, Array local) {
  std::vector<PlacedBox> boxes = sharding.boxes(rank, shape);
  if (boxes.empty() && local.element_count() > 0) {
    throw Error(Errc::invalid_argument,
                fmt::format("sharding: rank {} holds nothing of shape {}, but gives {} elements", rank,
                            to_string(shape), local.element_count()));
  }
  if (boxes.size() > 1) {
    throw Error(Errc::invalid_argument, fmt::format("sharding: rank {} holds {} boxes of shape {}, not one",
                                                    rank, boxes.size(), to_string(shape)));
  }
  const DType dtype = local.dtype();
  std::vector<Array> locals;
  if (!boxes.empty()) {
    locals.push_back(boxes[0].box.is_empty() && local.element_count() == 0
                         ? Array(boxes[0].box.extents(), dtype)  // Nothing is nothing, in whatever shape.
                         : std::move(local));
  }
  return make_sharded(sharding, std::move(shape), dtype, std::move(boxes), std::move(locals));
}

ShardedArray shard(const Sharding& sharding, std::uint32_t rank, Shape shape, DType dtype,
                   std::vector<Array> locals) {
  std::vector<PlacedBox> boxes = sharding.boxes(rank, shape);
  if (boxes.size() != locals.size()) {
    throw Error(Errc::invalid_argument,
                fmt::format("sharding: rank {} holds {} boxes of shape {}, but gives {} arrays", rank,
                            boxes.size(), to_string(shape), locals.size()));
  }
  return make_sharded(sharding, std::move(shape), dtype, std::move(boxes), std::move(locals));
}

AbstractShardedArray wanted(const AbstractArray& array, const Sharding& sharding, std::uint32_t rank) {
  AbstractShardedArray sharded(array.shape, array.dtype);
  sharded.allows_narrowing = array.allows_narrowing;
  sharded.on_mismatch = array.on_mismatch;
  sharded.layout = std::make_shared<const Sharding>(sharding);
  for (PlacedBox& placed : sharding.boxes(rank, array.shape)) {
    if (array.destination) {
      Array part = array.destination->part(placed.box);
      sharded.place_into(std::move(placed.box), std::move(part), placed.replica);
    } else {
      sharded.want(std::move(placed.box), placed.replica);
    }
  }
  return sharded;
}

}  // namespace cairn
