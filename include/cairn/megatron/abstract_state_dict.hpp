// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/handlers/tree.hpp"
#include "cairn/megatron/state_dict.hpp"
#include "cairn/megatron/strict.hpp"
#include "cairn/observe/report.hpp"

namespace cairn::megatron {

/// What another program has saved under a key, and no load gives.
struct LeftOutKey {
  std::string key;
  std::string why;
  bool is_tensor = true;

  bool operator==(const LeftOutKey&) const = default;
};

/// What a load asks for.
///
/// Tensors are loaded into the memory that they bring, or into new one. Plain values of the request are ignored: the
/// checkpoint's come in their place.
struct AbstractStateDict {
  AbstractStateDict() = default;

  // NOLINTNEXTLINE(google-explicit-constructor): a dict asks for what it has.
  AbstractStateDict(StateDict requested_value) : requested(std::move(requested_value)) {}

  StateDict requested;
  Strict strict = Strict::assume_ok_unexpected;
  /// Ranks that load together check that main replicas ask for each element of a tensor, and for each object of a grid,
  /// once, as those that save do.
  bool checks_access = true;
  /// Where keys that only one side has go, in the modes that return them. May be null.
  std::shared_ptr<Mismatch> mismatch;
  /// In the answer to a question for metadata: what lies there beyond `requested`, and cannot be loaded. Loads ignore
  /// it.
  std::vector<LeftOutKey> left_out;
};

/// What a load brings.
struct LoadedStateDict : Mismatch {
  /// The plain values of the checkpoint; tensors as arrays, objects and local values at their places in the request.
  Tree state;
  LoadResult result;  ///< What the load did; its problems are those of `strict`, too.
};

}  // namespace cairn::megatron
