// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/megatron/replica_id.hpp"
#include "cairn/megatron/sharded_tensor.hpp"

namespace cairn::megatron {

class StateDict;

/// A tensor that has another form in the checkpoint than in the program, and how to make the one of the other.
///
/// The same two functions serve the states that an optimizer keeps of the tensor, which have its shape.
/// Threads: of a save, `build` runs in the call; of a load, both run on threads of the context's.
struct ShardedTensorFactory {
  /// Makes what is saved, or loaded, in place of the tensor: tensors, objects, further factories. Parts that share the
  /// memory of `data` are loaded into it.
  using Build = std::function<StateDict(const std::string& key, const Array& data,
                                        const ReplicaId& replica_id, const std::optional<FlatRange>& range)>;
  /// Makes the tensor again of what `build` had made, with arrays in place of tensors and trees in place of objects.
  using Merge = std::function<Array(Tree built)>;

  std::string key;
  std::optional<Array> data = {};
  Build build = {};
  Merge merge = {};
  ReplicaId replica_id = {};
  /// Where `data` has only these elements of the tensor, flattened.
  std::optional<FlatRange> flattened_range = {};

  [[nodiscard]] ShardedTensorFactory without_data() const;
};

/// The gate and the up projection of a gated unit, which lie one behind the other in `data`, along `axis`: each is cut
/// among the ranks for itself, as `offsets` says, so that the checkpoint has all of the one before all of the other.
///
/// The halves are parts of one tensor, or with `singleton_local_shards` tensors of their own: `<key>_w`, `<key>_v`.
/// `axis` counts the prepended axes; its offset is that of each half among the halves.
/// Errors: Errc::invalid_argument when `data` has no such axis, or an odd extent along it; `build` throws it for a
///         flattened range where the axis is not the first of `data`.
[[nodiscard]] ShardedTensorFactory swiglu_factory(std::string key, Array data, std::size_t axis,
                                                  std::vector<RankOffset> offsets,
                                                  const ShardedTensorOptions& options = {},
                                                  bool singleton_local_shards = false);

/// One array of several, one behind the other along `axis`. Where they lie so in one memory already, nothing is copied.
///
/// Errors: Errc::invalid_argument when there are none, or no such axis; Errc::shape_mismatch and Errc::dtype_mismatch
///         when they do not fit each other.
[[nodiscard]] Array concatenate(std::span<const Array> parts, std::size_t axis = 0);

}  // namespace cairn::megatron
