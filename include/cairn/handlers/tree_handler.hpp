// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cairn/core/handler.hpp"
#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/tree.hpp"

namespace cairn {

/// Saves trees: scalars and structure in `index.fb`, arrays in safetensors files.
///
/// A load is strict: what it asks for and what is stored must have the same paths; see TreeLoadOptions. What
/// a placeholder stands for is left out of the result (null when it is an element of a list). It reads
/// folders of safetensors files that others wrote, too: each tensor is then one key of a flat map.
/// Options: ArrayOptions, TreeLoadOptions.
/// Source:  docs/format.md, "Trees".
class TreeHandler final : public CheckpointableHandler<Tree, AbstractTree> {
 public:
  [[nodiscard]] std::string_view id() const noexcept override { return "cairn.tree/1"; }

  /// Errors: Errc::invalid_argument when the tree is too deep, a string is not UTF-8, or, with
  ///         Snapshot::share, an array has no owner; Errc::unsafe_cast when the storage dtype would lose
  ///         values.
  [[nodiscard]] Awaitable<Background<>> save(SaveContext context, const Tree& value) const override;

  /// Errors: Errc::structure_mismatch, listing what is missing and unexpected; Errc::type_mismatch,
  ///         Errc::shape_mismatch, Errc::unsafe_cast, naming the path; Errc::malformed_metadata,
  ///         Errc::incomplete_shards, Errc::overlapping_shards when files are damaged.
  [[nodiscard]] Awaitable<Background<Tree>> load(LoadContext context,
                                                 std::optional<AbstractTree> wanted) const override;

  [[nodiscard]] Awaitable<AbstractTree> metadata(LoadContext context) const override;
  [[nodiscard]] Description describe(const AbstractTree& stored) const override;

  /// Whether there is a safetensors file among them.
  [[nodiscard]] bool recognises(std::span<const std::string> files) const override;
};

}  // namespace cairn
