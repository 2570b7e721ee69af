// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "ranks/story.hpp"
#include "support/target_history.hpp"

namespace cairn::ranks {

/// What a rank was told of a save.
struct Told {
  std::size_t rank = 0;
  std::size_t step = 0;
  bool is_committed = false;
  std::string words;                       ///< Of a failure.
  std::vector<std::string> problems = {};  ///< Of a save that is committed.
  /// Of a step in which one is late, where this rank's own deadline has passed: who had called long before that.
  std::set<std::size_t> present = {};
};

/// Returns what a rank should not have been told, as the story goes: a commit of what ranks contradict, no word of
/// values that differ, or ranks named that did nothing.
[[nodiscard]] std::vector<testing::Lie> lies_in(const Story& story, const Told& told);

/// The part of a failure that all ranks are told alike: how they contradict each other; empty when it says nothing of
/// that.
[[nodiscard]] std::string disagreement_in(const std::string& words);

}  // namespace cairn::ranks
