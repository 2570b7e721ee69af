// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "cairn/async/awaitable.hpp"

#include "async/internal/suspend.hpp"

namespace cairn::async {

/// Takes one value from one thread to another.
template <class T>
class Mailbox {
 public:
  void put(T value) {
    const std::lock_guard lock(mutex_);
    value_.emplace(std::move(value));
    condition_.notify_all();
  }

  T take() {
    std::unique_lock lock(mutex_);
    condition_.wait(lock, [this] { return value_.has_value(); });
    T value = std::move(*value_);
    value_.reset();
    return value;
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  std::optional<T> value_;
};

/// Lives as long as the coroutine frame that holds it: `std::weak_ptr<Token>` tells when the frame has gone.
using Token = std::shared_ptr<int>;

inline Token make_token() {
  return std::make_shared<int>(0);
}

/// Suspends and puts the handle into `handles`, which must stay valid until then.
inline Awaitable<> park(Mailbox<Resume>* handles, Token /*token*/ = nullptr, OnCancel on_cancel = nullptr) {
  Start start = [handles](Resume resume) { handles->put(std::move(resume)); };
  co_await suspend(std::move(start), std::move(on_cancel));
}

}  // namespace cairn::async
