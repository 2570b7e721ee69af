// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cairn/array/abstract_sharded_array.hpp"
#include "cairn/array/array.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/array/sharded_array.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/megatron/state_dict.hpp"

#include "megatron/factories.hpp"

namespace cairn::megatron::detail {

// What a state dict is to the rest of the library, and how what was loaded becomes a state again:
//
// 1. Factories are replaced by what they build, in a copy.
// 2. Each tensor and object is checked. A load makes memory for tensors without data.
// 3. Tensors are gathered by key, objects by unique key; plain values make one tree. A key has one role.
// 4. A save gives a rank's boxes of each key (`held`), a load asks for them (`wanted`).
// 5. `assemble` puts what was loaded where the request has it, into the common state of the checkpoint, and merges
//    what factories have built, the innermost first.

enum class Purpose : std::uint8_t { save, load };

/// A box of a tensor, with its elements or the memory that they are loaded to.
struct PreparedBox {
  Box box;
  Array data;
  bool is_main = false;
};

struct PreparedTensor {
  std::string key;
  DType dtype = DType::float32;
  Shape shape;
  bool allow_shape_mismatch = false;
  /// Of a save each box once, as main replica where one of its tensors is. Of a load one for each memory.
  std::vector<PreparedBox> boxes;
};

struct PreparedObject {
  std::string unique_key;
  std::string key;
  Shape grid;
  Tree data;  ///< Null in a load.
  bool is_main = false;
};

struct PreparedDict {
  std::vector<PreparedTensor> tensors;  ///< In the order of their keys.
  std::vector<PreparedObject> objects;  ///< In the order of their unique keys.
  Tree common;                          ///< A map; empty in a load.
  StateDict expanded;                   ///< The dict, less its factories.
  Merges merges;
};

/// Steps 1 to 3.
///
/// Errors: naming key and paths. Those of ShardedTensor::validate, ShardedObject::validate and apply_factories;
///         Errc::invalid_argument for what is saved without data, for read-only memory that would be loaded to, for a
///         key in two roles or of two shapes, dtypes or grids, for a tensor whose key is the name of an object, and in
///         a load for boxes of a key that overlap and are not equal.
[[nodiscard]] PreparedDict prepare(const StateDict& dict, Purpose purpose);

/// `rank` holds this of a tensor. The main replica is number 0; any other copy has a number of the rank's own, so that
/// copies of two ranks never have the same, whatever their ReplicaId says.
[[nodiscard]] ShardedArray held(const PreparedTensor& tensor, std::uint32_t rank);

/// What a load asks for; boxes that are equal are replicas of different numbers.
[[nodiscard]] AbstractShardedArray wanted(const PreparedTensor& tensor);

/// What a load has brought beyond the memory of tensors.
struct LoadedParts {
  Tree common;                          ///< Of the checkpoint.
  std::map<std::string, Tree> objects;  ///< By unique key.
  std::set<std::string>
      dropped;  ///< Keys that were asked for, are not stored, and are left out of the state.
};

/// Step 5.
///
/// A factory of which a part was dropped is left out. A list that common state has shortened, because the elements
/// between its own were sharded, is put together again by the positions in the request.
/// Errors: naming the path. Errc::structure_mismatch where both the common state and the request have something; what
///         `merge` throws.
[[nodiscard]] Tree assemble(const PreparedDict& request, LoadedParts loaded);

}  // namespace cairn::megatron::detail
