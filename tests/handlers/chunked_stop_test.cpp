// SPDX-License-Identifier: Apache-2.0
// Messages in chunks whose save or load is stopped in the middle, or of which a call fails.
#include <system_error>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>

#include "cairn/cairn.hpp"
#include "cairn/handlers/proto.hpp"

#include "io/faulty_syscalls.hpp"
#include "support/fails.hpp"
#include "support/held_syscalls.hpp"
#include "support/manual_clock.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"
#include "support/unsynced_syscalls.hpp"

namespace cairn {
namespace {

using google::protobuf::Struct;
using testing::CallKind;
using testing::Fails;
using testing::list_tree;

constexpr std::size_t kRunBytes = std::size_t{4} << 20;

/// Pages of 9 MiB and a string of 6 MiB, or a page and a string.
Struct message_of(bool is_large) {
  Struct message;
  auto& fields = *message.mutable_fields();
  for (int i = 0; i < (is_large ? 9'000 : 3); ++i) {
    fields["field " + std::to_string(i)].set_string_value(std::string(1000, 'f'));
  }
  fields["string"].set_string_value(std::string(is_large ? 6 << 20 : 400'000, 's'));
  return message;
}

class ChunkedProtoStopped : public ::testing::Test {
 protected:
  [[nodiscard]] Context context_with(std::shared_ptr<io::Syscalls> syscalls) const {
    ContextOptions options;
    options.engine = io::EngineKind::threads;
    options.worker_threads = 2;
    options.staging_bytes = 4 * kRunBytes;
    options.syscalls = std::move(syscalls);
    options.clock = clock_;
    options.stop_grace = std::chrono::milliseconds(10);
    options.registry.add<ProtoHandler>();
    return Context(std::move(options));
  }

  static SaveOptions in_chunks() {
    ProtoOptions proto;
    proto.chunked_from_bytes = 0;
    SaveOptions options;
    options.deadline = std::chrono::hours(1);
    options.handler_options.set(proto);
    return options;
  }

  [[nodiscard]] std::filesystem::path target() const { return folder_ / "checkpoint"; }

  void save(const Struct& message) const {
    save_checkpointables(target(), {{"message", message}}, in_chunks(), context_with(nullptr));
  }

  [[nodiscard]] bool is_there(const Struct& message) const {
    Loaded loaded = load_checkpointables(target(), {"message"}, LoadOptions(), context_with(nullptr));
    const auto found = loaded.take<Struct>("message");
    return found.ByteSizeLong() == message.ByteSizeLong();
  }

  /// Has a call of a run of a file wait, and stops what asked for it: `start` returns its response.
  template <class Start>
  void stop_in_the_middle(CallKind kind, bool by_deadline, const Start& start) {
    const auto calls = std::make_shared<testing::HeldSyscalls>();
    const Context context = context_with(calls);
    calls->hold(kind, 1, kRunBytes);
    auto response = start(context);
    ASSERT_TRUE(calls->holds());
    if (by_deadline) {
      // The time until it is given up is counted from when it is stopped, so a single step is not enough.
      const std::jthread time([&](const std::stop_token& is_over) {
        while (!is_over.stop_requested()) {
          clock_->advance(std::chrono::hours(1));
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      });
      EXPECT_THAT([&] { static_cast<void>(response.wait()); }, Fails(Errc::timed_out));
    } else {
      response.cancel();
    }
    calls->let_go();
    if (!by_deadline) {
      EXPECT_THAT([&] { static_cast<void>(response.wait()); }, Fails(Errc::cancelled));
    }
  }

  const std::shared_ptr<testing::ManualClock> clock_ = std::make_shared<testing::ManualClock>();
  const testing::TempDir folder_;
};

TEST_F(ChunkedProtoStopped, LeavesNothingOfASave) {
  const Struct message = message_of(true);
  for (const bool by_deadline : {false, true}) {
    SCOPED_TRACE(by_deadline);
    stop_in_the_middle(CallKind::write, by_deadline, [&](const Context& context) {
      return save_checkpointables_async(target(), {{"message", message}}, in_chunks(), context);
    });
    EXPECT_TRUE(testing::eventually([&] { return list_tree(folder_.path()).empty(); }));
  }
}

TEST_F(ChunkedProtoStopped, EndsALoad) {
  const Struct message = message_of(true);
  save(message);
  for (const bool by_deadline : {false, true}) {
    SCOPED_TRACE(by_deadline);
    stop_in_the_middle(CallKind::read, by_deadline, [&](const Context& context) {
      LoadOptions options;
      options.deadline = std::chrono::hours(1);
      return load_checkpointables_async(target(), {"message"}, options, context);
    });
    EXPECT_TRUE(is_there(message));
  }
}

// The n-th call of each kind fails: then nothing is there or the new message, whole.
TEST_F(ChunkedProtoStopped, IsWholeOrNotThereWhateverFailsInASave) {
  const Struct message = message_of(false);
  for (const io::Call call : io::kAllCalls) {
    for (int first = 1, hits = 1; hits > 0 && first < 200; ++first) {
      SCOPED_TRACE(std::to_string(static_cast<int>(call)) + ' ' + std::to_string(first));
      const auto calls = std::make_shared<io::FaultySyscalls>(testing::unsynced_syscalls());
      calls->plan({call, first, 1, -EIO});
      bool is_done = false;
      try {
        save_checkpointables(target(), {{"message", message}}, in_chunks(), context_with(calls));
        is_done = true;
      } catch (const std::system_error& error) {
        const bool is_told = error.code().value() == EIO || error.code() == Errc::commit_unknown;
        EXPECT_TRUE(is_told) << error.what();
      }
      hits = calls->hits();
      const bool is_checkpoint = std::filesystem::exists(target());
      EXPECT_TRUE(is_checkpoint ? is_there(message) : !is_done);
      std::filesystem::remove_all(target());
    }
  }
}

// The n-th call of each kind fails: then the load says so, or returns the message, whole.
TEST_F(ChunkedProtoStopped, GivesTheWholeMessageOrAnErrorWhateverFailsInALoad) {
  const Struct message = message_of(false);
  save(message);
  for (const io::Call call : io::kAllCalls) {
    for (int first = 1, hits = 1; hits > 0 && first < 200; ++first) {
      SCOPED_TRACE(std::to_string(static_cast<int>(call)) + ' ' + std::to_string(first));
      const auto calls = std::make_shared<io::FaultySyscalls>();
      calls->plan({call, first, 1, -EIO});
      try {
        Loaded loaded = load_checkpointables(target(), {"message"}, LoadOptions(), context_with(calls));
        EXPECT_EQ(loaded.take<Struct>("message").ByteSizeLong(), message.ByteSizeLong());
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code().value(), EIO) << error.what();
      }
      hits = calls->hits();
    }
  }
}

}  // namespace
}  // namespace cairn
