// SPDX-License-Identifier: Apache-2.0
// What a program does on the threads of its own Checkpointer, or of its context: nothing waits for itself.
#include <system_error>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "async/internal/event.hpp"
#include "base/internal/clock.hpp"
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

/// Lies in static memory, and ends the program where it is asked for the time after its context has let go of it.
class LentClock final : public Clock {
 public:
  [[nodiscard]] std::chrono::system_clock::time_point now() const override {
    require_lent();
    return system_clock().now();
  }
  [[nodiscard]] std::chrono::steady_clock::time_point steady_now() const override {
    require_lent();
    return system_clock().steady_now();
  }

  [[nodiscard]] std::shared_ptr<const Clock> lend() {
    return {this, [this](const Clock*) { is_lent_ = false; }};
  }

 private:
  void require_lent() const {
    if (!is_lent_) {
      std::_Exit(7);
    }
  }

  std::atomic<bool> is_lent_{true};
};

/// Says when the Checkpointer has ended, which is made after this, whether its step is there.
class LooksAtTheEnd {
 public:
  explicit LooksAtTheEnd(std::filesystem::path step) : step_(std::move(step)) {}
  ~LooksAtTheEnd() { std::fputs(std::filesystem::exists(step_) ? "saved" : "missing", stderr); }
  LooksAtTheEnd(const LooksAtTheEnd&) = delete;
  LooksAtTheEnd& operator=(const LooksAtTheEnd&) = delete;

 private:
  const std::filesystem::path step_;
};

TEST_F(ProgramsThatEnd, MayDestroyTheContextBeforeTheCheckpointer) {
  const std::filesystem::path root = directory_ / "run";

  EXPECT_EXIT(
      {
        ::alarm(kMostSeconds);
        static LentClock clock;
        static const LooksAtTheEnd before_the_checkpointer(root / "1");
        static std::optional<Checkpointer> checkpointer;  // Before the context, and so destroyed after it.
        ContextOptions options;
        options.clock = clock.lend();
        static const Context context(std::move(options));
        const Tree tree({{"step", 1}});
        checkpointer.emplace(root, CheckpointerOptions(), context);
        checkpointer->save(1, {{"state", tree}});
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "saved");
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
