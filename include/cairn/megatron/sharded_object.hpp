// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cairn/array/shape.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/megatron/replica_id.hpp"

namespace cairn::megatron {

/// A tree, or bytes, as an element of a grid of objects. It is loaded as it was saved: objects are not cut.
///
/// Threads: a value.
/// Example: ShardedObject{"rng_state", random_states, {pp_size, tp_size}, {pp, tp}, dp}
struct ShardedObject {
  std::string key;
  std::optional<Tree> data = {};  ///< A load needs none; a save refuses an object without it.
  Shape global_shape = {1};       ///< How many objects there are along each axis of the grid.
  Shape global_offset = {0};      ///< Which of them this is.
  ReplicaId replica_id = {};

  /// Errors: Errc::invalid_argument, naming the key, for an offset that is not within the grid.
  void validate() const;

  /// What names the object in a checkpoint: "ObjB/shard_0.3_1.8".
  [[nodiscard]] std::string unique_key() const;

  /// The object of that name, without data. The key may have a '/' in it.
  ///
  /// Errors: Errc::invalid_argument when it is not the name of an object.
  [[nodiscard]] static ShardedObject empty_from_unique_key(std::string_view unique_key,
                                                           ReplicaId replica_id = {});
};

/// A value that a save leaves out, and that a load gives back from the request.
struct LocalNonpersistentObject {
  Tree value;
};

}  // namespace cairn::megatron
