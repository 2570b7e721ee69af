// SPDX-License-Identifier: Apache-2.0
// A process pins a step while another removes or replaces it: the pin stands and the step stays, or neither.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "io/attacked_syscalls.hpp"
#include "io/faulty_syscalls.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/checkpoint_lock.hpp"
#include "store/internal/held_checkpoint.hpp"
#include "store/internal/store.hpp"
#include "support/held_syscalls.hpp"
#include "training/fixture.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;

constexpr std::uint64_t kStep = 7;

class PinsBeside : public testing::TrainingTest {
 protected:
  PinsBeside() {
    ContextOptions options = small();
    options.syscalls = attacked_;
    attacked_context_ = std::make_unique<Context>(std::move(options));
  }

  /// Of a process at whose every call somebody else may do something.
  [[nodiscard]] StepDirectory attacked() const { return StepDirectory(root(), {}, *attacked_context_); }
  [[nodiscard]] StepDirectory other() const { return StepDirectory(root(), {}, *context_); }

  /// Who waits for somebody else waits in vain: the clock goes on until it has given up.
  void pin_patiently(const StepDirectory& directory) const {
    std::future<void> pin = std::async(std::launch::async, [&] { directory.pin(kStep); });
    while (pin.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      clock_->advance(std::chrono::seconds(1));
    }
    pin.get();
  }
  bool is_pinned_by(const StepDirectory& directory) const {
    try {
      pin_patiently(directory);
      return true;
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == Errc::not_found || error.code() == std::errc::device_or_resource_busy)
          << error.what();
      return false;
    }
  }
  void expect_both_or_neither(bool is_pinned) const {
    EXPECT_EQ(fs::exists(root() / std::to_string(kStep)), is_pinned);
    EXPECT_EQ(other().is_pinned(kStep), is_pinned);
  }

  std::shared_ptr<io::AttackedSyscalls> attacked_ = std::make_shared<io::AttackedSyscalls>();
  std::unique_ptr<Context> attacked_context_;
};

TEST_F(PinsBeside, ARemovalStandOrAreRefused) {
  int stood = 0;
  int refused = 0;
  for (int moment = 1;; ++moment) {
    SCOPED_TRACE(moment);
    save_alone(std::to_string(kStep));
    StepDirectory remover = attacked();
    StepDirectory pinner = other();
    bool is_pinned = false;
    attacked_->plan(moment, [&] {
      is_pinned = is_pinned_by(pinner);
      return true;
    });
    const bool is_removed = remover.remove_unless_pinned(kStep, {}, *attacked_context_);
    EXPECT_NE(is_removed, is_pinned);
    expect_both_or_neither(is_pinned);
    if (!attacked_->is_reached()) {
      break;
    }
    ++(is_pinned ? stood : refused);
    fs::remove_all(root());
  }
  EXPECT_GE(stood, 1);
  EXPECT_GE(refused, 5);
}

TEST_F(PinsBeside, SayWhatFailedWhereAFileCannotBeOpened) {
  const auto faulty = std::make_shared<io::FaultySyscalls>();
  ContextOptions options = small();
  options.syscalls = faulty;
  const Context context(std::move(options));
  save_alone(std::to_string(kStep));
  int failed = 0;
  for (int number = 1;; ++number) {
    SCOPED_TRACE(number);
    const StepDirectory directory(root(), {}, context);
    faulty->plan({io::Call::open, number, 1, -EMFILE});
    std::optional<Error> failure;
    try {
      directory.pin(kStep);
    } catch (const Error& error) {
      failure = error;
    }
    const int hits = faulty->hits();
    faulty->clear();
    if (hits == 0) {
      break;
    }
    if (failure) {
      ++failed;
      EXPECT_EQ(failure->code(), std::errc::too_many_files_open) << failure->what();
      EXPECT_FALSE(other().is_pinned(kStep));
    }
    directory.unpin(kStep);
  }
  EXPECT_GE(failed, 5);
}

TEST_F(PinsBeside, StandOrAreRefusedWhenTheStepIsRemovedMeanwhile) {
  int stood = 0;
  int refused = 0;
  for (int moment = 1;; ++moment) {
    SCOPED_TRACE(moment);
    save_alone(std::to_string(kStep));
    StepDirectory pinner = attacked();
    StepDirectory remover = other();
    attacked_->plan(moment, [&] {
      remover.remove_unless_pinned(kStep, {}, *context_);
      return true;
    });
    const bool is_pinned = is_pinned_by(pinner);
    expect_both_or_neither(is_pinned);
    if (!attacked_->is_reached()) {
      break;
    }
    ++(is_pinned ? stood : refused);
    fs::remove_all(root());
  }
  EXPECT_GE(stood, 1);
  EXPECT_GE(refused, 1);
}

TEST_F(PinsBeside, ARewindStandOrAreRefused) {
  int stood = 0;
  int refused = 0;
  for (int moment = 1;; ++moment) {
    SCOPED_TRACE(moment);
    save_alone("1");
    save_alone(std::to_string(kStep));
    Checkpointer run(root(), {}, *attacked_context_);
    StepDirectory pinner = other();
    bool is_pinned = false;
    attacked_->plan(moment, [&] {
      is_pinned = is_pinned_by(pinner);
      return true;
    });
    bool is_gone = true;
    try {
      run.rewind(1);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::invalid_argument) << error.what();
      is_gone = false;
    }
    const bool is_over = !attacked_->is_reached();
    attacked_->plan(1, nullptr);
    EXPECT_NE(is_gone, is_pinned);
    expect_both_or_neither(is_pinned);
    if (is_over) {
      break;
    }
    ++(is_pinned ? stood : refused);
    fs::remove_all(root());
  }
  EXPECT_GE(stood, 1);
  EXPECT_GE(refused, 3);
}

TEST_F(PinsBeside, ASlowRemovalAreRefused) {
  save_alone(std::to_string(kStep));
  const io::Directory directory = io::Directory::open(io::posix_syscalls(), root());
  const store::CheckpointLock removal(directory, std::to_string(kStep));
  ASSERT_TRUE(removal.is_held());

  EXPECT_THAT([&] { pin_patiently(other()); }, FailsWithErrno(EBUSY, HasSubstr("step 7")));
  EXPECT_FALSE(other().is_pinned(kStep));
  EXPECT_FALSE(other().remove_unless_pinned(kStep, {}, *context_));
  EXPECT_TRUE(fs::exists(root() / std::to_string(kStep)));
}

TEST_F(PinsBeside, FilesThatMayNotBeWrittenArePossible) {
  save_alone(std::to_string(kStep));
  fs::permissions(root() / std::to_string(kStep) / "COMMIT", fs::perms::owner_read);

  other().pin(kStep);
  EXPECT_FALSE(other().remove_unless_pinned(kStep, {}, *context_));
  other().unpin(kStep);
  EXPECT_TRUE(other().remove_unless_pinned(kStep, {}, *context_));
  EXPECT_FALSE(fs::exists(root() / std::to_string(kStep)));
}

/// A Checkpointer that overwrites its step on a disk whose answers tests decide; others pin it.
class PinsBesideAnOverwrite : public PinsBeside {
 protected:
  PinsBesideAnOverwrite() {
    run_->save(kStep, {{"state", Tree({{"turn", 1}})}}).wait();
    run_->wait();
  }
  ~PinsBesideAnOverwrite() override { disk_->let_go(); }

  [[nodiscard]] StepResponse overwrite(int turn) const {
    StepOptions again;
    again.save.overwrite = true;
    const Tree tree = {{"turn", turn}};
    return run_->save(kStep, {{"state", tree}}, again);
  }
  [[nodiscard]] int turn() const {
    return load_checkpointables(root() / std::to_string(kStep), {}, {}, *context_)
        .take<Tree>("state")
        .get<int>("turn");
  }
  [[nodiscard]] std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& each : fs::directory_iterator(root())) {
      names.push_back(each.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  [[nodiscard]] std::unique_ptr<Context> make_context() const {
    ContextOptions options = small();
    options.syscalls = disk_;
    options.clock = clock_;
    return std::make_unique<Context>(std::move(options));
  }

 protected:
  const std::shared_ptr<testing::HeldSyscalls> disk_ = std::make_shared<testing::HeldSyscalls>();
  const std::unique_ptr<Context> held_context_ = make_context();
  const std::unique_ptr<Checkpointer> run_ =
      std::make_unique<Checkpointer>(root(), CheckpointerOptions(), *held_context_);
};

TEST_F(PinsBesideAnOverwrite, ThatIsBeingWrittenLetItFailAndLeaveNothing) {
  disk_->hold(testing::Held::sync);
  const StepResponse saving = overwrite(2);
  ASSERT_TRUE(disk_->holds());

  other().pin(kStep);
  disk_->let_go();

  EXPECT_THAT([&] { saving.wait(); }, Fails(Errc::already_exists, HasSubstr("step 7 is pinned")));
  EXPECT_EQ(turn(), 1);
  EXPECT_THAT(entries(), ElementsAre(".cairn-pins", "7"));
}

TEST_F(PinsBesideAnOverwrite, ThatIsCommittedAreOfTheStepThatIsThereWhenTheyStand) {
  disk_->hold(testing::Held::rename);
  const StepResponse saving = overwrite(2);
  ASSERT_TRUE(disk_->holds());

  const bool is_pinned = is_pinned_by(other());
  const int pinned_turn = turn();
  disk_->let_go();
  saving.wait();

  EXPECT_TRUE(!is_pinned || turn() == pinned_turn);
  EXPECT_EQ(other().is_pinned(kStep), is_pinned);
}

TEST_F(PinsBesideAnOverwrite, ThatIsCommittedWaitForIt) {
  disk_->hold(testing::Held::rename);
  const StepResponse saving = overwrite(2);
  ASSERT_TRUE(disk_->holds());
  std::future<void> pin = std::async(std::launch::async, [this] { other().pin(kStep); });
  disk_->let_go();
  saving.wait();
  pin.get();

  EXPECT_THAT([&] { overwrite(3).wait(); }, Fails(Errc::already_exists, HasSubstr("pinned")));
  EXPECT_EQ(turn(), 2);
}

TEST_F(PinsBesideAnOverwrite, ThatComesSecondAreWaitedFor) {
  const auto slow = std::make_shared<testing::HeldSyscalls>();
  ContextOptions options = small();
  options.syscalls = slow;
  const Context context(std::move(options));
  disk_->hold(testing::Held::sync);
  const StepResponse saving = overwrite(2);
  ASSERT_TRUE(disk_->holds());
  slow->hold(testing::Held::sync);
  const StepDirectory pinner(root(), {}, context);
  std::future<void> pin = std::async(std::launch::async, [&] { pinner.pin(kStep); });
  EXPECT_TRUE(slow->holds());
  disk_->let_go();
  slow->let_go();

  EXPECT_THAT([&] { saving.wait(); }, Fails(Errc::already_exists, HasSubstr("pinned")));
  pin.get();
  EXPECT_EQ(turn(), 1);
}

TEST_F(PinsBeside, ACopyAreSetAndTheStepIsNotRemovedUntilItHasEnded) {
  save_alone(std::to_string(kStep));
  StepDirectory steps = other();
  std::optional<store::HeldCheckpoint> copied;
  copied.emplace(store::directory_store(), io::posix_syscalls(), root() / std::to_string(kStep));
  std::optional<store::HeldCheckpoint> copied_twice;
  copied_twice.emplace(store::directory_store(), io::posix_syscalls(), root() / std::to_string(kStep));

  steps.pin(kStep);
  steps.unpin(kStep);
  EXPECT_FALSE(steps.remove_unless_pinned(kStep, {}, *context_));
  copied.reset();
  EXPECT_FALSE(steps.remove_unless_pinned(kStep, {}, *context_));
  {
    Checkpointer run(root(), {}, *context_);
    EXPECT_THAT([&] { run.remove(kStep); }, Fails(Errc::invalid_argument, HasSubstr("in use")));
  }
  copied_twice.reset();
  EXPECT_TRUE(steps.remove_unless_pinned(kStep, {}, *context_));
  EXPECT_FALSE(fs::exists(root() / std::to_string(kStep)));
}

/// A file system without locks, on which something happens at the first sync of a directory.
class NoLocks final : public testing::ForwardingSyscalls {
 public:
  std::function<void()> at_sync;

  int try_lock(int) noexcept override { return -ENOLCK; }
  int sync(int fd) noexcept override {
    if (const auto act = std::exchange(at_sync, nullptr)) {
      act();
    }
    return ForwardingSyscalls::sync(fd);
  }
};

TEST_F(PinsBesideAnOverwrite, WhereThereAreNoLocksSayThatTheStepWasReplaced) {
  const auto disk = std::make_shared<NoLocks>();
  ContextOptions options = small();
  options.syscalls = disk;
  const Context context(std::move(options));
  const StepDirectory pinner(root(), {}, context);
  disk->at_sync = [&] {
    SaveOptions again;
    again.overwrite = true;
    cairn::save(root() / std::to_string(kStep), {{"turn", 2}}, again, *context_);
  };

  EXPECT_THAT([&] { pinner.pin(kStep); },
              FailsWithErrno(EBUSY, AllOf(HasSubstr("step 7"), HasSubstr("replaced"))));
  EXPECT_FALSE(other().is_pinned(kStep));
  pinner.pin(kStep);
  EXPECT_TRUE(other().is_pinned(kStep));
}

/// Renames that cannot exchange, as NFS has them.
class NoExchange final : public testing::ForwardingSyscalls {
 public:
  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                io::RenameMode mode) noexcept override {
    return mode == io::RenameMode::exchange
               ? -EINVAL
               : ForwardingSyscalls::rename_at(old_directory, old_name, new_directory, new_name, mode);
  }
};

TEST_F(PinsBesideAnOverwrite, FindAStepThatWasReplacedWithoutAnExchange) {
  ContextOptions options = small();
  options.syscalls = std::make_shared<NoExchange>();
  const Context context(std::move(options));
  const StepDirectory pinner = other();
  Checkpointer run(root(), {}, context);
  StepOptions again;
  again.save.overwrite = true;
  run.save(kStep, {{"state", tree_}}, again).wait();
  ASSERT_TRUE(fs::exists(root() / "7.g2"));

  pinner.pin(kStep);
  EXPECT_THAT(
      [&] {
        run.save(kStep, {{"state", tree_}}, again).wait();
      },
      Fails(Errc::already_exists, HasSubstr("pinned")));
}

/// Names whose prefix ends with a digit.
class PinsOfNamesWithDigits : public testing::Checkpointers {
 protected:
  PinsOfNamesWithDigits() {
    CheckpointerOptions options;
    options.names.format = StepFormat("a1", 0);
    run_ = std::make_unique<Checkpointer>(root(), std::move(options), *context_);
    save(*run_, 5, forced()).wait();
  }

  std::unique_ptr<Checkpointer> run_;
};

TEST_F(PinsOfNamesWithDigits, KeepTheStepFromRemoveCheckpoint) {
  run_->pin(5);

  EXPECT_THAT([&] { remove_checkpoint(root() / "a15", {}, *context_); },
              FailsWithErrno(EBUSY, HasSubstr("pinned (.cairn-pins/5)")));
  EXPECT_TRUE(fs::exists(root() / "a15"));
  run_->unpin(5);
  remove_checkpoint(root() / "a15", {}, *context_);
  EXPECT_FALSE(fs::exists(root() / "a15"));
}

TEST_F(PinsOfNamesWithDigits, KeepNoStepWhoseNameEndsLikeTheirNumber) {
  save(*run_, 15, forced()).wait();
  run_->pin(15);

  remove_checkpoint(root() / "a15", {}, *context_);

  EXPECT_FALSE(fs::exists(root() / "a15"));
  EXPECT_THAT([&] { remove_checkpoint(root() / "a115", {}, *context_); },
              FailsWithErrno(EBUSY, HasSubstr("pinned (.cairn-pins/15)")));
}

TEST_F(PinsOfNamesWithDigits, KeepNoCopyOfTheStep) {
  copy_checkpoint(root() / "a15", root() / "best", {}, *context_);
  run_->pin(5);

  remove_checkpoint(root() / "best", {}, *context_);

  EXPECT_FALSE(fs::exists(root() / "best"));
}

}  // namespace
}  // namespace cairn
