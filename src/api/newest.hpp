// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "cairn/api/find.hpp"

namespace cairn::api {

/// Holds what makes a checkpoint the newest.
struct Newest {
  CheckpointOrder order = CheckpointOrder::by_name;
  /// Unset: as both readings say.
  std::optional<NumbersInNames> numbers;
  /// Null: `order` decides.
  std::function<std::optional<std::uint64_t>(std::string_view name)> number;
  /// The caller may go on to those before the newest: both readings must have all in the same order then.
  bool is_of_all = false;
};

/// Returns those of `found`, which are sorted by `order`, that may be the newest; the newest comes last.
///
/// By name these are one family: names with a number in them that are the same without their numbers ("step-9",
/// "step-10"), or one name where none has a number. A name without a number ("best") is not newer than one that has
/// it ("100"), and of two families nobody can tell which goes on.
/// Errors: Errc::invalid_argument: there are several families (each is named, with its newest), or the two readings of
///         numbers do not agree (both are named, with what each says).
[[nodiscard]] std::vector<FoundCheckpoint> candidates(std::vector<FoundCheckpoint> found,
                                                      const std::filesystem::path& root, const Newest& how);

}  // namespace cairn::api
