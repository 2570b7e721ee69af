// SPDX-License-Identifier: Apache-2.0
// Finding, describing and recovering, awaited: nothing blocks the thread that awaits.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "api/fixture.hpp"
#include "support/held_syscalls.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::Held;
using ::testing::IsEmpty;
using testing::run;

template <class T>
Awaitable<> forget_result(Awaitable<T> task) {
  static_cast<void>(co_await std::move(task));
}

/// A function of those that are awaited, with a deadline.
struct AwaitedCall {
  const char* name;
  std::function<Awaitable<>(const fs::path& root, Timeout deadline, const Context& context)> call;
};

void PrintTo(const AwaitedCall& call, std::ostream* out) {
  *out << call.name;
}

template <class Options>
Options within(Timeout deadline) {
  Options options;
  options.deadline = deadline;
  return options;
}

LoadLatestOptions latest_within(Timeout deadline) {
  LoadLatestOptions options;
  options.load.deadline = deadline;
  return options;
}

std::vector<AwaitedCall> awaited_calls() {
  return {
      {"list_checkpoints",
       [](const fs::path& root, Timeout deadline, const Context& context) {
         return forget_result(list_checkpoints_async(root, within<ListOptions>(deadline), context));
       }},
      {"latest_checkpoint",
       [](const fs::path& root, Timeout deadline, const Context& context) {
         return forget_result(latest_checkpoint_async(root, within<LatestOptions>(deadline), context));
       }},
      {"is_checkpoint",
       [](const fs::path& root, Timeout deadline, const Context& context) {
         return forget_result(
             is_checkpoint_async(root / "1", within<IsCheckpointOptions>(deadline), context));
       }},
      {"recover",
       [](const fs::path& root, Timeout deadline, const Context& context) {
         return forget_result(recover_async(root, within<RecoverOptions>(deadline), context));
       }},
      {"load_latest",
       [](const fs::path& root, Timeout deadline, const Context& context) {
         return forget_result(load_latest_async(root, {}, latest_within(deadline), context));
       }},
      {"checkpointables_metadata",
       [](const fs::path& root, Timeout deadline, const Context& context) {
         return forget_result(
             checkpointables_metadata_async(root / "1", {}, within<LoadOptions>(deadline), context));
       }},
      {"metadata",
       [](const fs::path& root, Timeout deadline, const Context& context) {
         return forget_result(metadata_async(root / "1", within<LoadOptions>(deadline), context));
       }},
  };
}

/// Two checkpoints, and a disk that answers when the test says so.
class Awaited : public testing::ApiTest {
 protected:
  Awaited() : ApiTest(small()) {
    save(root() / "1", {{"step", 1}}, {}, *context_);
    save_checkpointables(root() / "2", {{"state", Tree{{"step", 2}, {"w", weights_}}}, {"more", tree_}}, {},
                         *context_);
    ContextOptions options = small();
    options.stop_grace = std::chrono::milliseconds(10);  // A disk that is held does not answer within any.
    options.syscalls = calls_;
    context_.emplace(std::move(options));
  }

  ~Awaited() override {
    calls_->let_go();
    context_.reset();
  }

  [[nodiscard]] fs::path root() const { return directory_.path(); }

  const std::shared_ptr<testing::HeldSyscalls> calls_ = std::make_shared<testing::HeldSyscalls>();
  std::vector<float> weights_ = std::vector<float>(1 << 20, 1.0F);
  std::atomic<int> mark_{0};
};

class EveryAwaitedCall : public Awaited, public ::testing::WithParamInterface<AwaitedCall> {};

INSTANTIATE_TEST_SUITE_P(All, EveryAwaitedCall, ::testing::ValuesIn(awaited_calls()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(EveryAwaitedCall, LeavesTheThreadThatAwaitsFreeWhileTheDiskDoesNotAnswer) {
  boost::asio::io_context io;
  bool has_ended = false;
  calls_->hold(Held::open);

  boost::asio::co_spawn(io, GetParam().call(root(), {}, *context_), [&](const std::exception_ptr& failure) {
    has_ended = true;
    if (failure) {
      std::rethrow_exception(failure);
    }
  });
  io.poll();  // Would not return if it blocked.
  EXPECT_TRUE(calls_->holds());
  EXPECT_FALSE(has_ended);
  calls_->let_go();
  io.restart();
  io.run();

  EXPECT_TRUE(has_ended);
}

TEST_P(EveryAwaitedCall, HasADeadline) {
  calls_->hold(Held::open);

  EXPECT_THAT([&] { run(GetParam().call(root(), std::chrono::milliseconds(20), *context_)); },
              Fails(Errc::timed_out, HasSubstr(root().string())));
}

TEST_P(EveryAwaitedCall, EndsWithinADeadlineThatIsFarAway) {
  EXPECT_NO_THROW(run(GetParam().call(root(), std::chrono::minutes(10), *context_)));
}

TEST_P(EveryAwaitedCall, DoesNothingBeforeItIsAwaited) {
  calls_->hold(Held::open);

  static_cast<void>(GetParam().call(root(), {}, *context_));

  EXPECT_EQ(calls_->held(), 0);
}

TEST_F(Awaited, FindsWhatTheBlockingCallsFind) {
  const auto listed = run(list_checkpoints_async(root(), {}, *context_));
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[1].path, root() / "2");
  EXPECT_EQ(run(latest_checkpoint_async(root(), {}, *context_))->name, "2");
  EXPECT_TRUE(run(is_checkpoint_async(root() / "1", {}, *context_)));
  EXPECT_FALSE(run(is_checkpoint_async(root(), {}, *context_)));
}

TEST_F(Awaited, FindsNothingWhereNothingWasSavedYet) {
  EXPECT_FALSE(run(latest_checkpoint_async(root() / "run", {}, *context_)));
  EXPECT_FALSE(run(load_latest_async(root() / "run", {}, {}, *context_)));
  EXPECT_FALSE(run(is_checkpoint_async(root() / "3", {}, *context_)));
  EXPECT_THAT([&] { run(list_checkpoints_async(root() / "run", {}, *context_)); },
              Fails(Errc::not_found, HasSubstr("run")));
  EXPECT_TRUE(run(recover_async(root() / "run", {}, *context_)).entries.empty());
}

TEST_F(Awaited, RefusesAnEmptyPathWhenItIsCalled) {
  const auto refuses = Fails(Errc::invalid_argument);
  EXPECT_THAT([&] { static_cast<void>(list_checkpoints_async("", {}, *context_)); }, refuses);
  EXPECT_THAT([&] { static_cast<void>(latest_checkpoint_async("", {}, *context_)); }, refuses);
  EXPECT_THAT([&] { static_cast<void>(is_checkpoint_async("", {}, *context_)); }, refuses);
  EXPECT_THAT([&] { static_cast<void>(recover_async("", {}, *context_)); }, refuses);
  EXPECT_THAT([&] { static_cast<void>(load_latest_async("", {}, {}, *context_)); }, refuses);
  EXPECT_THAT([&] { static_cast<void>(checkpointables_metadata_async("", {}, {}, *context_)); }, refuses);
  EXPECT_THAT([&] { static_cast<void>(metadata_async("", {}, *context_)); }, refuses);
}

TEST_F(Awaited, DescribesWhatIsNamed) {
  const CheckpointMetadata one = run(checkpointables_metadata_async(root() / "2", {"more"}, {}, *context_));
  AbstractTree state = run(metadata_async(root() / "2", {}, *context_));

  ASSERT_EQ(one.items.size(), 1u);
  EXPECT_EQ(one.at("more").handler_id, "cairn.tree/1");
  EXPECT_EQ(state["w"].as_array().shape, (Shape{1 << 20}));
  EXPECT_THAT([&] { run(checkpointables_metadata_async(root() / "2", {"none"}, {}, *context_)); },
              Fails(Errc::not_found, AllOf(HasSubstr("'none'"), HasSubstr("more"))));
}

TEST_F(Awaited, LoadsTheNewestIntoMemoryOfTheCallers) {
  AbstractTree wanted = metadata(root() / "2", *context_);
  std::vector<float> mine(1 << 20);
  wanted["w"].place_into(mine);

  const auto latest = run(load_latest_async(root(), {{"state", wanted}}, {}, *context_));

  ASSERT_TRUE(latest);
  EXPECT_EQ(latest->checkpoint.path, root() / "2");
  EXPECT_EQ(mine, weights_);
}

TEST_F(Awaited, LoadsAnOlderOneWhereItMayAndSaysWhy) {
  fs::remove(root() / "2/COMMIT");
  LoadLatestOptions options;

  EXPECT_THAT([&] { run(load_latest_async(root(), {}, options, *context_)); },
              Fails(Errc::not_committed, HasSubstr("COMMIT")));
  options.fall_back = true;
  auto latest = run(load_latest_async(root(), {}, options, *context_));

  ASSERT_TRUE(latest);
  EXPECT_EQ(latest->loaded.take<Tree>("state").get<int>("step"), 1);
  ASSERT_EQ(latest->passed_over.size(), 1u);
  EXPECT_EQ(latest->passed_over[0].path, root() / "2");
}

TEST_F(Awaited, PassesOverDataThatIsDamaged) {
  for (const auto& entry : fs::recursive_directory_iterator(root() / "2")) {
    if (entry.path().extension() == ".safetensors") {
      std::string text = testing::read_text(entry.path());
      text.back() = static_cast<char>(text.back() ^ 1);
      testing::write_text(entry.path(), text);
    }
  }
  LoadLatestOptions options;
  options.fall_back = true;

  const auto latest = run(load_latest_async(root(), {"state"}, options, *context_));

  ASSERT_TRUE(latest);
  EXPECT_EQ(latest->checkpoint.name, "1");
  EXPECT_EQ(latest->passed_over.at(0).code, Errc::checksum_mismatch);
}

TEST_F(Awaited, ALoadThatIsCancelledEndsWhenItHasReleasedTheMemory) {
  AbstractTree wanted = metadata(root() / "2", *context_);
  std::vector<float> mine(1 << 20);
  wanted["w"].place_into(mine);
  boost::asio::io_context io;
  boost::asio::cancellation_signal stop;
  std::exception_ptr failure;
  bool has_ended = false;
  calls_->hold(Held::read, 1 << 20, std::size_t{1} << 20);

  boost::asio::co_spawn(io, forget_result(load_latest_async(root(), {{"state", wanted}}, {}, *context_)),
                        boost::asio::bind_cancellation_slot(stop.slot(), [&](const std::exception_ptr& why) {
                          failure = why;
                          has_ended = true;
                        }));
  while (calls_->held() == 0) {
    io.run_for(std::chrono::milliseconds(1));
  }
  stop.emit(boost::asio::cancellation_type::terminal);
  io.run_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(has_ended);  // The disk may still write to `mine`.
  calls_->let_go();
  io.restart();
  io.run();

  EXPECT_TRUE(has_ended);
  EXPECT_TRUE(failure);
}

TEST_F(Awaited, AFrameThatIsDestroyedTakesTheMemoryBack) {
  AbstractTree wanted = metadata(root() / "2", *context_);
  std::vector<float> mine(1 << 20);
  wanted["w"].place_into(mine);
  calls_->hold(Held::read, 1 << 20, std::size_t{1} << 20);
  std::thread disk;
  {
    boost::asio::io_context io;
    bool has_ended = false;
    boost::asio::co_spawn(io, forget_result(load_latest_async(root(), {{"state", wanted}}, {}, *context_)),
                          [&](const std::exception_ptr&) { has_ended = true; });
    while (calls_->held() == 0) {
      io.run_for(std::chrono::milliseconds(1));
    }
    EXPECT_FALSE(has_ended);
    disk = std::thread([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      mark_ = 1;
      calls_->let_go();
    });
  }
  EXPECT_EQ(mark_, 1);  // It has waited for the disk.
  mine = {};
  disk.join();
}

TEST_F(Awaited, RecoversADirectory) {
  fs::rename(root() / "2", root() / ".tmp-2-00000000-0000-4000-8000-000000000000");

  static_cast<void>(run(recover_async(root(), {}, *context_)));

  EXPECT_EQ(run(latest_checkpoint_async(root(), {}, *context_))->name, "2");
}

TEST_F(Awaited, IsCheckpointHasADeadlineAlsoWhereItBlocks) {
  EXPECT_TRUE(is_checkpoint(root() / "1", within<IsCheckpointOptions>(std::chrono::minutes(10)), *context_));
  calls_->hold(Held::open);

  EXPECT_THAT(
      [&] {
        static_cast<void>(is_checkpoint(
            root() / "1", within<IsCheckpointOptions>(std::chrono::milliseconds(20)), *context_));
      },
      Fails(Errc::timed_out, HasSubstr((root() / "1").string())));
}

TEST_F(Awaited, MetadataIsOfThoseThatAreNamed) {
  EXPECT_EQ(checkpointables_metadata(root() / "2", {"more"}, {}, *context_).items.size(), 1u);
  EXPECT_EQ(checkpointables_metadata(root() / "2", std::vector<std::string>(), {}, *context_).items.size(),
            2u);
}

}  // namespace
}  // namespace cairn
