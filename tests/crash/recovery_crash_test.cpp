// SPDX-License-Identifier: Apache-2.0
// What the enumeration has found in recovery, each in its smallest form.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "crash/crash_enumerator.hpp"
#include "crash/fates.hpp"
#include "crash/scenes.hpp"
#include "crash/simulated_machine.hpp"
#include "io/internal/file.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/remove_checkpoint.hpp"

namespace cairn::crash {
namespace {

class NothingLost final : public Fate {
 public:
  std::size_t size(std::size_t sizes) override { return sizes - 1; }
  std::size_t sector(std::size_t versions, bool) override { return versions - 1; }
};

SimulatedDisk after_cut(const SimulatedDisk& disk, bool keeps_names) {
  NothingLost fate;
  return disk.after_power_cut(std::vector<bool>(disk.pending_names(), keeps_names), fate);
}

SimulatedDisk empty_run() {
  SimulatedDisk disk;
  disk.make(kRootInode, "run", io::FileKind::directory);
  disk.sync_all();
  return disk;
}

std::size_t entries_in_run(const SimulatedDisk& disk) {
  return disk.node(*disk.find(kRootInode, "run")).entries.size();
}

/// Saves on a new disk and returns it as it was right after the first operation for which `is_wanted`.
SimulatedDisk killed_after(const Scene& scene, const std::function<bool(const std::string&)>& is_wanted) {
  SimulatedMachine machine(empty_run());
  scene.prepare(machine);
  machine.disk().sync_all();
  machine.has_exchange = scene.has_exchange;
  machine.has_no_replace = scene.has_no_replace;
  machine.has_links = scene.has_links;
  machine.record();
  scene.act(machine);
  const auto found = std::find_if(machine.moments().begin(), machine.moments().end(),
                                  [&](const Moment& moment) { return is_wanted(moment.operation); });
  return found->disk;
}

TEST(RecoveryRemoval, CanBeRepeatedWhenCommitWasNeverWritten) {
  const auto is_made = [](const std::string& operation) {
    return operation.starts_with("create") && operation.ends_with("/COMMIT");
  };
  SimulatedMachine machine(killed_after(scene("save"), is_made));
  machine.record();
  SimulatedProcess process(machine);
  store::recover(process, kRunPath);

  for (const Moment& moment : machine.moments()) {
    SimulatedMachine again(after_cut(moment.disk, true));
    SimulatedProcess second(again);
    store::recover(second, kRunPath);
    EXPECT_EQ(entries_in_run(again.disk()), 0u) << "the power went after " << moment.operation;
  }
}

TEST(RecoveryOfMarkerMode, KeepsWhatItHasTakenForCommitted) {
  const auto is_linked = [](const std::string& operation) { return operation.starts_with("link"); };
  SimulatedMachine machine(killed_after(scene("overwrite by marker"), is_linked));
  SimulatedProcess process(machine);
  store::recover(process, kRunPath);

  SimulatedMachine again(after_cut(machine.disk(), false));
  SimulatedProcess reader(again);

  EXPECT_NO_THROW(static_cast<void>(read_all_targets(reader, {{"step", {&new_content()}}})));
}

/// Writes into the temporary directory between the look that recovery takes at it and the removal.
class LateWriter final : public Saboteur {
 public:
  LateWriter(SimulatedDisk& disk, Inode directory) : disk_(disk), directory_(directory) {}

  int run(const Operation& operation, std::function<int()> effect) override {
    if (operation.change == Change::sync && ++syncs_ == 2) {
      disk_.make(directory_, ".owner", io::FileKind::regular);
    }
    return effect();
  }

 private:
  SimulatedDisk& disk_;
  Inode directory_;
  int syncs_ = 0;
};

TEST(RecoveryOfAnEmptyTemporary, LeavesWhatItsWriterPutsInMeanwhile) {
  SimulatedMachine machine(empty_run());
  const Inode root = *machine.disk().find(kRootInode, "run");
  const Inode staged =
      machine.disk().make(root, ".tmp-step-01234567-89ab-4cde-8f01-23456789abcd", io::FileKind::directory);
  LateWriter writer(machine.disk(), staged);
  machine.saboteur = &writer;
  SimulatedProcess process(machine);

  store::recover(process, kRunPath);

  EXPECT_EQ(entries_in_run(machine.disk()), 1u);
  EXPECT_TRUE(machine.disk().find(staged, ".owner"));
}

/// What rank 0 of several was about to publish when the others moved it away; nothing but its data is synced.
SimulatedDisk moved_away_by_other_ranks() {
  const auto is_sealed = [](const std::string& operation) {
    return operation.starts_with("write") && operation.ends_with("/COMMIT");
  };
  SimulatedDisk disk = killed_after(scene("save"), is_sealed);
  const Inode root = *disk.find(kRootInode, "run");
  const std::string staged = disk.node(root).entries.begin()->first;
  disk.rename(root, staged, root, ".trash" + staged.substr(std::string(".tmp").size()));
  return disk;
}

TEST(RecoveryOfASaveThatOtherRanksMovedAway, CanBeRepeatedWhenItsCommitWasNeverDurable) {
  SimulatedMachine machine(moved_away_by_other_ranks());
  machine.record();
  SimulatedProcess process(machine);
  store::recover(process, kRunPath);

  for (const Moment& moment : machine.moments()) {
    UniformFate hollow(UniformFate::Kind::lost);
    SimulatedMachine again(
        moment.disk.after_power_cut(std::vector<bool>(moment.disk.pending_names(), true), hollow));
    SimulatedProcess second(again);
    store::recover(second, kRunPath);
    EXPECT_EQ(entries_in_run(again.disk()), 0u) << "the power went after " << moment.operation;
  }
}

/// Removes the last file of a removal before its turn comes: somebody else is quicker.
class QuickerRemover final : public Saboteur {
 public:
  explicit QuickerRemover(SimulatedDisk& disk) : disk_(disk) {}

  int run(const Operation& operation, std::function<int()> effect) override {
    const Node& root = disk_.node(*disk_.find(kRootInode, "run"));
    if (operation.change == Change::unlink && !std::exchange(is_done_, true)) {
      disk_.unlink(root.entries.begin()->second, "COMMIT");
    }
    return effect();
  }

 private:
  SimulatedDisk& disk_;
  bool is_done_ = false;
};

TEST(RemoveCheckpoint, SucceedsWhenARecoveryRemovesTheSame) {
  SimulatedMachine machine(empty_run());
  SimulatedProcess process(machine);
  save(process, "step", old_content());
  QuickerRemover remover(machine.disk());
  machine.saboteur = &remover;

  EXPECT_NO_THROW(store::remove_checkpoint(process, path_of("step"), machine.random()));

  EXPECT_EQ(entries_in_run(machine.disk()), 0u);
}

}  // namespace
}  // namespace cairn::crash
