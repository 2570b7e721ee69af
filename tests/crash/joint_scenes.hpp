// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "crash/crash_enumerator.hpp"
#include "crash/joint_saver.hpp"
#include "crash/scenes.hpp"
#include "crash/simulated_machine.hpp"

namespace cairn::crash {

/// What becomes of one rank while it saves with the others.
enum class Mishap : std::uint8_t {
  none,
  killed,   ///< Its process ends; what it has written is still in the page cache.
  lost,     ///< Its machine ends, and takes away what was not synced.
  unheard,  ///< It goes on; but nobody hears it from then on, and it hears nobody.
  stopped,  ///< Nothing of it happens until the others have ended; then it goes on.
};

/// A save of several ranks.
struct JointPlan {
  JointPlan() = default;

  std::size_t ranks = 2;
  bool overwrite = false;
  std::uint64_t seed = 1;  ///< Of the turns, and of how long packets take.
  Mishap mishap = Mishap::none;
  std::size_t victim = 0;
  int call = 0;  ///< Before which call of any rank it happens, from 1.
  /// Another program recovers as soon as the mishap has happened.
  bool has_recovery = false;
  /// Rank 1 is killed, too, some calls later.
  bool has_second = false;
};

/// How it ended.
struct JointEnd {
  std::vector<RankVerdict> verdicts;
  int calls = 0;  ///< Of all ranks.
};

/// Plays it on a machine, and tells that what each verdict promises.
///
/// Errors: std::runtime_error when one rank says committed and another aborted, or when not all say committed though
///         nothing happened.
JointEnd save_together(SimulatedMachine& machine, const JointPlan& plan);

/// A save of several ranks of which one has a mishap, once before each call of any rank: a scene for each.
struct MishapScene {
  std::string name;
  Scene calm;  ///< What is there before, and promised; its act is without the mishap.
  JointPlan plan;

  /// Once, by a plan like its own.
  [[nodiscard]] JointEnd play(const JointPlan& played) const;
  /// How many calls there are when nothing happens.
  [[nodiscard]] int calls(std::uint64_t seed) const;
  [[nodiscard]] Scene at(int call, std::uint64_t seed) const;
};

/// Saves of two and three ranks in each form of a commit, without a mishap.
[[nodiscard]] std::vector<Scene> joint_scenes();
/// The same with each mishap of rank 0, and of the last rank.
[[nodiscard]] const std::vector<MishapScene>& mishap_scenes();
/// Null: there is none.
[[nodiscard]] const MishapScene* find_mishap_scene(std::string_view name);

/// Enumerates what is left after a mishap before each call, in several schedules; where there are too few states for
/// all, before some of the calls.
[[nodiscard]] EnumerationReport enumerate(const MishapScene& scene, const EnumerationOptions& options);

}  // namespace cairn::crash
