// SPDX-License-Identifier: Apache-2.0
// What a program does on the threads of its own Checkpointer, or of its context: nothing waits for itself.
#include <system_error>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "async/internal/event.hpp"
#include "support/temp_dir.hpp"
#include "training/fixture.hpp"

namespace cairn {
namespace {

using testing::Checkpointers;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

/// Much less than `close_timeout`: a program that takes longer is ended by SIGALRM.
constexpr unsigned kMostSeconds = 60;

KeepPolicy policy(std::function<void()> act) {
  return {"mine", false, [act = std::move(act)](std::span<const StepInfo> steps, CommitTime) {
            act();
            return std::vector<bool>(steps.size(), true);
          }};
}

/// Ends the program in the background phase of its save.
struct Ending {
  static constexpr bool kIsSavedOnly = true;

  Awaitable<Background<>> save(SaveContext /*context*/) const { co_return end(); }

 private:
  static Background<> end() {
    std::exit(3);
    co_return;
  }
};

class ProgramsThatEnd : public ::testing::Test {
 protected:
  ProgramsThatEnd() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  /// Never returns: the Checkpointer ends the program.
  template <class Value>
  static void run(const std::filesystem::path& root, CheckpointerOptions options, const Value& value) {
    ::alarm(kMostSeconds);
    static Checkpointer checkpointer(root, std::move(options));
    checkpointer.save(1, {{"state", value}});
    while (true) {
      ::pause();
    }
  }

  const testing::TempDir directory_;
};

TEST_F(ProgramsThatEnd, InAPolicyOfWhatToKeepEnd) {
  CheckpointerOptions options;
  options.keep = policy([] { std::exit(3); });

  EXPECT_EXIT(run(directory_ / "run", options, Tree({{"step", 1}})), ::testing::ExitedWithCode(3), "");
}

TEST_F(ProgramsThatEnd, WhereStepsWereNotRemovedEnd) {
  CheckpointerOptions options;
  options.keep = policy([] { throw std::runtime_error("no idea"); });
  options.on_retention_failure = [](const std::exception_ptr&) { std::exit(3); };

  EXPECT_EXIT(run(directory_ / "run", options, Tree({{"step", 1}})), ::testing::ExitedWithCode(3), "");
}

TEST_F(ProgramsThatEnd, InTheSaveOfAStepEnd) {
  EXPECT_EXIT(run(directory_ / "run", {}, Ending()), ::testing::ExitedWithCode(3), "");
}

TEST_F(Checkpointers, WaitForNothingInTheirPolicyOfWhatToKeep) {
  std::unique_ptr<Checkpointer> run;
  run = make(keeping(policy([&] { run->wait(); })));
  save(*run, 1);
  EXPECT_THAT([&] { run->close(); }, Fails(Errc::invalid_argument, HasSubstr("would deadlock")));

  run = make(keeping(policy([&] { run->close(); })));
  save(*run, 2);
  EXPECT_THAT([&] { run->close(); }, Fails(Errc::invalid_argument, HasSubstr("would deadlock")));
}

TEST_F(Checkpointers, WaitForNothingWhereTheyTellThatStepsWereNotRemoved) {
  std::unique_ptr<Checkpointer> run;
  CheckpointerOptions options = keeping(policy([] { throw std::runtime_error("no idea"); }));
  options.on_retention_failure = [&](const std::exception_ptr&) { run->wait(); };
  run = make(std::move(options));
  save(*run, 1);

  EXPECT_THAT([&] { run->close(); }, Fails(Errc::invalid_argument, HasSubstr("would deadlock")));
  run->close();
}

TEST_F(Checkpointers, SaveNothingInTheirPolicyOfWhatToKeep) {
  std::unique_ptr<Checkpointer> run;
  const auto expect_refused = [&](std::uint64_t step, std::function<void()> act) {
    run = make(keeping(policy(std::move(act))));
    save(*run, step);
    EXPECT_THAT([&] { run->close(); },
                Fails(Errc::invalid_argument, HasSubstr("while it asks a policy of what to keep")));
  };

  expect_refused(1, [&] { run->save(9, {{"state", Tree(9)}}); });
  expect_refused(2, [&] { static_cast<void>(run->should_save(9)); });

  EXPECT_THAT(make()->steps(), ElementsAre(1, 2));
}

TEST_F(Checkpointers, SaveNothingInTheirPolicyWhileTheyLookAtALowerStep) {
  std::unique_ptr<Checkpointer> run;
  std::vector<std::error_code> refused;
  run = make(keeping(policy([&] {
    try {
      run->save(9, {{"state", Tree(9)}});
    } catch (const Error& error) {
      refused.push_back(error.code());
    }
  })));
  save(*run, 5);
  save(*run, 3);
  run->close();

  EXPECT_GE(refused.size(), 3U);
  EXPECT_THAT(refused, Each(Errc::invalid_argument));
  EXPECT_THAT(make()->steps(), ElementsAre(3, 5));
}

TEST_F(Checkpointers, MayBeDestroyedByTheirOwnPolicy) {
  const async::Event is_saved;
  const async::Event is_gone;
  std::unique_ptr<Checkpointer> run;
  run = make(keeping(policy([&] {
    is_saved.get();
    run.reset();
    is_gone.set();
  })));
  save(*run, 1).wait();
  is_saved.set();
  is_gone.get();

  EXPECT_THAT(make()->steps(), ElementsAre(1));
}

}  // namespace
}  // namespace cairn
