// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "crash/scenes.hpp"
#include "crash/simulated_disk.hpp"
#include "crash/simulated_machine.hpp"
#include "io/internal/syscalls.hpp"

namespace cairn::crash {

struct EnumerationOptions {
  EnumerationOptions() = default;

  std::uint64_t seed = 1;
  /// Different states to check; fewer when a scene has no more.
  std::uint64_t states = 1000;
  /// Breaks the protocol of whatever runs in the scene, or of the recovery after it.
  std::function<std::unique_ptr<Saboteur>()> sabotage;
  bool is_recovery_sabotaged = false;
  /// Stop at the first failure.
  bool is_brief = false;
  /// After so many of the scene's operations all programs are killed, and another one runs.
  std::size_t most_kills = std::numeric_limits<std::size_t>::max();
};

struct EnumerationReport {
  std::uint64_t states = 0;    ///< Different disks after a power cut, each recovered and read.
  std::uint64_t failures = 0;  ///< States in which a reader found neither what was before nor what was saved.
  std::string first_failure;

  void add(const EnumerationReport& other) {
    states += other.states;
    failures += other.failures;
    if (first_failure.empty()) {
      first_failure = other.first_failure;
    }
  }
};

/// Cuts the power after every operation of a scene, and of a recovery or another save after the programs
/// were killed at every operation, in as many ways as asked for; recovers each disk and compares every byte.
///
/// For each state:
/// - a reader finds what the promise of that moment allows, before the recovery and after it, and the same; but where
///   nothing was, a checkpoint may be put back that is allowed;
/// - a recovery that is itself cut anywhere, and repeated, changes nothing of that (for some of the states);
/// - nothing else is left, when the disk keeps names in the order of their changes, as a journal does;
/// - a second recovery has nothing to do, and a new save works (for some of the states).
class Enumerator {
 public:
  Enumerator(const Scene& scene, EnumerationOptions options);

  EnumerationReport run();

 private:
  /// A moment at which the power may go.
  struct Cut {
    SimulatedDisk disk;
    std::size_t promise = 0;
    std::size_t exhaustive_names = 0;  ///< With no more pending changes of names, every set of them is tried.
    std::string story;
  };

  void play_scene();
  void play_recovery_after_kill(const Moment& moment, const std::string& story);
  void play_save_after_kill(const Moment& moment, const std::string& story);
  void add_cut(const Moment& moment, std::string story, std::size_t exhaustive_names);
  void sweep_ends(const Cut& cut);
  void sweep_neighbours(const Cut& cut);
  void sweep_sets(const Cut& cut);
  void sweep_uniform(const Cut& cut, const std::vector<bool>& kept);
  void sweep_data(const Cut& cut, const std::vector<bool>& kept);
  void roam();
  [[nodiscard]] std::vector<bool> random_names(const SimulatedDisk& disk);

  /// Returns whether the state is a new one.
  bool check(const Cut& cut, const std::vector<bool>& kept, Fate& fate);
  [[nodiscard]] std::string judge(const SimulatedDisk& disk, const Cut& cut, bool is_ordered);
  void resume(SimulatedProcess& process, const Promise& promise) const;
  [[nodiscard]] std::string judge_cut_recovery(const SimulatedDisk& disk, const Promise& allowed);
  void fail(std::string text);
  [[nodiscard]] bool is_done() const;

  const Scene& scene_;
  const EnumerationOptions options_;
  std::mt19937_64 random_;
  std::vector<Promise> promises_;
  std::vector<Cut> cuts_;
  std::unordered_set<std::uint64_t> seen_;
  std::uint64_t judged_ = 0;
  EnumerationReport report_;
};

/// What a reader finds at each target of `promise`, in its form.
///
/// Errors: what the library throws for a damaged checkpoint; std::runtime_error for a content that the
///         promise does not allow, or for none.
[[nodiscard]] Promise read_all_targets(io::Syscalls& syscalls, const Promise& promise);

}  // namespace cairn::crash
