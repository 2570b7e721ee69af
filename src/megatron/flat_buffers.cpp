// SPDX-License-Identifier: Apache-2.0
// Optimizer states that lie in flat buffers, whose buckets a data-parallel group divides.
#include <algorithm>
#include <concepts>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"
#include "cairn/megatron/optimizer.hpp"
#include "cairn/megatron/sharded_object.hpp"

namespace cairn::megatron {
namespace {

constexpr std::string_view kMainParam = "param";

[[noreturn]] void refuse_buffer(const std::string& what) {
  throw Error(Errc::invalid_argument, what);
}

/// Elements of a buffer that a rank has of a bucket.
FlatRange part_of(const Bucket& bucket, std::size_t number, const DataParallel& place) {
  const bool is_right = bucket.begin <= bucket.unpadded_end && bucket.unpadded_end <= bucket.end &&
                        place.rank < place.size && (bucket.end - bucket.begin) % place.size == 0;
  if (!is_right) {
    refuse_buffer(
        fmt::format("bucket {} [{}, {}), with padding from {}, cannot be divided equally among {} ranks for "
                    "rank {}",
                    number, bucket.begin, bucket.end, bucket.unpadded_end, place.size, place.rank));
  }
  const std::uint64_t size = (bucket.end - bucket.begin) / place.size;
  return {bucket.begin + place.rank * size, bucket.begin + (place.rank + 1) * size};
}

/// Elements of a state of a bucket; `range` is that of the rank's part, `wanted` lies in it.
Array elements_of(const Array& state, std::string_view name_of_state, std::size_t bucket,
                  const FlatRange& range, const FlatRange& wanted) {
  if (state.shape() != Shape{range.size()}) {
    refuse_buffer(
        fmt::format("state '{}' of bucket {} has shape {}, this rank's part of the bucket has {} elements",
                    name_of_state, bucket, state.shape(), range.size()));
  }
  return state.part(Box({wanted.begin - range.begin}, {wanted.size()}));
}

void check_states(const FlatBuffer& buffer, const BucketStates& states) {
  if (states.size() != buffer.buckets.size()) {
    refuse_buffer(
        fmt::format("states of {} buckets of a buffer of {}", states.size(), buffer.buckets.size()));
  }
}

/// The replica of a flattened parameter: data parallelism has cut it, so that only copies of the optimizer count.
ReplicaId with_instance(const ReplicaId& replica, const std::string& key, std::uint32_t instance) {
  if (replica.numbers().size() != 3) {
    refuse_buffer(
        fmt::format("'{}': a parameter in a flat buffer has the replica (PP, TP, DP), not {} numbers", key,
                    replica.numbers().size()));
  }
  return {replica.numbers()[0], replica.numbers()[1], instance};
}

/// Elements `range` of a parameter, as one state of the optimizer.
StateDict flat_piece(const ShardedParam& param, std::size_t elements, const FlatRange& range, Array data,
                     const std::string& prefix, std::uint32_t instance) {
  return std::visit(
      [&]<class Param>(const Param& from) -> StateDict {
        Param made = from;
        made.key = fmt::format("{}.{}", prefix, from.key);
        made.replica_id = with_instance(from.replica_id, made.key, instance);
        std::optional<std::uint64_t> size;
        if constexpr (std::same_as<Param, ShardedTensor>) {
          size = element_count(from.local_shape);
          made.dtype = data.dtype();
        } else if (from.data) {
          size = from.data->element_count();
        }
        if (from.flattened_range || size.value_or(elements) != elements) {
          refuse_buffer(fmt::format("'{}': {} elements of a buffer for a parameter of {}{}", made.key,
                                    elements, size.value_or(elements),
                                    from.flattened_range ? " that is flattened already" : ""));
        }
        made.flattened_range = range;
        made.data = std::move(data);
        return made;
      },
      param);
}

std::string key_of_group(const DataParallel& place) {
  return fmt::format("optimizer.distributed.dp_group_idx_{}", place.group);
}

StateDict object_of_group(const std::string& key, Tree data, const DataParallel& place) {
  return ShardedObject{
      key_of_group(place) + "." + key, std::move(data), {1}, {0}, {place.instance, place.rank}};
}

/// A rank's part of one state of a bucket, without its padding.
StateDict bucket_part(std::string key, const Array& state, std::string_view name_of_state, std::size_t number,
                      const Bucket& bucket, const DataParallel& place) {
  const FlatRange range = part_of(bucket, number, place);
  const FlatRange kept{std::min(range.begin, bucket.unpadded_end), std::min(range.end, bucket.unpadded_end)};
  ShardedTensor tensor;
  tensor.key = std::move(key);
  tensor.data = kept.size() == 0 ? Array(Shape{0}, state.dtype())
                                 : elements_of(state, name_of_state, number, range, kept);
  tensor.dtype = state.dtype();
  tensor.local_shape = {kept.size()};
  tensor.global_shape = {bucket.unpadded_end - bucket.begin};
  tensor.global_offset = {kept.begin - bucket.begin};
  tensor.replica_id = place.instance;
  return tensor;
}

}  // namespace

StateDict flat_model_space(const FlatBuffer& buffer, const BucketStates& states, const ParamMap& params,
                           const DataParallel& place, std::string_view name_of_param) {
  check_states(buffer, states);
  StateDict pieces;
  for (const BufferedParam& param : buffer.params) {
    const auto sharded = params.find(param.id);
    if (sharded == params.end() || param.bucket >= buffer.buckets.size()) {
      refuse_buffer(fmt::format(
          "parameter {} in bucket {} of a buffer is not among the sharded parameters, or there is "
          "no such bucket",
          param.id, param.bucket));
    }
    const Bucket& bucket = buffer.buckets[param.bucket];
    const FlatRange part = part_of(bucket, param.bucket, place);
    if (param.begin > param.end || param.begin < bucket.begin || param.end > bucket.unpadded_end) {
      refuse_buffer(fmt::format("parameter {} at [{}, {}) is not within its bucket [{}, {})", param.id,
                                param.begin, param.end, bucket.begin, bucket.unpadded_end));
    }
    const FlatRange both{std::max(param.begin, part.begin), std::min(param.end, part.end)};
    if (both.begin >= both.end) {
      continue;
    }
    StateDict& of_param = pieces[std::to_string(param.id)];
    for (const auto& [name_of_state, state] : states[param.bucket]) {
      const std::string_view shown = name_of_state == kMainParam ? name_of_param : name_of_state;
      of_param[shown] = flat_piece(sharded->second, param.end - param.begin,
                                   {both.begin - param.begin, both.end - param.begin},
                                   elements_of(state, name_of_state, param.bucket, part, both),
                                   fmt::format("optimizer.state.{}", shown), place.instance);
    }
  }
  return pieces;
}

StateDict flat_bucket_space(std::span<const FlatBuffer> buffers, std::span<const BucketStates> states,
                            const DataParallel& place) {
  if (buffers.size() != states.size()) {
    refuse_buffer(fmt::format("states of {} buffers, of which there are {}", states.size(), buffers.size()));
  }
  StateDict dict;
  Tree numel = Tree::list();
  Tree unpadded = Tree::list();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const FlatBuffer& buffer = buffers[i];
    check_states(buffer, states[i]);
    StateDict::List buckets;
    Tree sizes = Tree::list();
    Tree unpadded_sizes = Tree::list();
    for (std::size_t b = 0; b < buffer.buckets.size(); ++b) {
      const Bucket& bucket = buffer.buckets[b];
      StateDict& parts = buckets.emplace_back();
      for (const auto& [name_of_state, state] : states[i][b]) {
        parts[name_of_state] =
            bucket_part(fmt::format("{}.gbuf_idx_{}.dtype_{}.bucket_idx_{}.{}", key_of_group(place), i,
                                    buffer.dtype, b, name_of_state),
                        state, name_of_state, b, bucket, place);
      }
      sizes.push_back(bucket.end - bucket.begin);
      unpadded_sizes.push_back(bucket.unpadded_end - bucket.begin);
    }
    numel.push_back(Tree::map({{buffer.dtype, std::move(sizes)}}));
    unpadded.push_back(Tree::map({{buffer.dtype, std::move(unpadded_sizes)}}));
    dict[std::to_string(i)][buffer.dtype] = StateDict::list(std::move(buckets));
  }
  dict["per_bucket_numel"] = object_of_group("per_bucket_numel", std::move(numel), place);
  dict["per_bucket_numel_unpadded"] =
      object_of_group("per_bucket_numel_unpadded", std::move(unpadded), place);
  return dict;
}

StateDict objects_of_group(const Tree& state, const DataParallel& place) {
  StateDict objects;
  for (const auto& [key, value] : state.as_map()) {
    objects[key] = object_of_group(key, value, place);
  }
  return objects;
}

}  // namespace cairn::megatron
