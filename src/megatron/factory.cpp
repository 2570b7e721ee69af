// SPDX-License-Identifier: Apache-2.0
#include "cairn/megatron/factory.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/array_view.hpp"
#include "cairn/array/format.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/base/error.hpp"
#include "cairn/megatron/state_dict.hpp"

namespace cairn::megatron {
namespace {

/// Returns the parts as one array where they lie one behind the other along `axis` in one memory.
std::optional<Array> joined_in_place(std::span<const Array> parts, std::size_t axis, const Shape& shape) {
  const ArrayView& first = parts[0].view();
  if (is_packed(first.dtype())) {
    return std::nullopt;
  }
  const Strides& strides = first.strides();
  std::int64_t next_byte = 0;
  for (const Array& part : parts) {
    const bool is_next = part.view().strides() == strides && part.owner() == parts[0].owner() &&
                         part.is_mutable() == parts[0].is_mutable() &&
                         part.view().device() == first.device() &&
                         part.view().data() - first.data() == next_byte;
    if (!is_next) {
      return std::nullopt;
    }
    next_byte += strides[axis] * static_cast<std::int64_t>(part.shape()[axis]);
  }
  const auto& owner = parts[0].owner();
  if (parts[0].is_mutable()) {
    MutableArrayView whole(parts[0].mutable_view().data(), shape, first.dtype(), strides, first.device());
    return owner ? Array::share(std::move(whole), owner) : Array::borrow(std::move(whole));
  }
  ArrayView whole(first.data(), shape, first.dtype(), strides, first.device());
  return owner ? Array::share(std::move(whole), owner) : Array::borrow(std::move(whole));
}

/// How the two halves of a gated unit become tensors.
struct Halves {
  std::size_t axis = 0;  ///< Of the data, along which they lie one behind the other.
  Shape half_shape;
  std::vector<RankOffset> offsets;
  ShardedTensorOptions options;
  bool is_of_two_keys = false;

  /// The offsets of one of the halves.
  [[nodiscard]] std::vector<RankOffset> offsets_of(bool is_second) const {
    std::vector<RankOffset> of_half = offsets;
    if (!is_of_two_keys) {
      RankOffset& cut = cut_along_axis(of_half);
      cut.offset += is_second ? cut.fragmentation : 0;
      cut.fragmentation *= 2;
    }
    return of_half;
  }

  /// Appends one half of a whole tensor.
  void add(StateDict::List& parts, std::string key, const Array& data, bool is_second) const {
    Shape begin(half_shape.size(), 0);
    begin[axis] = is_second ? half_shape[axis] : 0;
    parts.emplace_back(ShardedTensor::from_rank_offsets(
        std::move(key), data.part(Box(std::move(begin), half_shape)), offsets_of(is_second), options));
  }

  /// Appends what one half has of a flattened range.
  void add_flat(StateDict::List& parts, std::string key, const Array& data, const FlatRange& range,
                bool is_second) const {
    const std::uint64_t size = *element_count(half_shape);
    const std::uint64_t half_begin = is_second ? size : 0;
    const FlatRange both{std::max(range.begin, half_begin), std::min(range.end, half_begin + size)};
    if (both.begin >= both.end) {
      return;
    }
    parts.emplace_back(ShardedTensor::from_rank_offsets_flat(
        std::move(key), data.part(Box({both.begin - range.begin}, {both.size()})), half_shape,
        offsets_of(is_second), {both.begin - half_begin, both.end - half_begin}, options));
  }

 private:
  [[nodiscard]] RankOffset& cut_along_axis(std::vector<RankOffset>& cuts) const {
    const std::size_t global_axis = options.prepend_axis_num + axis;
    const auto found = std::find_if(cuts.begin(), cuts.end(),
                                    [&](const RankOffset& cut) { return cut.axis == global_axis; });
    return found == cuts.end() ? cuts.emplace_back(RankOffset{global_axis, 0, 1}) : *found;
  }
};

StateDict build_halves(Halves halves, const std::string& key, const Array& data, const ReplicaId& replica_id,
                       const std::optional<FlatRange>& range) {
  halves.options.replica_id = replica_id;
  StateDict::List parts;
  for (const bool is_second : {false, true}) {
    std::string part_key = halves.is_of_two_keys ? key + (is_second ? "_v" : "_w") : key;
    if (range) {
      halves.add_flat(parts, std::move(part_key), data, *range, is_second);
    } else {
      halves.add(parts, std::move(part_key), data, is_second);
    }
  }
  return StateDict::list(std::move(parts));
}

}  // namespace

ShardedTensorFactory ShardedTensorFactory::without_data() const {
  ShardedTensorFactory copy = *this;
  copy.data.reset();
  return copy;
}

ShardedTensorFactory swiglu_factory(std::string key, Array data, std::size_t axis,
                                    std::vector<RankOffset> offsets, const ShardedTensorOptions& options,
                                    bool singleton_local_shards) {
  const std::size_t prepended = options.prepend_axis_num;
  if (axis < prepended || axis - prepended >= data.shape().size() ||
      data.shape()[axis - prepended] % 2 != 0) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}': an array {} with {} prepended axes has no halves along axis {}", key,
                            data.shape(), prepended, axis));
  }
  Halves halves{axis - prepended, data.shape(), std::move(offsets), options, singleton_local_shards};
  halves.half_shape[halves.axis] /= 2;
  const auto build = [halves](const std::string& part_key, const Array& whole, const ReplicaId& replica_id,
                              const std::optional<FlatRange>& range) {
    if (range && halves.axis != 0) {
      throw Error(Errc::invalid_argument,
                  "a flattened range is not in halves along an axis that is not the first");
    }
    return build_halves(halves, part_key, whole, replica_id, range);
  };
  const auto merge = [data_axis = halves.axis](Tree built) {
    std::vector<Array> parts;
    for (const Tree& part : built.as_list()) {
      parts.push_back(part.as<Array>());
    }
    return concatenate(parts, !parts.empty() && parts[0].shape().size() == 1 ? 0 : data_axis);
  };
  return {std::move(key), std::move(data), build, merge, options.replica_id, std::nullopt};
}

Array concatenate(std::span<const Array> parts, std::size_t axis) {
  if (parts.empty() || axis >= parts[0].shape().size()) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} arrays cannot be joined along axis {}", parts.size(), axis));
  }
  Shape shape = parts[0].shape();
  shape[axis] = 0;
  for (const Array& part : parts) {
    Shape others = part.shape();
    const std::uint64_t extent = axis < others.size() ? std::exchange(others[axis], shape[axis]) : 0;
    if (part.dtype() != parts[0].dtype() || others != shape) {
      const bool is_dtype = part.dtype() != parts[0].dtype();
      throw Error(is_dtype ? Errc::dtype_mismatch : Errc::shape_mismatch,
                  fmt::format("{} {} and {} {} cannot be joined along axis {}", parts[0].dtype(),
                              parts[0].shape(), part.dtype(), part.shape(), axis));
    }
    shape[axis] += extent;
  }
  if (auto joined = joined_in_place(parts, axis, shape)) {
    return *std::move(joined);
  }
  Array whole(shape, parts[0].dtype());
  Shape begin(shape.size(), 0);
  for (const Array& part : parts) {
    copy(part.view(), whole.mutable_view().part(Box(begin, part.shape())));
    begin[axis] += part.shape()[axis];
  }
  return whole;
}

}  // namespace cairn::megatron
