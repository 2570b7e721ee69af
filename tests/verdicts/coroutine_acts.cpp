// SPDX-License-Identifier: Apache-2.0
// Programs that wait in coroutines, on an io_context of their own, with a timer beside them.
#include <memory>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include "verdicts/player.hpp"

namespace cairn::verdicts {
namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;

namespace {

/// A timer of an io_context that goes off when the clock of the program says so.
class Alarm {
 public:
  /// `on_ring` is called just before, on the timekeeper's thread.
  Alarm(asio::io_context& io, HarnessClock& clock, Moment when, std::function<void()> on_ring)
      : clock_(clock),
        timer_(std::make_shared<asio::steady_timer>(io, asio::steady_timer::time_point::max())) {
    number_ =
        clock.at(when, [&io, timer = timer_, on_ring = std::move(on_ring), work = asio::make_work_guard(io)] {
          on_ring();
          asio::post(io, [timer] { timer->cancel(); });
        });
  }
  ~Alarm() { forget(); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  [[nodiscard]] Awaitable<> wait() const { return wait_for(timer_); }
  /// Does not ring any more, and lets the io_context end.
  void forget() const { clock_.forget(number_); }

 private:
  static Awaitable<> wait_for(std::shared_ptr<asio::steady_timer> timer) {
    boost::system::error_code is_cancelled;
    co_await timer->async_wait(asio::redirect_error(asio::use_awaitable, is_cancelled));
  }

  HarnessClock& clock_;
  std::shared_ptr<asio::steady_timer> timer_;
  std::uint64_t number_ = 0;
};

template <class Task>
void run_in(asio::io_context& io, Task task, std::exception_ptr& failure) {
  asio::co_spawn(io, std::move(task), [&failure](const std::exception_ptr& thrown) { failure = thrown; });
  io.run();
}

// outlives: who awaits keeps both.
template <class T>
Awaitable<> race(Awaitable<T> task, const Alarm* alarm, std::optional<T>* won) {
  auto first = co_await (std::move(task) || alarm->wait());
  alarm->forget();
  if (first.index() == 0) {
    *won = std::move(std::get<0>(first));
  }
}

// outlives: who awaits keeps both.
Awaitable<> race_to_staged(Awaitable<> task, const Alarm* alarm, bool* won) {
  const auto first = co_await (std::move(task) || alarm->wait());
  alarm->forget();
  *won = first.index() == 0;
}

}  // namespace

void Player::await_save(bool staged) {
  if (saves_.empty()) {
    save_to_open(staged ? Act::save_accepted : Act::save_borrowed);
    if (saves_.empty()) {
      return;
    }
  }
  OpenSave open = take_save();
  asio::io_context io;
  std::optional<Moment> stopped;
  bool is_staged = false;
  std::optional<SaveResult> committed;
  const Alarm alarm(io, *clock_, now() + some_time(), [this, &open, &stopped] {
    if (!open.response->is_released()) {
      stopped = now();
      open.may_end_early = true;
      oracle_.ask_stop(open.number);
    }
  });
  const Moment begin = now();
  std::exception_ptr failure;
  const auto thrown = attempt(
      fmt::format("co_await {}() of save {} || timer", staged ? "staged" : "committed", open.number), [&] {
        if (staged) {
          run_in(io, race_to_staged(open.response->staged(), &alarm, &is_staged), failure);
        } else {
          run_in(io, race(open.response->committed(), &alarm, &committed), failure);
        }
      });
  if (thrown) {
    std::rethrow_exception(thrown);
  }
  if (stopped) {
    check_duration("a cancelled co_await", *stopped, last_access(open));
  }
  if (stopped && !is_staged && !committed && !open.response->is_released()) {
    journal_->lie(
        "memory",
        fmt::format("a cancelled co_await of save {} ended before its memory was given back", open.number));
  }
  if (is_staged && !open.uses_memory) {
    open.loan.give_back();
  }
  if (committed) {
    hear(open.number, *committed);
    oracle_.end_save(open.number, nullptr, begin);
    return;
  }
  saves_.push_back(std::move(open));  // Whoever waits for it later learns what became of it.
}

void Player::await_load() {
  if (loads_.empty()) {
    load_to_open(true);
    if (loads_.empty()) {
      return;
    }
  }
  OpenLoad open = take_load();
  asio::io_context io;
  std::optional<Moment> stopped;
  std::optional<Loaded> loaded;
  const Alarm alarm(io, *clock_, now() + some_time(), [this, &open, &stopped] {
    if (!open.response->is_released()) {
      stopped = now();
      oracle_.ask_stop(open.number);
    }
  });
  const Moment begin = now();
  std::exception_ptr failure;
  const auto thrown = attempt(fmt::format("co_await loaded() of load {} || timer", open.number),
                              [&] { run_in(io, race(open.response->loaded(), &alarm, &loaded), failure); });
  if (thrown) {
    std::rethrow_exception(thrown);
  }
  if (stopped) {
    check_duration("a cancelled co_await", *stopped, longest(program_) * kCallsWithMemory);
  }
  if (stopped && !loaded && open.loan.is_lent() && !open.response->is_released()) {
    journal_->lie(
        "memory",
        fmt::format("a cancelled co_await of load {} ended before its memory was given back", open.number));
  }
  if (loaded) {
    const auto value = value_of(std::move(*loaded), open);
    open.loan.give_back();
    oracle_.end_load(open.number, value, nullptr, begin);
    return;
  }
  loads_.push_back(std::move(open));
}

/// The pattern of the guide: what is saved lives in the frame, and so does the response.
Awaitable<> Player::save_in_a_frame(std::uint64_t number, Asked asked, bool* is_over) {
  OpenSave open;
  open.number = number;
  open.target = asked.target;
  open.loan = Loan(count_of(open.target), fmt::format("save {}", number));
  fill(open.loan, number, open.target);
  SaveOptions options = options_of(asked, number);
  options.return_when_accepted = true;
  AsyncResponse response = save_async(oracle_.path(open.target),
                                      open.loan.tree(number, count_of(open.target)), options, *context_);
  co_await response.staged();
  open.loan.give_back();
  const SaveResult result = co_await response.committed();
  hear(number, result);
  *is_over = true;
}

void Player::await_frame(bool is_lost) {
  const Asked asked = ask(dice_);
  const std::uint64_t number = oracle_.begin_save(asked);
  ++adrift_;
  const Moment begin = now();
  bool is_over = false;
  std::exception_ptr failure;
  const auto thrown = attempt(
      fmt::format("co_await ({} {} to t{} || timer)", is_lost ? "a frame that is lost, save" : "save", number,
                  asked.target),
      [&] {
        auto io = std::make_unique<asio::io_context>();
        {
          const Alarm alarm(*io, *clock_, now() + some_time(), [this, &io, is_lost, number] {
            oracle_.allow_stop(number);
            if (is_lost) {
              io->stop();
            }
          });
          bool is_first = false;
          run_in(*io, race_to_staged(save_in_a_frame(number, asked, &is_over), &alarm, &is_first), failure);
        }
        io.reset();
      });
  // The frame is cancelled by the thread that begins the save, which first looks at the target: three calls in a row
  // have been slow there.
  check_duration("a frame that was cancelled", begin, longest(program_) * 3 + program_.grace);
  if (thrown) {
    oracle_.end_save(number, thrown, begin);
  } else if (is_over) {
    oracle_.end_save(number, nullptr, begin);
  }
}

}  // namespace cairn::verdicts
