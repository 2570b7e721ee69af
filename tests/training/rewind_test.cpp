// SPDX-License-Identifier: Apache-2.0
// A training goes back to an earlier step: those above it are set aside, whatever lies beside them and whatever fails.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "training/rewinds.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::Checkpointers;
using ::testing::ElementsAre;
using testing::Fails;
using testing::FaultyCheckpointers;
using ::testing::HasSubstr;
using testing::HeldCheckpointers;
using ::testing::IsEmpty;
using ::testing::Not;

using Rewind = testing::Rewinds<Checkpointers>;
using RewindOnAFaultyDisk = testing::Rewinds<FaultyCheckpointers>;
using RewindBesideASave = testing::Rewinds<HeldCheckpointers>;

constexpr const char* kUuid = "f81d4fae-7dec-41d0-a765-00a0c91e6bf6";

TEST_F(Rewind, SetsLaterStepsAsideAndARestartResumesTheNewLine) {
  save_steps({800, 900, 1000});
  {
    const auto run = make(keeping(keep::latest(3)));
    run->rewind(800);
    EXPECT_THAT(run->steps(), ElementsAre(800));
    for (std::uint64_t step = 810; step <= 840; step += 10) {
      save(*run, step);
    }
    run->close();
  }

  EXPECT_THAT(on_disk(), ElementsAre(820, 830, 840));
  EXPECT_EQ(make()->resume()->step, 840u);
  EXPECT_THAT(set_aside(), ElementsAre("900", "1000"));
  EXPECT_TRUE(is_checkpoint(line_path() / "1000", {}, *context_));
}

TEST_F(Rewind, HidesWhatItHasSetAsideFromEverybodyWhoLooksForCheckpoints) {
  save_steps({1, 2});
  make()->rewind(1);

  ListOptions everything;
  everything.everything = true;
  EXPECT_EQ(list_checkpoints(root(), everything, *context_).size(), 1u);
  EXPECT_EQ(latest_checkpoint(root(), {}, *context_)->name, "1");
  recover(root(), {}, *context_);
  EXPECT_THAT(set_aside(), ElementsAre("2"));
  EXPECT_THAT(on_disk(), ElementsAre(1));
}

TEST_F(Rewind, ToTheLastStepMovesNothing) {
  save_steps({1, 2});
  const auto run = make();

  run->rewind(2);

  EXPECT_THAT(run->steps(), ElementsAre(1, 2));
  EXPECT_FALSE(fs::exists(root() / ".cairn-rewound"));
}

TEST_F(Rewind, ToAStepThatIsNotThereMovesNothing) {
  save_steps({1, 20});
  const auto run = make();

  EXPECT_THAT([&] { run->rewind(2); }, Fails(Errc::not_found, HasSubstr("step 2 of")));
  EXPECT_THAT(run->steps(), ElementsAre(1, 20));
}

TEST_F(Rewind, WaitsForTheSaveInFlight) {
  const auto run = make();
  save(*run, 1);
  save(*run, 2);

  run->rewind(1);

  EXPECT_THAT(run->steps(), ElementsAre(1));
  EXPECT_THAT(set_aside(), ElementsAre("2"));
}

TEST_F(Rewind, NamesStepsThatArePinnedOrInUseAndMovesNothing) {
  save_steps({1, 2, 3, 4});
  const auto run = make();
  run->pin(2);
  {
    const StepLoadResponse loading = run->load_async(4);
    EXPECT_THAT([&] { run->rewind(1); },
                Fails(Errc::invalid_argument, AllOf(HasSubstr("step 2 is pinned"), Not(HasSubstr("step 3")),
                                                    HasSubstr("step 4 is being saved, loaded or removed"))));
  }
  EXPECT_THAT(on_disk(), ElementsAre(1, 2, 3, 4));
  EXPECT_FALSE(fs::exists(root() / ".cairn-rewound"));

  run->unpin(2);
  run->rewind(1);
  EXPECT_THAT(on_disk(), ElementsAre(1));
}

TEST_F(RewindBesideASave, OfAnotherProgramIsRefused) {
  save_steps({800, 900});
  disk_->hold(testing::Held::sync);
  const AsyncResponse saving = save_async(root() / "950", tree_, {}, *context_);
  ASSERT_TRUE(disk_->holds());
  Checkpointer run(root(), {}, plain_);

  EXPECT_THAT([&] { run.rewind(800); },
              Fails(Errc::invalid_argument, HasSubstr("step 950 is being saved (.tmp-950-")));
  disk_->let_go();
  saving.wait();

  EXPECT_THAT(on_disk(), ElementsAre(800, 900, 950));
  run.rewind(800);
  EXPECT_THAT(on_disk(), ElementsAre(800));
}

TEST_F(Rewind, LetsLinksLeadToTheStepsThatStay) {
  CheckpointerOptions options;
  options.links.latest = true;
  options.links.best_metric = "loss";
  const auto run = make(options);
  for (const std::uint64_t step : {1u, 2u, 3u}) {
    save(*run, step, Metrics{{"loss", 1.0 / static_cast<double>(step)}}).wait();
  }

  run->rewind(2);

  EXPECT_EQ(fs::read_symlink(root() / "latest"), "2");
  EXPECT_EQ(fs::read_symlink(root() / "best"), "2");
}

TEST_F(Rewind, TakesAlongWhatARecoveryWouldPutBack) {
  save_steps({1, 2});
  fs::copy(root() / "2", root() / (std::string(".tmp-2-") + kUuid), fs::copy_options::recursive);
  save_steps({3});
  fs::rename(root() / "3", root() / (std::string(".tmp-3-") + kUuid));  // A crash has displaced it.

  make()->rewind(1);
  recover(root(), {}, *context_);

  EXPECT_THAT(on_disk(), ElementsAre(1));
  EXPECT_EQ(make()->resume()->step, 1u);
  EXPECT_EQ(lines().size(), 2u);  // What was replaced lies in a line of its own.
}

TEST_F(RewindOnAFaultyDisk, LeavesItsStepWhateverAnotherProgramWasAboutToRemove) {
  save_steps({1, 2, 3});
  Checkpointer other(root(), {}, plain_);
  // Right before the first of the steps goes that are to go because of the later ones.
  const auto act = [&] { disk_->before_lock = [&other] { other.rewind(2); }; };
  const auto run = make(keeping({"mine", false, [&](std::span<const StepInfo> steps, CommitTime now) {
                                   act();
                                   return keep::latest(2)(steps, now);
                                 }}));

  save(*run, 4).wait();
  run->wait();

  EXPECT_FALSE(disk_->before_lock);  // It was.
  EXPECT_THAT(on_disk(), ElementsAre(1, 2));
}

TEST_F(RewindOnAFaultyDisk, KeepsItsStepFromBeingRemovedMeanwhile) {
  save_steps({1, 2, 3});
  StepDirectory other(root(), {}, plain_);
  disk_->after_rename = [&] { EXPECT_FALSE(other.remove_unless_pinned(1, {}, plain_)); };

  make()->rewind(1);

  EXPECT_FALSE(disk_->after_rename);
  EXPECT_THAT(on_disk(), ElementsAre(1));
}

TEST_F(RewindOnAFaultyDisk, TakesAlongOtherGenerations) {
  disk_->lacks_rename_modes = true;
  const auto run = make();
  save(*run, 1).wait();
  save(*run, 2).wait();
  fs::copy(root() / "2", root() / "copy", fs::copy_options::recursive);
  StepOptions again;
  again.save.overwrite = true;
  save(*run, 2, again).wait();
  run->wait();
  ASSERT_TRUE(fs::exists(root() / "2.g2"));
  fs::rename(root() / "copy", root() / "2");  // The overwrite could not remove it.

  run->rewind(1);

  EXPECT_THAT(on_disk(), ElementsAre(1));
  EXPECT_FALSE(fs::exists(root() / "2"));
  EXPECT_FALSE(fs::exists(root() / "2.g2"));
}

TEST_F(Rewind, TakesAlongStepsThatHaveLostTheirCommitAndResumeGoesOn) {
  save_steps({1, 2, 3});
  fs::remove(root() / "3" / "COMMIT");
  tear_manifest(2);
  const auto run = make();

  run->rewind(1);

  EXPECT_EQ(run->resume()->step, 1u);
  EXPECT_THAT(set_aside(), ElementsAre("2", "3"));
}

TEST_F(Rewind, LeavesWhatIsNotAStep) {
  save_steps({1, 2});
  save_alone("final");
  fs::create_directory(root() / "3");
  fs::copy(root() / "1", root() / "2.g5", fs::copy_options::recursive);  // Only called like a generation.

  make()->rewind(1);

  EXPECT_TRUE(is_checkpoint(root() / "final", {}, *context_));
  EXPECT_TRUE(fs::exists(root() / "3"));
  EXPECT_TRUE(fs::exists(root() / "2.g5"));
  EXPECT_FALSE(fs::exists(root() / "2"));
}

TEST_F(Rewind, SavesStepsOfTheSameNumbersAgain) {
  save_steps({1, 2});
  alter(2);
  const auto run = make();
  EXPECT_ANY_THROW(static_cast<void>(run->load(2)));

  run->rewind(1);
  save(*run, 2).wait();
  run->close();

  EXPECT_EQ(stored_step(run->load(2)), 2u);
}

TEST_F(Rewind, OfALineThatWasBegunAfterAnotherRewindLiesBesideIt) {
  save_steps({1, 2});
  const auto run = make();
  run->rewind(1);
  save(*run, 2).wait();
  run->rewind(1);

  ASSERT_EQ(lines().size(), 2u);
  EXPECT_LT(lines()[0].time, lines()[1].time);  // Though the clock stands still.
  EXPECT_THAT(set_aside(), ElementsAre("2", "2"));
}

TEST_F(Rewind, FollowsNoLinkInPlaceOfItsDirectory) {
  save_steps({1, 2});
  fs::create_directory(directory_ / "elsewhere");
  fs::create_directory_symlink(directory_ / "elsewhere", root() / ".cairn-rewound");

  EXPECT_THROW(make()->rewind(1), Error);

  EXPECT_TRUE(fs::is_empty(directory_ / "elsewhere"));
  EXPECT_THAT(on_disk(), ElementsAre(1, 2));
  EXPECT_THAT(training::list_rewound(open_root()).notes, ElementsAre(HasSubstr("is not a directory")));
}

TEST_F(Rewind, IsRefusedInAPolicyOfTheCheckpointersOwn) {
  std::unique_ptr<Checkpointer> run;
  run = make(keeping(KeepPolicy("mine", false, [&](std::span<const StepInfo> steps, CommitTime) {
    run->rewind(1);
    return std::vector<bool>(steps.size(), true);
  })));
  save(*run, 1);

  EXPECT_THAT([&] { run->close(); }, Fails(Errc::invalid_argument, HasSubstr("would deadlock")));
}

/// Steps 1 to 4, of which those above 1 are to go.
class RewindThatIsCutShort : public RewindOnAFaultyDisk {
 protected:
  RewindThatIsCutShort() {
    save_steps({1, 2, 3, 4});
    fs::copy(root(), directory_ / "steps", fs::copy_options::recursive);
  }

  void begin_again() const {
    fs::remove_all(root());
    fs::copy(directory_ / "steps", root(), fs::copy_options::recursive);
  }

  /// A line of steps from 1 on without a gap is left, and nothing is lost of those above.
  void expect_shorter_line() const {
    const std::vector<std::uint64_t> left = on_disk();
    for (std::size_t i = 0; i < left.size(); ++i) {
      EXPECT_EQ(left[i], i + 1);
    }
    for (std::size_t step = left.size() + 1; step <= 4; ++step) {
      EXPECT_THAT(set_aside(), ::testing::Contains(std::to_string(step)));
    }
  }
};

TEST_F(RewindThatIsCutShort, LeavesAShorterLineAndGoesOnWhateverCallFails) {
  for (const bool is_performed : {false, true}) {
    const int faults = io::try_each_fault(is_performed ? 1 : io::kForEver, [&](io::Fault fault) {
      begin_again();
      const auto run = make();
      fault.is_performed = is_performed;
      disk_->plan(fault);
      try {
        run->rewind(1);
      } catch (const Error&) {  // The fault.
      }
      const bool was_hit = disk_->hits() != 0;
      disk_->clear();
      expect_shorter_line();
      run->reload();
      EXPECT_EQ(run->steps(), on_disk());
      run->rewind(1);
      EXPECT_THAT(on_disk(), ElementsAre(1));
      expect_shorter_line();
      return was_hit;
    });
    EXPECT_GE(faults, 30);
  }
}

TEST_F(RewindThatIsCutShort, MovesTheHighestFirst) {
  for (const int rename : {1, 2, 3}) {
    begin_again();
    const auto run = make();
    disk_->plan({io::Call::rename, rename, io::kForEver, -EIO});
    EXPECT_THAT([&] { run->rewind(1); }, testing::FailsWithErrno(EIO, HasSubstr("rename")));
    disk_->clear();

    EXPECT_EQ(on_disk().size(), static_cast<std::size_t>(5 - rename));
    EXPECT_EQ(run->steps(), on_disk());
    EXPECT_EQ(make()->resume()->step, static_cast<std::uint64_t>(5 - rename));
  }
}

TEST_F(RewindThatIsCutShort, ByTheLowerLayerOfAnOverlayFileSystemSaysSoAndLeavesNoLine) {
  const auto run = make();
  disk_->plan({io::Call::rename, 1, io::kForEver, -EXDEV});

  EXPECT_THAT(
      [&] { run->rewind(1); },
      testing::FailsWithErrno(EXDEV, HasSubstr("4 lies in the lower layer of an overlay file system")));

  EXPECT_THAT(on_disk(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(lines(), ::testing::IsEmpty());
}

/// Steps in memory of the line that is given up, and of the one that it is given up for.
TEST_F(RewindThatIsCutShort, LeavesTheLineOfStepsAsItWasUnlessItHasGoneBack) {
  constexpr const char* kBefore = "3\n3 2\n";
  for (const bool is_performed : {false, true}) {
    const int faults = io::try_each_fault(1, [&](io::Fault fault) {
      begin_again();
      fs::create_directory(root() / ".cairn-flash");
      testing::write_text(root() / ".cairn-flash/line", kBefore);
      const auto run = make();
      fault.is_performed = is_performed;
      disk_->plan(fault);
      bool has_gone_back = false;
      try {
        run->rewind(2);
        has_gone_back = true;
      } catch (const Error&) {  // The fault.
      }
      const bool was_hit = disk_->hits() != 0;
      disk_->clear();
      EXPECT_EQ(testing::read_text(root() / ".cairn-flash/line"), has_gone_back ? "4\n3 2\n4 3\n" : kBefore);
      return was_hit;
    });
    EXPECT_GE(faults, 30);
  }
}

TEST_F(RewindThatIsCutShort, IsBroughtBackLineByLine) {
  disk_->plan({io::Call::rename, 2, io::kForEver, -EIO});
  EXPECT_ANY_THROW(make()->rewind(1));
  disk_->clear();
  make()->rewind(1);
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_THAT([&] { training::bring_back(open_root(), "nothing"); }, Fails(Errc::not_found));

  training::bring_back(open_root(), lines()[1].name);
  EXPECT_THAT(on_disk(), ElementsAre(1, 2, 3));
  training::bring_back(open_root(), lines()[0].name);

  EXPECT_THAT(on_disk(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(lines(), IsEmpty());
}

/// What a rewind has set aside, on a disk that fails.
class RewoundLines : public RewindThatIsCutShort {
 protected:
  RewoundLines() { make_line(); }

  void make_line() const {
    begin_again();
    make()->rewind(1);
  }
  [[nodiscard]] io::Directory open_faulty_root() const { return io::Directory::open(*disk_, root()); }
};

TEST_F(RewoundLines, ComeBackWithoutAGapWhateverCallFails) {
  const int faults = io::try_each_fault(io::kForEver, [&](const io::Fault& fault) {
    make_line();
    const std::string line = lines().front().name;
    const io::Directory faulty = open_faulty_root();
    disk_->plan(fault);
    try {
      training::bring_back(faulty, line);
    } catch (const Error&) {  // The fault.
    }
    const bool was_hit = disk_->hits() != 0;
    disk_->clear();
    expect_shorter_line();
    if (!set_aside().empty()) {
      training::bring_back(faulty, line);
    }
    EXPECT_THAT(on_disk(), ElementsAre(1, 2, 3, 4));
    return was_hit;
  });
  EXPECT_GE(faults, 30);
}

TEST_F(RewoundLines, DoNotComeBackWhereStepsHaveTheirNamesOrComeAfterThem) {
  const std::string line = lines().front().name;
  for (const char* other : {"3", "20"}) {
    save_alone(other);
    EXPECT_THAT([&] { training::bring_back(open_root(), line); },
                Fails(Errc::already_exists, AllOf(HasSubstr(other), HasSubstr("nothing is moved"))));
    EXPECT_THAT(set_aside(), ElementsAre("2", "3", "4"));
    fs::remove_all(root() / other);
  }
  save_alone("final");

  EXPECT_THAT(training::bring_back(open_root(), line).checkpoints, ElementsAre("2", "3", "4"));
}

TEST_F(RewoundLines, AreRemovedButForWhatIsNotTheirs) {
  const fs::path line = line_path();
  testing::write_text(line / "notes", "mine");
  fs::create_directory_symlink(directory_ / "steps", line / "5");
  fs::create_directory_symlink(directory_ / "steps",
                               root() / ".cairn-rewound" / (std::string("0000000001-") + kUuid));
  fs::remove(line / "3" / "COMMIT");
  EXPECT_THAT(training::list_rewound(open_root()).notes, ElementsAre(HasSubstr("was not made by a rewind")));

  EXPECT_THAT(training::remove_rewound(open_root(), line.filename(), store::system_random),
              ElementsAre(AllOf(HasSubstr("/3 stays"), HasSubstr("COMMIT")), HasSubstr("/5 stays"),
                          HasSubstr("/notes stays")));

  EXPECT_FALSE(fs::exists(line / "2"));
  EXPECT_FALSE(fs::exists(line / "4"));
  EXPECT_TRUE(fs::exists(directory_ / "steps" / "4" / "COMMIT"));
  EXPECT_THAT(
      [&] {
        training::remove_rewound(open_root(), std::string("0000000001-") + kUuid, store::system_random);
      },
      Fails(Errc::not_found));
}

TEST_F(RewoundLines, WhoseRemovalWasCutShortAreRemovedByTheNext) {
  const std::string line = lines().front().name;
  const io::Directory faulty = open_faulty_root();
  disk_->plan({io::Call::unlink, 3, io::kForEver, -EIO});
  EXPECT_ANY_THROW(training::remove_rewound(faulty, line, store::system_random));
  disk_->clear();
  EXPECT_THAT(set_aside(), ::testing::Not(::testing::Contains("4")));  // The highest goes first.

  EXPECT_THAT(training::remove_rewound(faulty, line, store::system_random), IsEmpty());
  EXPECT_THAT(lines(), IsEmpty());
}

}  // namespace
}  // namespace cairn
