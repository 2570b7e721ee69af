// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "cairn/contract/checkpointable.hpp"
#include "cairn/contract/handler.hpp"
#include "cairn/contract/registry.hpp"

namespace cairn {

/// Lets objects save and load themselves; see StatefulCheckpointable.
class StatefulHandler final : public CheckpointableHandler<StatefulReference> {
 public:
  [[nodiscard]] std::string_view id() const noexcept override { return "cairn.stateful/1"; }

  [[nodiscard]] Awaitable<Background<>> save(SaveContext context,
                                             const StatefulReference& value) const override;

  /// Loads into the object that `wanted` refers to; see `into`.
  ///
  /// Errors: Errc::invalid_argument when there is none; what the object throws.
  [[nodiscard]] Awaitable<Background<StatefulReference>> load(
      LoadContext context, std::optional<StatefulReference> wanted) const override;

  /// Refers to no object: only the object knows what it wrote.
  [[nodiscard]] Awaitable<StatefulReference> metadata(LoadContext context) const override;

  [[nodiscard]] bool is_handleable(const StatefulReference& value) const override { return value.can_save(); }

  [[nodiscard]] bool is_abstract_handleable(const StatefulReference& wanted) const override {
    return wanted.can_load();
  }
};

/// The handlers that Cairn brings: stateful objects, JSON, arrays, sharded arrays and trees; the last has the highest
/// precedence.
[[nodiscard]] RegistrySnapshot builtin_handlers();

}  // namespace cairn
