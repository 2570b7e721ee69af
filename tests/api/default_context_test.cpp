// SPDX-License-Identifier: Apache-2.0
// The default context at the end of a program, when other static objects are destroyed.
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cairn/cairn.hpp"
#include "cairn/contract/handler.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/coord/transport.hpp"

#include "api/fixture.hpp"
#include "async/internal/event.hpp"

namespace cairn {
namespace {

/// Saves when it is destroyed, and says what came of it.
class SavesAtTheEnd {
 public:
  explicit SavesAtTheEnd(std::filesystem::path path) : path_(std::move(path)) {}
  ~SavesAtTheEnd() {
    try {
      save(path_, Tree({{"step", 1}}));
      std::fputs("saved\n", stderr);
    } catch (const Error& error) {
      std::fputs(error.code() == Errc::closed ? "refused: closed\n" : "refused otherwise\n", stderr);
    }
  }
  SavesAtTheEnd(const SavesAtTheEnd&) = delete;
  SavesAtTheEnd& operator=(const SavesAtTheEnd&) = delete;

 private:
  std::filesystem::path path_;
};

/// Says at the end whether there is a checkpoint.
class LooksAtTheEnd {
 public:
  explicit LooksAtTheEnd(std::filesystem::path path) : path_(std::move(path)) {}
  ~LooksAtTheEnd() {
    std::fputs(std::filesystem::exists(path_ / "COMMIT") ? "committed\n" : "missing\n", stderr);
  }
  LooksAtTheEnd(const LooksAtTheEnd&) = delete;
  LooksAtTheEnd& operator=(const LooksAtTheEnd&) = delete;

 private:
  std::filesystem::path path_;
};

struct EndsAll {};

/// Ends the program in its background phase, or fails there.
template <bool fails>
class EndingHandler final : public CheckpointableHandler<EndsAll> {
 public:
  std::string_view id() const noexcept override { return "test.ending/1"; }

  // outlives: nobody looks at it.
  Awaitable<Background<>> save(SaveContext context, const EndsAll&) const override {
    co_return finish(std::move(context));
  }

  Awaitable<Background<EndsAll>> load(LoadContext, std::optional<EndsAll>) const override {
    throw Error(Errc::invalid_argument, "nobody loads it");
  }

  Awaitable<EndsAll> metadata(LoadContext) const override { co_return EndsAll(); }

 private:
  static Background<> finish(SaveContext context) {
    co_await context.write_file("ended.txt", "something");
    if (fails) {
      throw Error(Errc::shape_mismatch, "nobody hears this");
    }
    std::exit(3);
  }
};

/// What happens while a program ends, in this order.
struct EndOfProgram {
  async::Event staged;
  async::Event begins;
  async::Event context_gone;
  async::Event call_is_back;
};

/// Ends the program in its background phase.
struct EndsInTheBackground {
  static constexpr bool kIsSavedOnly = true;

  Awaitable<Background<>> save(SaveContext /*context*/) const {
    end.staged.set();
    co_return finish(end);
  }

  static Background<> finish(EndOfProgram end) {
    end.begins.set();
    std::exit(3);
    co_return;
  }

  EndOfProgram end;
};

/// Is destroyed after the context.
struct TellsThatTheContextIsGone {
  ~TellsThatTheContextIsGone() {
    end.context_gone.set();
    static_cast<void>(end.call_is_back.wait_for(kMost));
  }

  static constexpr std::chrono::seconds kMost{30};
  EndOfProgram end;
};

/// Keeps the thread that saves, after its part of the save, until the context is gone.
class KeepsTheThread final : public coord::Transport {
 public:
  explicit KeepsTheThread(EndOfProgram end) : end_(std::move(end)) {}

  std::size_t rank() const noexcept override { return 0; }
  std::size_t size() const noexcept override { return 1; }
  std::span<const std::uint32_t> hosts() const noexcept override { return {&host_, 1}; }
  Hash128 job() const noexcept override { return {}; }
  void send(std::size_t /*to*/, coord::Packet /*packet*/) override {}
  void listen(Receiver /*receiver*/, std::function<void()> /*ended*/) override {}
  void call_after(std::chrono::nanoseconds /*delay*/, std::function<void()> /*work*/) override {}
  Time now() const override { return std::chrono::steady_clock::now(); }

  bool progress() override {
    // Too short a wait would only let the thread go before there is something to see.
    if (end_.staged.has_happened() && end_.begins.wait_for(std::chrono::milliseconds(100))) {
      static_cast<void>(end_.context_gone.wait_for(TellsThatTheContextIsGone::kMost));
    }
    return true;
  }

 private:
  const EndOfProgram end_;
  const std::uint32_t host_ = 0;
};

class DefaultContext : public ::testing::Test {
 protected:
  /// Much less than `close_timeout`: a program that takes longer is ended by SIGALRM.
  static constexpr unsigned kMostSeconds = 60;

  DefaultContext() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  const testing::TempDir directory_;
};

TEST_F(DefaultContext, RefusesSavesOfObjectsThatOutliveIt) {
  const std::filesystem::path path = directory_ / "late";

  EXPECT_EXIT(
      {
        static const SavesAtTheEnd before_the_context(path);
        static_cast<void>(default_context());
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "refused: closed");
}

TEST_F(DefaultContext, ServesObjectsThatItOutlives) {
  const std::filesystem::path path = directory_ / "last";

  EXPECT_EXIT(
      {
        static_cast<void>(default_context());
        static const SavesAtTheEnd after_the_context(path);
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "saved");
}

TEST_F(DefaultContext, WaitsForSavesInFlightAtTheEnd) {
  const std::filesystem::path path = directory_ / "flight";

  EXPECT_EXIT(
      {
        static const LooksAtTheEnd before_the_context(path);
        static_cast<void>(save_async(path, Tree({{"step", 1}})));
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "committed");
}

TEST_F(DefaultContext, DoesNotWaitForTheHandlerThatEndsTheProgram) {
  const std::filesystem::path path = directory_ / "ended";

  EXPECT_EXIT(
      {
        ::alarm(kMostSeconds);
        static const LooksAtTheEnd before_the_context(path);
        SaveOptions options;
        options.registry.add<EndingHandler<false>>();
        save_checkpointables(path, {{"ends", EndsAll()}}, options);
      },
      ::testing::ExitedWithCode(3), "missing");
}

TEST_F(DefaultContext, AContextThatEndsWhileAThreadSavesIsNotUsedAnyMore) {
  const std::filesystem::path path = directory_ / "gone";

  EXPECT_EXIT(
      {
        ::alarm(kMostSeconds);
        const EndOfProgram end;
        static const TellsThatTheContextIsGone after_the_context{end};
        ContextOptions context_options;
        context_options.stop_grace = std::chrono::milliseconds(1);
        context_options.coordinator =
            std::make_shared<coord::Coordinator>(std::make_unique<KeepsTheThread>(end));
        static const Context context(std::move(context_options));
        try {
          save_checkpointables(path, {{"ends", EndsInTheBackground{end}}}, context);
        } catch (const Error&) {  // It was stopped.
          end.call_is_back.set();
        }
        ::pause();
      },
      ::testing::ExitedWithCode(3), "");
}

TEST_F(DefaultContext, AContextDoesNotWaitForItsOnLostFailureThatEndsTheProgram) {
  const std::filesystem::path path = directory_ / "lost";

  EXPECT_EXIT(
      {
        ::alarm(kMostSeconds);
        ContextOptions context_options;
        context_options.on_lost_failure = [](const std::string&, const std::exception_ptr&) { std::exit(4); };
        static const Context context(std::move(context_options));
        SaveOptions options;
        options.registry.add<EndingHandler<true>>();
        static_cast<void>(save_checkpointables_async(path, {{"ends", EndsAll()}}, options, context));
        ::pause();
      },
      ::testing::ExitedWithCode(4), "");
}

}  // namespace
}  // namespace cairn
