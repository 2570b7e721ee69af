// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/coord/coordinator.hpp"

#include "async/internal/event.hpp"
#include "crash/rank_schedule.hpp"
#include "crash/scenes.hpp"
#include "crash/simulated_machine.hpp"
#include "joint/internal/joint_save.hpp"
#include "joint/internal/save_protocol.hpp"
#include "store/internal/staged_directory.hpp"

namespace cairn::crash {

/// How a save ended for a rank.
enum class RankVerdict : std::uint8_t {
  none,  ///< It was killed before it was told.
  committed,
  aborted,
  unknown
};

/// What the ranks say to each other, and ask the disk, as saboteurs see it.
inline constexpr const char* kVoteWord = "vote";
inline constexpr const char* kWaitWord = "wait for the votes";
inline constexpr const char* kCommittedWord = "committed";

/// A rank that saves `new_content` with the others, one call after the other.
///
/// The order, the session and the directories are the library's own, as core::SaveJob has them.
/// Threads: one, in the turns of the schedule.
class JointSaver {
 public:
  /// What it is a part of. All of it outlives the saver.
  struct World {
    World(RankSchedule& when, coord::Coordinator& others, SimulatedProcess& how, Executor where)
        : schedule(when), coordinator(others), process(how), executor(std::move(where)) {}

    RankSchedule& schedule;
    coord::Coordinator& coordinator;
    SimulatedProcess& process;
    Executor executor;
  };

  /// `told` is called once, as soon as the rank knows how its save ends.
  JointSaver(World world, std::string target, bool overwrite, std::function<void(RankVerdict)> told);

  /// Saves. What is thrown is no verdict.
  void run();

 private:
  void perform(joint::SaveProtocol::Act act);
  void write();
  void make_directory();
  void join_directory();
  /// Of this rank's part of `new_content`.
  void write_files();
  void collect_votes();
  void publish();
  void hear_verdict();
  [[noreturn]] void fail() const;
  void require_running() const;
  void tell_user(RankVerdict verdict);

  template <class T>
  T await(Awaitable<T> task);
  void await(Awaitable<> task);
  void wait_for(const async::Event& event);

  [[nodiscard]] bool is_primary() const { return joint_->is_primary(); }
  [[nodiscard]] int rank() const { return static_cast<int>(joint_->rank()); }

  World world_;
  const std::string target_;
  const bool overwrite_;
  const std::function<void(RankVerdict)> told_;
  SimulatedEngine engine_;
  std::optional<joint::JointSave> joint_;
  std::optional<joint::SaveProtocol> protocol_;
  std::optional<store::StagedDirectory> staged_;
  std::vector<io::FileDigest> digests_;
  std::vector<store::FileEntry> files_;  // At rank 0 those of the others, else those of this rank.
  joint::Ending ending_ = joint::Ending::committed;
  std::exception_ptr failure_;
  bool is_told_ = false;
};

/// The files that a rank writes, of a job of so many.
[[nodiscard]] Content part_of(const Content& content, std::size_t rank, std::size_t ranks);

}  // namespace cairn::crash
