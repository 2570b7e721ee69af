// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/this_coro.hpp>

#include "cairn/contract/handler.hpp"

#include "async/internal/event.hpp"
#include "verdicts/harness_clock.hpp"

namespace cairn::verdicts {

/// A value whose handler takes its time in the background phase.
struct Sloth {
  enum class Way { suspends, heeds_nothing, blocks, throws };

  Sloth() = default;

  Way way = Way::suspends;
  Duration time{0};
  std::shared_ptr<HarnessClock> clock;
};

/// Threads: as any handler.
class SlothHandler final : public CheckpointableHandler<Sloth> {
 public:
  [[nodiscard]] std::string_view id() const noexcept override { return "test.sloth/1"; }

  // outlives: copied before the first suspension.
  [[nodiscard]] Awaitable<Background<>> save(SaveContext context, const Sloth& value) const override {
    return begin(std::move(context), value);
  }

  [[nodiscard]] Awaitable<Background<Sloth>> load(LoadContext context, std::optional<Sloth>) const override {
    return begin_load(std::move(context));
  }

  [[nodiscard]] Awaitable<Sloth> metadata(LoadContext) const override { co_return Sloth(); }

 private:
  static Awaitable<Background<>> begin(SaveContext context, Sloth value) {
    co_return finish(std::move(context), value);
  }

  static Background<> finish(SaveContext context, Sloth value) {
    co_await context.write_file("sloth", "slow");
    const async::Event event;
    switch (value.way) {
      case Sloth::Way::heeds_nothing:
        co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
        [[fallthrough]];
      case Sloth::Way::suspends:
        value.clock->at(value.clock->steady_now() + value.time, [event] { event.set(); });
        co_await event.wait();
        break;
      case Sloth::Way::blocks:
        value.clock->sleep_for(value.time, "a handler that blocks its thread");
        break;
      case Sloth::Way::throws:
        throw 17;
    }
  }

  static Awaitable<Background<Sloth>> begin_load(LoadContext context) {
    co_return finish_load(std::move(context));
  }

  static Background<Sloth> finish_load(LoadContext context) {
    co_await context.read_file("sloth");
    co_return Sloth();
  }
};

}  // namespace cairn::verdicts
