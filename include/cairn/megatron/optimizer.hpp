// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/megatron/factory.hpp"
#include "cairn/megatron/sharded_tensor.hpp"
#include "cairn/megatron/state_dict.hpp"

namespace cairn::megatron {

/// How a parameter of the model is sharded; the states that an optimizer keeps of it are sharded alike.
using ShardedParam = std::variant<ShardedTensor, ShardedTensorFactory>;
/// By the number of the parameter in the optimizer.
using ParamMap = std::map<std::size_t, ShardedParam>;

/// Finds the parameters of an optimizer among the tensors and factories of a model's dict: by the memory, shape and
/// dtype of their data, the first that fits.
///
/// Parameters that the dict does not have are left out.
/// Errors: Errc::invalid_argument when there are parameters, and the dict has none of them.
[[nodiscard]] ParamMap param_id_to_sharded_param(const StateDict& model, std::span<const Array> params);

/// A state of a parameter, sharded as that. Its key is `<prefix>.<key of the parameter>`.
///
/// Errors: Errc::shape_mismatch when it has another shape than the parameter.
[[nodiscard]] ShardedParam make_sharded_optimizer_tensor(const ShardedParam& param, Array state,
                                                         std::string_view prefix);

/// Makes the state of an optimizer a sharded one. `optimizer["state"]` has a map for each parameter, under its number,
/// of arrays by name: they become tensors or factories of the key `optimizer.state.<name>.<key of the parameter>`.
/// Names in `exclude_keys` stay plain values, which rank 0 saves. `params` of each group becomes local.
///
/// Errors: Errc::invalid_argument for a parameter that is not in `params`; Errc::type_mismatch for a state that is not
///         an array; those of make_sharded_optimizer_tensor. Then nothing was changed.
void optim_state_to_sharding_state(StateDict& optimizer, const ParamMap& params,
                                   const std::set<std::string>& exclude_keys = {});

// Optimizers that keep the states of many parameters in flat buffers, of which each rank of a data-parallel group has
// an equal part of every bucket.

/// A parameter in a buffer. Numbers of elements count from the beginning of the buffer.
struct BufferedParam {
  std::size_t id = 0;  ///< Its number in the optimizer.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::size_t bucket = 0;
};

/// Elements of a buffer whose gradients are reduced together.
struct Bucket {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;           ///< A multiple of the group's size behind `begin`.
  std::uint64_t unpadded_end = 0;  ///< What lies behind is there for that only, and not saved.
};

struct FlatBuffer {
  std::string dtype;  ///< What keys of buckets call it.
  std::vector<Bucket> buckets;
  std::vector<BufferedParam> params;  ///< Between them there may be gaps.
};

/// The place of a rank in data parallelism.
struct DataParallel {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::uint32_t group = 0;     ///< The number of the group: pp_rank * tp_size + tp_rank.
  std::uint32_t instance = 0;  ///< Of an optimizer of which there are several copies.
};

/// This rank's part of each bucket: flat arrays, by the name of the state ("exp_avg"). "param" is the main copy of the
/// parameters themselves.
using BucketStates = std::vector<std::map<std::string, Array>>;

/// What this rank has of each parameter, as a flattened range: canonical arrays, which load in any layout
/// (`fully_sharded_model_space`). By the number of the parameter, and the name of the state.
///
/// `name_of_param`: what keys call "param". With "param" the keys and arrays are those of `fully_reshardable`.
/// Replicas are (PP, TP, instance), the first two as the parameter says.
/// Errors: Errc::invalid_argument when buffer, states and parameters do not fit each other.
[[nodiscard]] StateDict flat_model_space(const FlatBuffer& buffer, const BucketStates& states,
                                         const ParamMap& params, const DataParallel& place,
                                         std::string_view name_of_param = "fp32_param");

/// The buckets as they are, less their padding (`dp_reshardable`): they load into the same buckets with any number of
/// data-parallel ranks. One tensor for each state of a bucket, gaps between parameters included.
///
/// Errors: as above.
[[nodiscard]] StateDict flat_bucket_space(std::span<const FlatBuffer> buffers,
                                          std::span<const BucketStates> states, const DataParallel& place);

/// The other state of such an optimizer, as objects of its data-parallel group: one for each key of `state`, a map.
///
/// Errors: Errc::type_mismatch when it is not a map.
[[nodiscard]] StateDict objects_of_group(const Tree& state, const DataParallel& place);

}  // namespace cairn::megatron
