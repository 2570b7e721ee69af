// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/this_coro.hpp>

#include "cairn/base/error.hpp"
#include "cairn/contract/handler.hpp"

#include "async/internal/event.hpp"
#include "async/internal/sleep.hpp"
#include "async/internal/suspend.hpp"

namespace cairn::testing {

/// What a phase of a user's handler does.
enum class Act {
  pass,
  throw_error,
  throw_standard,
  throw_integer,
  throw_unknown,        ///< As another save may say of itself.
  throw_superseded,     ///< Likewise.
  throw_cancelled,      ///< Though nobody has asked for it.
  wait,                 ///< Until it is cancelled.
  finish_after_cancel,  ///< As wait, but ends as if nothing had happened.
  ignore_cancel,        ///< Goes on until it is let go, whatever is asked of it.
};

struct Script {
  Script() = default;
  Script(Act in_blocking, Act in_background) : blocking(in_blocking), background(in_background) {}

  Act blocking = Act::pass;
  Act background = Act::pass;
  std::chrono::milliseconds delay{0};  ///< Before the background phase acts.
  /// Background phases that are running.
  std::shared_ptr<std::atomic<int>> running = std::make_shared<std::atomic<int>>(0);
  async::Event is_stuck;  ///< Happens where a phase begins to ignore that it is cancelled.
  async::Event let_go;    ///< Makes it end.
};

/// A user's handler that does what the value says.
class ScriptedHandler final : public CheckpointableHandler<Script> {
 public:
  std::string_view id() const noexcept override { return "test.scripted/1"; }

  // outlives: copied before the first suspension.
  Awaitable<Background<>> save(SaveContext context, const Script& script) const override {
    return begin(std::move(context), script);
  }

  Awaitable<Background<Script>> load(LoadContext, std::optional<Script> wanted) const override {
    return begin_load(wanted.value_or(Script()));
  }

  Awaitable<Script> metadata(LoadContext) const override { co_return Script(); }

 private:
  static Awaitable<Background<>> begin(SaveContext context, Script script) {
    co_await act(script.blocking, script);
    co_return finish(std::move(context), std::move(script));
  }

  static Awaitable<Background<Script>> begin_load(Script script) {
    co_await act(script.blocking, script);
    co_return finish_load(std::move(script));
  }

  static Background<> finish(SaveContext context, Script script) {
    const Running running(script.running);
    co_await context.write_file("script.txt", "something");
    co_await async::sleep_for(script.delay);
    co_await act(script.background, script);
  }

  static Background<Script> finish_load(Script script) {
    const Running running(script.running);
    co_await act(script.background, script);
    co_return script;
  }

  static Awaitable<> act(Act what, Script script) {
    constexpr std::chrono::hours kForEver{1};
    switch (what) {
      case Act::pass:
        break;
      case Act::throw_error:
        throw Error(Errc::shape_mismatch, "a shape that nobody likes");
      case Act::throw_standard:
        throw std::runtime_error("out of luck");
      case Act::throw_integer:
        throw 42;
      case Act::throw_unknown:
        throw Error(Errc::commit_unknown, "of an inner save");
      case Act::throw_superseded:
        throw Error(Errc::superseded, "of an inner save");
      case Act::throw_cancelled:
        std::rethrow_exception(async::cancelled());
      case Act::wait:
        co_await async::sleep_for(kForEver);
        break;
      case Act::finish_after_cancel:
        try {
          co_await async::sleep_for(kForEver);
        } catch (...) {  // A handler that knows better.
        }
        break;
      case Act::ignore_cancel:
        co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
        script.is_stuck.set();
        co_await script.let_go.wait();
        break;
    }
  }

  class Running {
   public:
    explicit Running(std::shared_ptr<std::atomic<int>> count) : count_(std::move(count)) { ++*count_; }
    ~Running() { --*count_; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    std::shared_ptr<std::atomic<int>> count_;
  };
};

}  // namespace cairn::testing
