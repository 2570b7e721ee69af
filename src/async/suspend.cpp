// SPDX-License-Identifier: Apache-2.0
#include "async/internal/suspend.hpp"

#include <system_error>

#include <list>
#include <optional>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include "base/internal/mutex.hpp"

namespace cairn::async {
namespace asio = boost::asio;

namespace {

using Handler = asio::async_result<asio::use_awaitable_t<>, void(std::exception_ptr)>::handler_type;

/// Posts to `executor`, and keeps its context at work.
Executor keep_working(const Executor& executor) {
  return asio::prefer(asio::require(executor, asio::execution::blocking.never),
                      asio::execution::outstanding_work.tracked);
}

}  // namespace

/// Every coroutine of one execution context (a pool, an io_context) that is suspended in `suspend`.
///
/// A `Resume` may outlive the context: an event or a budget holds it. The context destroys what is still
/// suspended when it goes, as Asio does for its own operations; a later call then finds nothing to resume.
class Resume::Registry {
 public:
  /// The registry of the context that `executor` belongs to.
  static std::shared_ptr<Registry> of(const Executor& executor);

  void add(Suspended* suspended);
  [[nodiscard]] bool contains(const Suspended& suspended);

  /// Takes `suspended` out. Returns false when somebody has done so before; otherwise the context stays alive
  /// until `leave` is called.
  [[nodiscard]] bool enter(Suspended* suspended);
  void leave();

  /// Destroys all coroutines that are suspended, after those that are being resumed have been.
  void destroy_all();

 private:
  class Service;

  Mutex mutex_;  // Protects `Suspended::place_`, too.
  Condition nobody_inside_;
  std::size_t inside_ CAIRN_GUARDED_BY(mutex_) = 0;
  std::list<Suspended*> suspended_ CAIRN_GUARDED_BY(mutex_);
};

class Resume::Suspended {
 public:
  explicit Suspended(Handler handler)
      : executor_(keep_working(asio::get_associated_executor(handler))),
        handler_(std::move(handler)),
        registry_(Registry::of(executor_)) {
    registry_->add(this);
  }

  ~Suspended() {
    if (registry_->enter(this)) {
      abandon();
      registry_->leave();
    }
  }

  Suspended(const Suspended&) = delete;
  Suspended& operator=(const Suspended&) = delete;

  /// False means: the coroutine is suspended here, and its frame is alive.
  [[nodiscard]] bool has_resumed() const { return !registry_->contains(*this); }

  void resume(std::exception_ptr failure) {
    if (!registry_->enter(this)) {
      return;
    }
    executor_.execute([handler = std::move(*handler_), failure = std::move(failure)]() mutable {
      std::move(handler)(std::move(failure));
    });
    abandon();
    registry_->leave();
  }

 private:
  friend class Registry;

  /// Destroys the coroutine, on its executor, when it is still here.
  void abandon() {
    handler_.reset();
    executor_ = nullptr;  // After the handler, which posts to it: the context may end its run now.
  }

  Executor executor_;
  std::optional<Handler> handler_;
  const std::shared_ptr<Registry> registry_;
  std::optional<std::list<Suspended*>::iterator> place_;  // Empty once somebody has entered.
};

class Resume::Registry::Service final : public asio::execution_context::service {
 public:
  static inline asio::execution_context::id id;

  explicit Service(asio::execution_context& context) : service(context) {}

  const std::shared_ptr<Registry> registry = std::make_shared<Registry>();

 private:
  void shutdown() override { registry->destroy_all(); }
};

std::shared_ptr<Resume::Registry> Resume::Registry::of(const Executor& executor) {
  asio::execution_context& context = asio::query(executor, asio::execution::context);
  return asio::use_service<Service>(context).registry;
}

void Resume::Registry::add(Suspended* suspended) {
  const MutexLock lock(mutex_);
  suspended->place_ = suspended_.insert(suspended_.end(), suspended);
}

bool Resume::Registry::contains(const Suspended& suspended) {
  const MutexLock lock(mutex_);
  return suspended.place_.has_value();
}

bool Resume::Registry::enter(Suspended* suspended) {
  const MutexLock lock(mutex_);
  if (!suspended->place_) {
    return false;
  }
  suspended_.erase(*std::exchange(suspended->place_, std::nullopt));
  ++inside_;
  return true;
}

void Resume::Registry::leave() {
  const MutexLock lock(mutex_);
  if (--inside_ == 0) {
    nobody_inside_.notify_all();
  }
}

void Resume::Registry::destroy_all() {
  MutexLock lock(mutex_);
  while (!suspended_.empty()) {
    Suspended* suspended = suspended_.front();
    suspended_.pop_front();
    suspended->place_.reset();
    // Moved out under the lock: once it is given up, `suspended` itself may go away at any moment.
    Executor executor = std::move(suspended->executor_);
    std::optional<Handler> handler = std::exchange(suspended->handler_, std::nullopt);
    lock.unlock();
    handler.reset();
    executor = nullptr;
    lock.lock();
  }
  nobody_inside_.wait(lock, [this]() CAIRN_REQUIRES(mutex_) { return inside_ == 0; });
}

void Resume::operator()(std::exception_ptr failure) const noexcept {
  suspended_->resume(std::move(failure));
}

Awaitable<> suspend(Start start, OnCancel on_cancel) noexcept {
  // Called when the coroutine is suspended already: of what goes wrong nobody but it can be told.
  const auto initiate = [](Handler handler, Start begin, OnCancel hook) noexcept {
    auto slot = asio::get_associated_cancellation_slot(handler);
    const auto suspended = std::make_shared<Resume::Suspended>(std::move(handler));
    if (hook && slot.is_connected()) {
      std::weak_ptr<Resume::Suspended> weak = suspended;
      slot.assign([weak, cancel = std::move(hook)](asio::cancellation_type) {
        if (auto alive = weak.lock(); alive && !alive->has_resumed()) {
          cancel(Resume(std::move(alive)));
        }
      });
    }
    try {
      begin(Resume(suspended));
    } catch (...) {
      suspended->resume(std::current_exception());
    }
  };
  return asio::async_initiate<const asio::use_awaitable_t<>, void(std::exception_ptr)>(
      initiate, asio::use_awaitable, std::move(start), std::move(on_cancel));
}

std::exception_ptr cancelled() {
  return std::make_exception_ptr(boost::system::system_error(asio::error::operation_aborted, "cancelled"));
}

bool is_cancelled(const std::exception_ptr& failure) {
  if (!failure) {
    return false;
  }
  try {
    std::rethrow_exception(failure);
  } catch (const boost::system::system_error& error) {
    return error.code() == asio::error::operation_aborted;
  } catch (const std::system_error& error) {
    // ECANCELED from the operating system is a failure like any other.
    return error.code() == std::errc::operation_canceled && error.code().category() != std::system_category();
  } catch (...) {
    return false;
  }
}

Awaitable<bool> cancellation_requested() {
  const asio::cancellation_state state = co_await asio::this_coro::cancellation_state;
  co_return state.cancelled() != asio::cancellation_type::none;
}

}  // namespace cairn::async
