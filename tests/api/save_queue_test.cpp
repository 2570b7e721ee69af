// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cairn/contract/handler.hpp"

#include "api/fixture.hpp"
#include "api/scripted.hpp"
#include "async/internal/event.hpp"
#include "support/held_syscalls.hpp"

namespace cairn {
namespace {

using testing::Act;
using ::testing::Contains;
using ::testing::Each;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Script;

/// A checkpointable whose save ends when the gate is opened.
struct Gated {
  Gated() = default;

  async::Event gate;
};

class GatedHandler final : public CheckpointableHandler<Gated> {
 public:
  std::string_view id() const noexcept override { return "test.gated/1"; }

  // outlives: the event is copied before the first suspension.
  Awaitable<Background<>> save(SaveContext context, const Gated& gated) const override {
    co_return finish(std::move(context), gated.gate);
  }

  Awaitable<Background<Gated>> load(LoadContext, std::optional<Gated>) const override {
    throw Error(Errc::invalid_argument, "nobody loads it");
  }

  Awaitable<Gated> metadata(LoadContext) const override { co_return Gated(); }

 private:
  static Background<> finish(SaveContext context, async::Event gate) {
    co_await context.write_file("gated.txt", "something");
    co_await gate.wait();
  }
};

class SaveQueue : public testing::ApiTest {
 protected:
  static ContextOptions gated(std::size_t saves_in_flight) {
    ContextOptions options = small();
    options.registry.add<GatedHandler>();
    options.registry.add<testing::ScriptedHandler>();
    options.saves_in_flight = saves_in_flight;
    return options;
  }

  explicit SaveQueue(std::size_t saves_in_flight = 8) : ApiTest(gated(saves_in_flight)) {}

  ~SaveQueue() override {
    value_.gate.set();
    context_.reset();  // Before the value, which saves may still look at.
  }

  [[nodiscard]] AsyncResponse start(const std::string& name, bool coalesces = true) const {
    SaveOptions options;
    options.coalesce = coalesces;
    options.return_when_accepted = true;
    return save_checkpointables_async(directory_ / name, {{"gated", value_}}, options, *context_);
  }

  void open_the_gate() const { value_.gate.set(); }

  const Gated value_;
};

TEST_F(SaveQueue, StopsTheSaveBetweenTheOldestAndTheNewest) {
  const AsyncResponse oldest = start("step_1");
  const AsyncResponse middle = start("step_2");
  const AsyncResponse newest = start("step_3");

  EXPECT_THAT([&] { middle.wait(); }, Fails(Errc::superseded, HasSubstr("step_3 is newer")));
  EXPECT_FALSE(oldest.is_done());
  EXPECT_FALSE(newest.is_done());
}

TEST_F(SaveQueue, KnowsADirectoryByWhicheverPathLeadsToIt) {
  std::filesystem::create_directory(directory_ / "real");
  std::filesystem::create_directory_symlink(directory_ / "real", directory_ / "link");
  const AsyncResponse oldest = start("real/step_1");
  const AsyncResponse middle = start("link/step_2");
  const AsyncResponse newest = start("real/step_3");

  EXPECT_THAT([&] { middle.wait(std::chrono::seconds(20)); },
              Fails(Errc::superseded, HasSubstr("step_3 is newer")));
}

TEST_F(SaveQueue, CompletesTheOldestAndTheNewest) {
  const AsyncResponse oldest = start("step_1");
  const AsyncResponse middle = start("step_2");
  const AsyncResponse newest = start("step_3");
  open_the_gate();

  EXPECT_EQ(oldest.wait().path, directory_ / "step_1");
  EXPECT_EQ(newest.wait().path, directory_ / "step_3");
}

TEST_F(SaveQueue, LeavesNothingOfASaveThatGaveWay) {
  const AsyncResponse oldest = start("step_1");
  const AsyncResponse middle = start("step_2");
  const AsyncResponse newest = start("step_3");

  EXPECT_THAT([&] { middle.wait(); }, Fails(Errc::superseded));
  EXPECT_THAT(left(), Each(Not(HasSubstr("step_2"))));
}

TEST_F(SaveQueue, StopsEverySaveInBetween) {
  std::vector<AsyncResponse> saves;
  for (int step = 1; step <= 6; ++step) {
    saves.push_back(start("step_" + std::to_string(step)));
  }

  for (std::size_t i = 1; i + 1 < saves.size(); ++i) {
    EXPECT_THAT([&] { saves[i].wait(); }, Fails(Errc::superseded)) << i;
  }
}

TEST_F(SaveQueue, DoesNotCountASaveThatGaveWayAsLost) {
  const AsyncResponse oldest = start("step_1");
  std::optional<AsyncResponse> nobody_waits = start("step_2");
  const AsyncResponse newest = start("step_3");
  nobody_waits.reset();
  open_the_gate();

  EXPECT_NO_THROW(context_->close());
}

TEST_F(SaveQueue, LeavesSavesThatDoNotCoalesceAlone) {
  const AsyncResponse oldest = start("step_1");
  const AsyncResponse other = start("step_2", false);
  const AsyncResponse newest = start("step_3");
  open_the_gate();

  EXPECT_EQ(other.wait().path, directory_ / "step_2");
}

TEST_F(SaveQueue, LeavesSavesIntoOtherDirectoriesAlone) {
  std::filesystem::create_directory(directory_ / "other");
  const AsyncResponse oldest = start("step_1");
  const AsyncResponse other = start("other/step_2");
  const AsyncResponse newest = start("step_3");
  open_the_gate();

  EXPECT_EQ(other.wait().path, directory_ / "other/step_2");
}

/// One whose disk takes its time to rename, and whose saves are given up at once when they are stopped.
class SaveQueueOfASlowDisk : public SaveQueue {
 protected:
  SaveQueueOfASlowDisk() {
    ContextOptions options = gated(8);
    options.syscalls = calls_;
    options.stop_grace = std::chrono::nanoseconds(1);
    context_.emplace(std::move(options));
  }

  ~SaveQueueOfASlowDisk() override { calls_->let_go(); }

  const std::shared_ptr<testing::HeldSyscalls> calls_ = std::make_shared<testing::HeldSyscalls>();
};

TEST_F(SaveQueueOfASlowDisk, LetsASaveThatCommitsGoOn) {
  const AsyncResponse oldest = start("step_1");
  calls_->hold(testing::Held::rename);
  SaveOptions options;
  options.coalesce = true;
  const AsyncResponse middle = save_async(directory_ / "step_2", Tree({{"step", 2}}), options, *context_);
  ASSERT_TRUE(calls_->holds());

  const AsyncResponse newest = start("step_3");

  EXPECT_THAT([&] { middle.wait(std::chrono::milliseconds(50)); }, Fails(Errc::still_running));
  calls_->let_go();
  EXPECT_EQ(middle.wait().path, directory_ / "step_2");
}

/// One save at a time.
class SaveQueueOfOne : public SaveQueue {
 protected:
  SaveQueueOfOne() : SaveQueue(1) {}
};

TEST_F(SaveQueueOfOne, LetsTheSecondBeginWhenTheFirstIsDone) {
  const AsyncResponse first = start("step_1", false);
  const AsyncResponse second = start("step_2", false);
  open_the_gate();

  EXPECT_EQ(second.wait().path, directory_ / "step_2");
  EXPECT_TRUE(first.is_done());
}

TEST_F(SaveQueueOfOne, WritesNothingOfASaveThatWaits) {
  const AsyncResponse first = start("step_1", false);
  const AsyncResponse second = start("step_2", false);

  EXPECT_FALSE(second.is_staged());
  EXPECT_THAT(left(), Not(Contains(HasSubstr("step_2"))));
}

TEST_F(SaveQueueOfOne, CancelsASaveThatWaits) {
  const AsyncResponse first = start("step_1", false);
  const AsyncResponse second = start("step_2", false);

  second.cancel();

  EXPECT_THAT([&] { second.wait(); }, Fails(Errc::cancelled));
}

TEST_F(SaveQueueOfOne, PassesOverASaveThatWasCancelled) {
  const AsyncResponse first = start("step_1", false);
  const AsyncResponse second = start("step_2", false);
  const AsyncResponse third = start("step_3", false);
  second.cancel();
  EXPECT_THAT([&] { second.wait(); }, Fails(Errc::cancelled));
  open_the_gate();

  EXPECT_EQ(third.wait().path, directory_ / "step_3");
}

TEST_F(SaveQueueOfOne, LetsTheNextBeginWhenOneFails) {
  const Script broken(Act::pass, Act::throw_error);
  const AsyncResponse first = save_checkpointables_async(directory_ / "step_1", {{"broken", broken}},
                                                         return_when_accepted, *context_);
  const AsyncResponse second = start("step_2", false);
  open_the_gate();

  EXPECT_THAT([&] { first.wait(); }, Fails(Errc::shape_mismatch));
  EXPECT_EQ(second.wait().path, directory_ / "step_2");
}

/// Two saves at a time; each has a gate of its own.
class SaveQueueOfTwo : public SaveQueue {
 protected:
  SaveQueueOfTwo() : SaveQueue(2) {}

  ~SaveQueueOfTwo() override {
    for (const Gated& value : values_) {
      value.gate.set();
    }
    context_.reset();
  }

  [[nodiscard]] AsyncResponse begin(std::size_t i) const {
    return save_checkpointables_async(directory_ / ("step_" + std::to_string(i)), {{"gated", values_[i]}},
                                      return_when_accepted, *context_);
  }

  const std::vector<Gated> values_ = std::vector<Gated>(4);
};

TEST_F(SaveQueueOfTwo, LetsTheOneBeginThatHasWaitedLongest) {
  const AsyncResponse first = begin(0);
  const AsyncResponse second = begin(1);
  const AsyncResponse third = begin(2);
  const AsyncResponse fourth = begin(3);

  values_[1].gate.set();
  second.wait();

  EXPECT_TRUE(testing::eventually([&] { return third.is_staged(); }));
  EXPECT_FALSE(fourth.is_staged());
}

TEST_F(SaveQueueOfTwo, LetsNobodyBeginWhenOneGoesThatWaits) {
  const AsyncResponse first = begin(0);
  const AsyncResponse second = begin(1);
  const AsyncResponse third = begin(2);
  const AsyncResponse fourth = begin(3);

  third.cancel();
  EXPECT_THAT([&] { third.wait(); }, Fails(Errc::cancelled));

  EXPECT_FALSE(fourth.is_staged());
  values_[0].gate.set();
  EXPECT_TRUE(testing::eventually([&] { return fourth.is_staged(); }));
}

using SaveQueueOfThreads = testing::ApiTest;

/// The order at a target and the one in the queue are the same: else two saves may wait for each other.
TEST_F(SaveQueueOfThreads, LetsAllOverwriteOneTarget) {
  ContextOptions options = small();
  options.saves_in_flight = 1;
  const Context context(options);
  SaveOptions how;
  how.overwrite = true;
  how.deadline = std::chrono::minutes(5);  // Instead of for ever.
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < 25; ++i) {
          EXPECT_NO_THROW(save(directory_ / "step", Tree({{"thread", thread}}), how, context));
        }
      });
    }
  }
  EXPECT_TRUE(is_checkpoint(directory_ / "step", {}, context));
}

}  // namespace
}  // namespace cairn
