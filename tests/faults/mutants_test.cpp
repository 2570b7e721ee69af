// SPDX-License-Identifier: Apache-2.0
// The matrix finds a library that handles an error wrongly: each of these does, in one way.
#include "faults/mutants.hpp"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "faults/matrix.hpp"
#include "faults/scenes.hpp"
#include "io/internal/syscalls.hpp"
#include "support/lying_renames.hpp"

namespace cairn::faults {
namespace {

/// What comes of a small save on a mutant when each call of one kind fails once.
Tally tally_of(Twist twist, Way way, Machine machine = {}) {
  machine.engine = io::EngineKind::threads;
  machine.syscalls = make_mutant(std::move(twist));
  const std::unique_ptr<Scene> save = small_save();
  return fail_each(*save, machine, {way});
}

/// Tells a failure of `op` as a success.
Twist hide_failures_of(Op op) {
  return [op](Op called, int, std::int64_t result) { return called == op && result < 0 ? 0 : result; };
}

TEST(FaultMatrixOfAMutant, IsCleanWhenNothingIsChanged) {
  const Twist none = [](Op, int, std::int64_t result) { return result; };

  const Tally tally = tally_of(none, {Op::sync_data, EIO, Effect::once, Expect::told});

  EXPECT_THAT(tally.complaints, ::testing::IsEmpty());
}

TEST(FaultMatrixOfAMutant, FindsThatAFailedSyncOfAFileIsIgnored) {
  const Tally tally =
      tally_of(hide_failures_of(Op::sync_data), {Op::sync_data, EIO, Effect::once, Expect::told});

  EXPECT_GE(tally.mistold, tally.cases);
}

TEST(FaultMatrixOfAMutant, FindsThatAFailedSyncOfADirectoryIsIgnored) {
  const Tally tally = tally_of(hide_failures_of(Op::sync), {Op::sync, EIO, Effect::once, Expect::told});

  EXPECT_EQ(tally.mistold, tally.cases);
}

TEST(FaultMatrixOfAMutant, FindsThatAFailedSyncIsTriedAgain) {
  const Twist again = [](Op op, int fd, std::int64_t result) {
    return op == Op::sync_data && result < 0 ? io::posix_syscalls().sync_data(fd) : result;
  };

  const Tally tally = tally_of(again, {Op::sync_data, EIO, Effect::once, Expect::borne});

  EXPECT_EQ(tally.mistold, tally.cases);
}

TEST(FaultMatrixOfAMutant, FindsThatAFailedRenameIsTakenForASuccess) {
  const Tally tally = tally_of(hide_failures_of(Op::rename), {Op::rename, EIO, Effect::once, Expect::borne});

  EXPECT_EQ(tally.lost, tally.cases);
}

TEST(FaultMatrixOfAMutant, FindsThatAShortWriteIsTakenForAWholeOne) {
  const Twist whole = [](Op op, int, std::int64_t result) {
    return op == Op::write && result >= 0 ? kAll : result;
  };

  const Tally tally = tally_of(whole, {Op::write, 0, Effect::cut, Expect::retried});

  EXPECT_GT(tally.lost, 0U);
}

TEST(FaultMatrixOfAMutant, FindsThatAnInterruptedReadIsAFailure) {
  const Twist give_up = [](Op, int, std::int64_t result) { return result == -EINTR ? -EIO : result; };

  const Tally tally = tally_of(give_up, {Op::write, EINTR, Effect::once, Expect::retried});

  EXPECT_EQ(tally.mistold, tally.cases);
}

TEST(FaultMatrixOfAMutant, FindsThatAnotherErrorIsTold) {
  const Twist blur = [](Op, int, std::int64_t result) { return result == -ENOSPC ? -EIO : result; };

  const Tally tally = tally_of(blur, {Op::write, ENOSPC, Effect::once, Expect::told});

  EXPECT_EQ(tally.mistold, tally.cases);
}

TEST(FaultMatrixOfAMutant, FindsADescriptorThatIsNotClosed) {
  std::vector<int> leaked;
  const Twist leak = [&leaked](Op, int fd, std::int64_t result) {
    if (result == -ENOSPC) {
      leaked.push_back(::dup(fd));
    }
    return result;
  };

  Machine machine;
  machine.settle_time = std::chrono::milliseconds(20);

  const Tally tally = tally_of(leak, {Op::write, ENOSPC, Effect::once, Expect::told}, machine);

  EXPECT_EQ(tally.leaked, tally.cases);
  for (const int fd : leaked) {
    ::close(fd);
  }
}

TEST(FaultMatrixOfAMutant, FindsMemoryThatIsNotGivenBack) {
  std::vector<std::unique_ptr<int>> leaked;
  leaked.reserve(1000);
  const Twist leak = [&leaked](Op, int, std::int64_t result) {
    if (result == -ENOSPC) {
      leaked.push_back(std::make_unique<int>(1));
    }
    return result;
  };

  Machine machine;
  machine.settle_time = std::chrono::milliseconds(20);

  const Tally tally = tally_of(leak, {Op::write, ENOSPC, Effect::once, Expect::told}, machine);

  EXPECT_GT(tally.leaked, 0U);
}

TEST(FaultMatrixOfAMutant, FindsAnOperationThatDoesNotEndInTime) {
  const Twist wait = [](Op, int, std::int64_t result) {
    if (result == -ENOSPC) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    return result;
  };

  Machine machine;
  machine.patience = std::chrono::milliseconds(250);

  const Tally tally = tally_of(wait, {Op::allocate, ENOSPC, Effect::once, Expect::told}, machine);

  EXPECT_EQ(tally.hung, tally.cases);
}

TEST(FaultMatrixOfAMutant, FindsASaveThatIsSaidToBeCommittedAndIsNot) {
  Machine machine;
  machine.engine = io::EngineKind::threads;
  machine.syscalls = std::make_shared<testing::LyingRenames>(testing::RenameLie::forgotten);
  machine.slowness = std::chrono::milliseconds(10);

  Share one;
  one.most = 1;

  const Tally tally =
      fail_each(*small_overwrite(), machine, {{Op::unlink, 0, Effect::slow, Expect::borne}}, one);

  EXPECT_GT(tally.lost, 0U);
}

/// What the judge of a save says of it when its verdict is forged.
std::string judgement(Scene& save, const Verdict& forged) {
  Machine machine;
  machine.engine = io::EngineKind::threads;
  machine.slowness = std::chrono::milliseconds(1);
  save.prepare();
  save.act(machine);  // It commits: nothing is slow.
  return save.judge(forged);
}

Verdict failed_with(Errc code) {
  Verdict verdict;
  verdict.is_error = true;
  verdict.code = code;
  return verdict;
}

TEST(JudgeOfASave, FindsASaveThatHasFailedAndIsThere) {
  EXPECT_NE(judgement(*small_save(), failed_with(Errc::cancelled)), "");
  EXPECT_NE(judgement(*small_overwrite(), failed_with(Errc::cancelled)), "");
}

TEST(JudgeOfASave, FindsThatTheOldOneIsGoneThoughNobodyKnows) {
  EXPECT_NE(judgement(*small_overwrite(), failed_with(Errc::commit_unknown)), "");
}

/// A scene whose operation takes memory of a size, and does with a refusal what it likes.
class Greedy final : public Scene {
 public:
  Greedy(std::size_t bytes, void (*when_refused)()) : bytes_(bytes), when_refused_(when_refused) {}

  [[nodiscard]] std::string_view name() const override { return "Greedy"; }
  [[nodiscard]] std::string root() const override { return "greed"; }
  void prepare() override {}

  std::string act(const Machine& /*machine*/) override {
    try {
      const std::vector<char> memory(bytes_);
    } catch (const std::bad_alloc&) {
      when_refused_();
    }
    return "";
  }

  std::string judge(const Verdict& verdict) override { return verdict.text; }

 private:
  std::size_t bytes_;
  void (*when_refused_)();
};

Tally tally_of_greed(std::size_t bytes, void (*when_refused)()) {
  Greedy greedy(bytes, when_refused);
  return fail_each(greedy, {}, ways_of_memory());
}

TEST(FaultMatrixOfMemory, AllowsAProcessToEndForWantOfALittle) {
  const Tally tally = tally_of_greed(kLargeBytes - 1, [] { std::terminate(); });

  EXPECT_THAT(tally.complaints, ::testing::IsEmpty());
  EXPECT_EQ(tally.ended, 1U);
}

TEST(FaultMatrixOfMemory, FindsAProcessThatEndsForWantOfMuch) {
  const Tally tally = tally_of_greed(kLargeBytes, [] { std::terminate(); });

  EXPECT_EQ(tally.mistold, 1U);
}

TEST(FaultMatrixOfMemory, FindsAProcessThatBreaksDown) {
  const Tally tally = tally_of_greed(1, [] { static_cast<void>(std::raise(SIGKILL)); });

  EXPECT_EQ(tally.mistold, 1U);
}

TEST(FaultMatrixOfMemory, FindsALeakInAProcessOfItsOwn) {
  const Tally tally = tally_of_greed(1, [] { static_cast<void>(::dup(STDOUT_FILENO)); });

  EXPECT_EQ(tally.leaked, 1U);
}

TEST(JudgeOfASave, FindsThatAProcessThatEndedHasLeftNeitherOldNorNew) {
  const std::unique_ptr<Scene> overwrite = small_overwrite();
  overwrite->prepare();
  std::filesystem::remove_all(std::filesystem::path(overwrite->root()) / "run/step");
  Verdict ended;
  ended.has_ended_process = true;

  EXPECT_NE(overwrite->judge(ended), "");
}

TEST(JudgeOfASave, AllowsWhatIsTrue) {
  Verdict done;
  done.is_done = true;

  Verdict ended;
  ended.has_ended_process = true;

  EXPECT_EQ(judgement(*small_overwrite(), done), "");
  EXPECT_EQ(judgement(*small_overwrite(), ended), "");
  EXPECT_EQ(judgement(*small_save(), failed_with(Errc::commit_unknown)), "");
}

}  // namespace
}  // namespace cairn::faults
