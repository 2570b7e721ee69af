// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace cairn::toolchain {

/// The smallest coroutine that can be awaited: started by `co_await` or `run`, destroyed with its handle.
template <class T>
class Task {
 public:
  struct promise_type {
    std::optional<T> result;
    std::coroutine_handle<> waiter = std::noop_coroutine();

    struct ResumeWaiter {
      bool await_ready() noexcept { return false; }

      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
        return self.promise().waiter;
      }

      void await_resume() noexcept {}
    };

    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }

    std::suspend_always initial_suspend() noexcept { return {}; }

    ResumeWaiter final_suspend() noexcept { return {}; }

    void return_value(T value) { result.emplace(std::move(value)); }

    void unhandled_exception() { std::terminate(); }
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

  Task& operator=(Task&&) = delete;

  ~Task() {
    if (handle_) {
      handle_.destroy();
    }
  }

  bool await_ready() const noexcept { return false; }

  std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiter) noexcept {
    handle_.promise().waiter = waiter;
    return handle_;
  }

  T await_resume() { return std::move(*handle_.promise().result); }

  /// Runs to the end. Nothing here ever suspends for long, so one resume is enough.
  T run() && {
    handle_.resume();
    return await_resume();
  }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
};

}  // namespace cairn::toolchain
