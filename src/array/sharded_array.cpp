// SPDX-License-Identifier: Apache-2.0
#include "cairn/array/sharded_array.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/abstract_sharded_array.hpp"
#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "array/internal/require_within.hpp"
#include "array/internal/same_memory.hpp"

namespace cairn {
namespace {

void check_shape(const Box& box, const Array& data) {
  if (data.shape() != box.extents()) {
    throw Error(Errc::shape_mismatch,
                fmt::format("box {} has memory of shape {}", to_string(box), data.shape()));
  }
}

}  // namespace

ShardedArray::ShardedArray() : shape_{0}, dtype_(DType::uint8) {}

ShardedArray::ShardedArray(Shape shape, DType dtype, std::vector<Shard> shards,
                           std::shared_ptr<const Layout> layout)
    : shape_(std::move(shape)), dtype_(dtype), shards_(std::move(shards)), layout_(std::move(layout)) {
  for (const Shard& shard : shards_) {
    require_within("box", shard.box, shape_);
    check_shape(shard.box, shard.data);
    if (shard.data.dtype() != dtype_) {
      throw Error(Errc::dtype_mismatch, fmt::format("box {} of an array of {} has elements of {}",
                                                    to_string(shard.box), dtype_, shard.data.dtype()));
    }
  }
}

AbstractShardedArray::AbstractShardedArray(const ShardedArray& array)
    : AbstractShardedArray(array.shape(), array.dtype()) {
  for (const Shard& shard : array.shards()) {
    shards.push_back({shard.box, std::nullopt, shard.replica});
  }
  layout = array.layout();
}

AbstractShardedArray& AbstractShardedArray::want(Box box, std::uint32_t replica) {
  require_within("box", box, shape);
  shards.push_back({std::move(box), std::nullopt, replica});
  return *this;
}

AbstractShardedArray& AbstractShardedArray::place_into(Box box, Array destination, std::uint32_t replica) {
  require_within("box", box, shape);
  check_shape(box, destination);
  if (!destination.is_mutable()) {
    throw Error(Errc::invalid_argument,
                fmt::format("the destination of box {} is read-only", to_string(box)));
  }
  for (const WantedShard& other : shards) {
    if (other.destination && other.destination->dtype() != destination.dtype()) {
      throw Error(Errc::dtype_mismatch,
                  fmt::format("the destination of box {} is of {}, that of box {} of {}", to_string(box),
                              destination.dtype(), to_string(other.box), other.destination->dtype()));
    }
  }
  dtype = destination.dtype();
  shards.push_back({std::move(box), std::move(destination), replica});
  return *this;
}

bool operator==(const AbstractShardedArray& a, const AbstractShardedArray& b) {
  const auto is_same = [](const WantedShard& x, const WantedShard& y) {
    return x.box == y.box && x.replica == y.replica && is_same_memory(x.destination, y.destination);
  };
  return a.shape == b.shape && a.dtype == b.dtype && a.allows_narrowing == b.allows_narrowing &&
         a.on_mismatch == b.on_mismatch &&
         std::equal(a.shards.begin(), a.shards.end(), b.shards.begin(), b.shards.end(), is_same);
}

}  // namespace cairn
