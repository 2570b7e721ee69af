// SPDX-License-Identifier: Apache-2.0
// Which thread runs what, and that nobody waits for a stranger's handler.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cairn/contract/handler.hpp"

#include "api/fixture.hpp"
#include "async/internal/event.hpp"
#include "async/internal/sleep.hpp"
#include "support/held_syscalls.hpp"

namespace cairn {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using ContextAct = std::function<void(const SaveContext&)>;

/// What a handler is to do in its two phases, given by functions.
struct Acted {
  Acted() = default;

  ContextAct blocking;
  std::function<Awaitable<>()> blocking_await;
  ContextAct background;
};

class ActingHandler final : public CheckpointableHandler<Acted> {
 public:
  std::string_view id() const noexcept override { return "test.acting/1"; }

  // outlives: the caller keeps the value during the blocking phase.
  Awaitable<Background<>> save(SaveContext context, const Acted& acted) const override {
    if (acted.blocking) {
      acted.blocking(context);
    }
    if (acted.blocking_await) {
      Awaitable<> wait = acted.blocking_await();
      co_await std::move(wait);
      acted.blocking(context);
    }
    co_return finish(context, acted.background);
  }

  Awaitable<Background<Acted>> load(LoadContext, std::optional<Acted>) const override {
    throw Error(Errc::invalid_argument, "nobody loads it");
  }

  Awaitable<Acted> metadata(LoadContext) const override { co_return Acted(); }

 private:
  static Background<> finish(SaveContext context, ContextAct act) {
    co_await context.write_file("acted.txt", "something");
    if (act) {
      act(context);
    }
  }
};

class Threads : public testing::ApiTest {
 protected:
  static ContextOptions acting() {
    ContextOptions options = small();
    options.stop_grace = 50ms;
    options.registry.add<ActingHandler>();
    return options;
  }

  Threads() : ApiTest(acting()) {}

  ~Threads() override {
    go_on_.set();
    context_.reset();
  }

  [[nodiscard]] AsyncResponse start(const Acted& acted, const SaveOptions& options = {},
                                    const std::string& name = "checkpoint") const {
    return save_checkpointables_async(directory_ / name, {{"acted", acted}}, options, *context_);
  }

  [[nodiscard]] Acted blocked_in_background() const {
    Acted acted;
    acted.background = [go_on = go_on_](const SaveContext&) { go_on.get(); };
    return acted;
  }

  const async::Event go_on_;
};

TEST_F(Threads, TheBlockingPhaseIsTheCallers) {
  std::thread::id before;
  std::thread::id after;
  Acted acted;
  acted.blocking = [&](const SaveContext&) {
    (before == std::thread::id() ? before : after) = std::this_thread::get_id();
  };
  acted.blocking_await = [] { return async::sleep_for(5ms); };

  start(acted).wait();

  EXPECT_EQ(before, std::this_thread::get_id());
  EXPECT_EQ(after, std::this_thread::get_id());
}

TEST_F(Threads, TheBackgroundPhaseIsNot) {
  std::thread::id seen;
  Acted acted;
  acted.background = [&](const SaveContext&) { seen = std::this_thread::get_id(); };

  start(acted).wait();

  EXPECT_NE(seen, std::thread::id());
  EXPECT_NE(seen, std::this_thread::get_id());
}

TEST_F(Threads, AnAcceptedSaveRunsNothingOnTheCallersThread) {
  std::thread::id seen;
  Acted acted;
  acted.blocking = [&](const SaveContext&) { seen = std::this_thread::get_id(); };

  start(acted, return_when_accepted).wait();

  EXPECT_NE(seen, std::this_thread::get_id());
}

/// The threads of this process whose names begin with `cairn-`, each with the signals that it has blocked.
std::map<std::string, std::uint64_t> blocked_signals_of_ours() {
  std::map<std::string, std::uint64_t> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    std::string name;
    std::uint64_t blocked = 0;
    for (std::string word; status >> word;) {
      if (word == "Name:") {
        status >> name;
      } else if (word == "SigBlk:") {
        status >> std::hex >> blocked;
      }
    }
    if (name.starts_with("cairn-")) {
      found.emplace(name + " " + task.path().filename().string(), blocked);
    }
  }
  return found;
}

TEST_F(Threads, TakeNoSignalsOfTheProgram) {
  save(directory_ / "saved", tree_, {}, *context_);
  EXPECT_EQ(load(directory_ / "saved", {}, *context_), tree_);

  const auto threads = blocked_signals_of_ours();

  ASSERT_FALSE(threads.empty());
  constexpr std::uint64_t kAsked = (1U << (SIGTERM - 1)) | (1U << (SIGINT - 1)) | (1U << (SIGUSR1 - 1));
  for (const auto& [name, blocked] : threads) {
    EXPECT_EQ(blocked & kAsked, kAsked) << name;
  }
}

TEST_F(Threads, HandlersThatBlockKeepNoDeadlineWaiting) {
  SaveOptions options;
  options.deadline = 1s;
  std::vector<AsyncResponse> responses;
  for (int i = 0; i < 6; ++i) {
    responses.push_back(start(blocked_in_background(), options, "step" + std::to_string(i)));
  }

  for (const AsyncResponse& response : responses) {
    EXPECT_THAT([&] { response.wait(); }, Fails(Errc::timed_out));
    EXPECT_FALSE(response.is_done());
  }
}

TEST_F(Threads, HandlersThatBlockKeepNoOtherSaveWaiting) {
  std::vector<AsyncResponse> responses;
  for (int i = 0; i < 6; ++i) {
    responses.push_back(start(blocked_in_background(), {}, "step" + std::to_string(i)));
  }

  save(directory_ / "other", tree_, {}, *context_);

  EXPECT_EQ(load(directory_ / "other", {}, *context_), tree_);
}

TEST_F(Threads, ABlockingPhaseThatNeverEndsIsLeftAtTheDeadline) {
  ContextOptions patient = acting();
  patient.stop_grace = 1s;  // For the end of what was left, on a machine that has much to do.
  context_.emplace(std::move(patient));
  std::atomic<int> runs{0};
  const async::Event never;
  Acted acted;
  acted.blocking = [&](const SaveContext&) { ++runs; };
  acted.blocking_await = [&] { return never.wait(); };
  SaveOptions options;
  options.deadline = 1s;

  EXPECT_THAT([&] { static_cast<void>(start(acted, options)); }, Fails(Errc::timed_out));
  never.set();
  context_->close();

  EXPECT_EQ(runs, 1) << "code of the blocking phase ran after its caller had left";
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(Threads, TheVerdictDoesNotWaitForCodeOnTheCallersThread) {
  const async::Event entered;
  Acted acted;
  acted.blocking = [&](const SaveContext&) {
    entered.set();
    go_on_.get();
  };
  SaveOptions options;
  options.deadline = 1s;
  std::jthread caller(
      [&] { EXPECT_THAT([&] { static_cast<void>(start(acted, options)); }, Fails(Errc::timed_out)); });
  entered.get();

  EXPECT_TRUE(eventually([&] {
    return prometheus_text(*context_).find("cairn_saves_failed_total{code=\"timed_out\"} 1") !=
           std::string::npos;
  }));
  EXPECT_TRUE(eventually([&] { return std::filesystem::is_empty(directory_.path()); }))
      << "the temporary directory is still there";
  save(directory_ / "other", tree_, {}, *context_);
  go_on_.set();
}

TEST_F(Threads, WaitingInAHandlerIsRefused) {
  const AsyncResponse other = start(blocked_in_background(), {}, "other");
  Acted acted;
  const auto wait = [&](const SaveContext&) { other.wait(); };
  acted.blocking = wait;
  EXPECT_THAT([&] { static_cast<void>(start(acted)); },
              Fails(Errc::invalid_argument, HasSubstr("would deadlock: waited for")));

  acted.blocking = nullptr;
  acted.background = wait;
  EXPECT_THAT([&] { start(acted).wait(); },
              Fails(Errc::invalid_argument, HasSubstr("would deadlock: waited for")));
}

TEST_F(Threads, ClosingInAHandlerIsRefused) {
  ContextOptions options = acting();
  options.close_timeout = 100ms;
  context_.emplace(std::move(options));
  Acted acted;
  const auto close = [&](const SaveContext&) { context_->close(); };
  const auto is_refused = Fails(Errc::invalid_argument, HasSubstr("a close: would deadlock"));

  acted.blocking = close;
  EXPECT_THAT([&] { static_cast<void>(start(acted)); }, is_refused);
  acted.blocking = nullptr;
  acted.background = close;
  EXPECT_THAT([&] { start(acted).wait(); }, is_refused);

  EXPECT_NO_THROW(start(Acted()).wait()) << "it was closed all the same";
}

TEST_F(Threads, ClosingInOnLostFailureIsRefused) {
  std::exception_ptr refusal;
  const async::Event told;
  ContextOptions options = acting();
  options.close_timeout = 100ms;
  options.on_lost_failure = [&](const std::string&, const std::exception_ptr&) {
    try {
      context_->close();
    } catch (...) {
      refusal = std::current_exception();
    }
    told.set();
  };
  context_.emplace(std::move(options));
  Acted acted;
  acted.background = [go_on = go_on_](const SaveContext&) {
    go_on.get();
    throw Error(Errc::shape_mismatch, "nobody hears this");
  };

  static_cast<void>(start(acted));
  go_on_.set();

  ASSERT_TRUE(told.wait_for(60s));
  EXPECT_EQ(code_of(refusal), make_error_code(Errc::invalid_argument));
}

TEST_F(Threads, AHandlerThatOutlivesItsVerdictIsRefusedToWaitForItsEnd) {
  AsyncResponse response;
  const async::Event entered;
  const async::Event tried;
  Acted acted;
  acted.background = [&](const SaveContext&) {
    entered.set();
    go_on_.get();
    EXPECT_THAT([&] { response.wait_done(); }, Fails(Errc::invalid_argument, HasSubstr("would deadlock")));
    tried.set();
  };
  response = start(acted);
  ASSERT_TRUE(entered.wait_for(60s));
  response.cancel();
  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::cancelled));
  EXPECT_FALSE(response.is_done());

  go_on_.set();

  ASSERT_TRUE(tried.wait_for(60s));
  response.wait_done();
}

TEST_F(Threads, AHandlerThatWritesOnPastItsContextLeavesNothing) {
  const auto calls = std::make_shared<testing::HeldSyscalls>();
  ContextOptions options = acting();
  options.syscalls = calls;
  context_.emplace(std::move(options));
  const async::Event entered;
  const async::Event may_write;
  const async::Event written;
  Acted acted;
  acted.background = [&](const SaveContext& context) {
    entered.set();
    may_write.get();
    testing::write_text(*context.directory() / "late.txt", "x");
    written.set();
    go_on_.get();
  };
  const AsyncResponse response = start(acted);
  ASSERT_TRUE(entered.wait_for(60s));
  calls->hold(testing::Held::unlink, 1);  // The removal, once it has looked at what is there.
  response.cancel();
  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::cancelled));
  ASSERT_TRUE(calls->holds());

  may_write.set();
  ASSERT_TRUE(written.wait_for(60s));
  calls->let_go();
  go_on_.set();
  response.wait_done();

  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(Threads, AHandlerThatDropsTheResponseOfItsSaveStopsItWithoutWaiting) {
  AsyncResponse response;
  const async::Event dropped;
  Acted acted;
  acted.background = [&](const SaveContext&) {
    go_on_.get();
    response = AsyncResponse();
    dropped.set();
  };
  SaveOptions options;
  options.snapshot = Snapshot::borrow;
  response = start(acted, options);

  go_on_.set();

  ASSERT_TRUE(dropped.wait_for(60s));
  EXPECT_THAT([&] { context_->close(); }, Fails(Errc::cancelled, HasSubstr("response was dropped")));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(Threads, SavingAndLoadingInAHandlerAreRefused) {
  const auto save_here = [&](const SaveContext&) { save(directory_ / "nested", tree_, {}, *context_); };
  const auto load_here = [&](const SaveContext&) {
    static_cast<void>(load(directory_ / "nested", {}, *context_));
  };
  for (const std::function<void(const SaveContext&)>& act :
       {std::function<void(const SaveContext&)>(save_here),
        std::function<void(const SaveContext&)>(load_here)}) {
    Acted acted;
    acted.blocking = act;
    EXPECT_THAT([&] { static_cast<void>(start(acted)); },
                Fails(Errc::invalid_argument, HasSubstr("would deadlock: blocking call")));
    acted.blocking = nullptr;
    acted.background = act;
    EXPECT_THAT([&] { start(acted).wait(); },
                Fails(Errc::invalid_argument, HasSubstr("would deadlock: blocking call")));
  }
}

/// Does what it is told in `context.run`.
class RunningHandler final : public CheckpointableHandler<std::function<void()>> {
 public:
  std::string_view id() const noexcept override { return "test.running/1"; }

  // outlives: copied before the first suspension.
  Awaitable<Background<>> save(SaveContext context, const std::function<void()>& act) const override {
    co_return finish(std::move(context), act);
  }

  Awaitable<Background<std::function<void()>>> load(LoadContext,
                                                    std::optional<std::function<void()>>) const override {
    throw Error(Errc::invalid_argument, "nobody loads it");
  }

  Awaitable<std::function<void()>> metadata(LoadContext) const override { co_return nullptr; }

 private:
  static Background<> finish(SaveContext context, std::function<void()> act) {
    co_await context.write_file("ran.txt", "something");
    co_await context.run(std::move(act));
  }
};

class Running : public testing::ApiTest {
 protected:
  static ContextOptions running() {
    ContextOptions options = small();
    options.registry.add<RunningHandler>();
    return options;
  }

  Running() : ApiTest(running()) {}

  std::vector<AsyncResponse> nested_;

  [[nodiscard]] AsyncResponse start(const std::function<void()>& act,
                                    const std::string& name = "checkpoint") const {
    return save_checkpointables_async(directory_ / name, {{"run", act}}, {}, *context_);
  }
};

TEST_F(Running, BlockedWorkKeepsNoOtherSaveWaiting) {
  const async::Event go_on;
  const std::function<void()> act = [&] { go_on.get(); };
  std::vector<AsyncResponse> responses;
  for (int i = 0; i < 6; ++i) {
    responses.push_back(start(act, "step" + std::to_string(i)));
  }

  save(directory_ / "other", tree_, {}, *context_);
  EXPECT_EQ(start([] {}, "another").wait().path, directory_ / "another");

  go_on.set();
  for (const AsyncResponse& response : responses) {
    response.wait();
  }
}

TEST_F(Running, ASaveInWorkIsRefused) {
  std::vector<AsyncResponse> responses;
  for (int i = 0; i < 4; ++i) {
    responses.push_back(
        start([&, i] { save(directory_ / ("nested" + std::to_string(i)), tree_, {}, *context_); },
              "step" + std::to_string(i)));
  }

  for (const AsyncResponse& response : responses) {
    EXPECT_THAT([&] { response.wait(); },
                Fails(Errc::invalid_argument, HasSubstr("would deadlock: blocking call")));
  }
}

/// With one worker, and so one share of blocking calls for each operation.
class RunningOnOneWorker : public Running {
 protected:
  RunningOnOneWorker() {
    ContextOptions options = running();
    options.worker_threads = 1;
    context_.emplace(std::move(options));
  }
};

/// Waits in its blocking phase, on a thread of the context's, until its directory is there.
class LooksForItsDirectory final : public CheckpointableHandler<Acted> {
 public:
  std::string_view id() const noexcept override { return "test.looks/1"; }

  // outlives: the caller keeps the value during the blocking phase.
  Awaitable<Background<>> save(SaveContext context, const Acted&) const override {
    bool is_there = false;
    std::function<void()> look = [&] {
      is_there = eventually([&] { return std::filesystem::exists(*context.directory()); });
    };
    co_await context.run(std::move(look));
    if (!is_there) {
      throw Error(Errc::not_found, "its own directory");
    }
    co_return finish(std::move(context));
  }

  Awaitable<Background<Acted>> load(LoadContext, std::optional<Acted>) const override {
    throw Error(Errc::invalid_argument, "nobody loads it");
  }

  Awaitable<Acted> metadata(LoadContext) const override { co_return Acted(); }

 private:
  static Background<> finish(SaveContext context) { co_await context.write_file("looked.txt", "something"); }
};

TEST_F(RunningOnOneWorker, WorkMayWaitForTheDirectoryOfItsSave) {
  SaveOptions options;
  options.registry.add<LooksForItsDirectory>();

  EXPECT_NO_THROW(save_checkpointables(target(), {{"looks", Acted()}}, options, *context_));
}

TEST_F(Running, WorkThatDropsTheResponseOfItsSaveStopsItWithoutWaiting) {
  AsyncResponse response;
  const async::Event go_on;
  const async::Event dropped;
  const std::function<void()> act = [&] {
    go_on.get();
    response = AsyncResponse();
    dropped.set();
  };
  SaveOptions options;
  options.snapshot = Snapshot::borrow;
  response = save_checkpointables_async(target(), {{"run", act}}, options, *context_);

  go_on.set();

  ASSERT_TRUE(dropped.wait_for(60s));
  EXPECT_THAT([&] { context_->close(); }, Fails(Errc::cancelled, HasSubstr("response was dropped")));
}

TEST_F(Running, AnAcceptedSaveInWorkTakesOnlyWhatIsMovedIn) {
  start([&] {
    Tree moved = {{"step", 1}};
    nested_.push_back(save_async(directory_ / "nested", std::move(moved), return_when_accepted, *context_));
  }).wait();
  nested_.front().wait();

  EXPECT_THAT(
      [&] {
        start(
            [&] {
              const Tree kept = {{"step", 1}};
              static_cast<void>(save_async(directory_ / "refused", kept, return_when_accepted, *context_));
            },
            "second")
            .wait();
      },
      Fails(Errc::invalid_argument, HasSubstr("belongs to the caller; on a context thread")));
}

}  // namespace
}  // namespace cairn
