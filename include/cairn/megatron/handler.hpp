// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cairn/contract/handler.hpp"
#include "cairn/handlers/tree_handler.hpp"
#include "cairn/megatron/abstract_state_dict.hpp"
#include "cairn/megatron/save_rules.hpp"
#include "cairn/megatron/state_dict.hpp"

namespace cairn::megatron {

/// Saves state dicts, beside checkpointables of other handlers: `registry.add<StateDictHandler>()`.
///
/// Each rank saves what its dict has: tensors by key, objects by unique key; rank 0 the plain values, in a file that
/// opens alone. A load gives a dict of plain values.
/// Options: StateDictSaveRules, ArrayOptions, ShardingOptions.
class StateDictHandler final : public CheckpointableHandler<StateDict, AbstractStateDict> {
 public:
  [[nodiscard]] std::string_view id() const noexcept override { return kStateDictId; }
  [[nodiscard]] Participation participation() const noexcept override { return Participation::all; }

  [[nodiscard]] Awaitable<Background<>> save(SaveContext context, const StateDict& value) const override;

  /// Without a wish: all tensors whole, all objects by their unique keys, and the plain values.
  [[nodiscard]] Awaitable<Background<StateDict>> load(LoadContext context,
                                                      std::optional<AbstractStateDict> wanted) const override;

  /// Tensors with one part each, and objects without data, by their keys.
  [[nodiscard]] Awaitable<AbstractStateDict> metadata(LoadContext context) const override;

  [[nodiscard]] Description describe(const AbstractStateDict& stored) const override;

  /// A folder of Megatron-Core's.
  [[nodiscard]] bool recognises(std::span<const std::string> files) const override;
};

}  // namespace cairn::megatron

namespace cairn {

template <>
struct IsCopyable<megatron::StateDict> : std::true_type {};

/// The elements of its arrays are copied, too.
template <>
struct WatchedCopy<megatron::StateDict> {
  static const megatron::StateDict* make(const megatron::StateDict& value,
                                         const std::shared_ptr<WatchedMemory>& memory);
};

/// A dict owns its memory when all of its arrays have owners.
template <>
struct OwnsItsMemory<megatron::StateDict> {
  static constexpr bool kIsShared = true;

  static bool check(const megatron::StateDict& dict);
};

}  // namespace cairn
