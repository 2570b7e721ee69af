// SPDX-License-Identifier: Apache-2.0
#include "cairn/async/suspend.hpp"

#include <atomic>
#include <optional>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

namespace cairn::async {
namespace asio = boost::asio;

namespace {

using Handler = asio::async_result<asio::use_awaitable_t<>, void(std::exception_ptr)>::handler_type;

Executor keep_working(const Executor& executor) {
  return asio::prefer(executor, asio::execution::outstanding_work.tracked);
}

}  // namespace

class Resume::Suspended {
 public:
  explicit Suspended(Handler handler)
      : executor_(keep_working(asio::get_associated_executor(handler))),
        handler_(std::move(handler)) {}

  /// False means: the coroutine is suspended here, and its frame is alive.
  [[nodiscard]] bool has_resumed() const { return resumed_; }

  void resume(std::exception_ptr failure) {
    if (resumed_.exchange(true)) {
      return;
    }
    Executor executor = std::move(executor_);
    asio::post(executor, [handler = std::move(*handler_), failure = std::move(failure)]() mutable {
      std::move(handler)(std::move(failure));
    });
    handler_.reset();
  }

 private:
  std::atomic<bool> resumed_{false};
  Executor executor_;
  std::optional<Handler> handler_;
};

void Resume::operator()(std::exception_ptr failure) const { suspended_->resume(std::move(failure)); }

Awaitable<> suspend(Start start, OnCancel on_cancel) {
  const auto initiate = [](Handler handler, Start begin, OnCancel hook) {
    auto slot = asio::get_associated_cancellation_slot(handler);
    auto suspended = std::make_shared<Resume::Suspended>(std::move(handler));
    if (hook && slot.is_connected()) {
      std::weak_ptr<Resume::Suspended> weak = suspended;
      slot.assign([weak, cancel = std::move(hook)](asio::cancellation_type) {
        if (auto alive = weak.lock(); alive && !alive->has_resumed()) {
          cancel(Resume(std::move(alive)));
        }
      });
    }
    begin(Resume(std::move(suspended)));
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void(std::exception_ptr)>(
      initiate, asio::use_awaitable, std::move(start), std::move(on_cancel));
}

std::exception_ptr cancelled() {
  return std::make_exception_ptr(
      boost::system::system_error(asio::error::operation_aborted, "cancelled"));
}

bool is_cancelled(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const boost::system::system_error& error) {
    return error.code() == asio::error::operation_aborted;
  } catch (const std::system_error& error) {
    return error.code() == std::errc::operation_canceled;
  } catch (...) {
    return false;
  }
}

Awaitable<bool> cancellation_requested() {
  const asio::cancellation_state state = co_await asio::this_coro::cancellation_state;
  co_return state.cancelled() != asio::cancellation_type::none;
}

}  // namespace cairn::async
