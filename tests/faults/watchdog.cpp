// SPDX-License-Identifier: Apache-2.0
#include "faults/watchdog.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace cairn::faults {
namespace {

constexpr std::chrono::seconds kLimit{120};

/// Its thread runs until the program ends.
class Dog {
 public:
  Dog() : end_(std::set_terminate([] { Dog::the().die("ended the program"); })) {
    std::thread([this] { run(); }).detach();
  }

  static Dog& the() {
    static Dog& dog = *new Dog;
    return dog;
  }

  void watch(std::string title) {
    const std::lock_guard lock(mutex_);
    title_ = std::move(title);
    deadline_ = std::chrono::steady_clock::now() + kLimit;
    is_watching_ = true;
    changed_.notify_all();
  }

  void leave() {
    const std::lock_guard lock(mutex_);
    is_watching_ = false;
    changed_.notify_all();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return is_watching_; });
      const auto deadline = deadline_;
      const bool is_over =
          changed_.wait_until(lock, deadline, [&] { return !is_watching_ || deadline_ != deadline; });
      if (!is_over) {
        die("hung");
      }
    }
  }

  [[noreturn]] void die(const char* how) {
    std::fprintf(stderr, "faults: %s: %s\n", title_.c_str(), how);
    end_ != nullptr ? end_() : std::abort();
    std::abort();
  }

  std::terminate_handler end_;
  std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  std::string title_;
  std::chrono::steady_clock::time_point deadline_;
  bool is_watching_ = false;
};

}  // namespace

Watchdog::Watch::Watch(std::string title) {
  Dog::the().watch(std::move(title));
}

Watchdog::Watch::~Watch() {
  Dog::the().leave();
}

}  // namespace cairn::faults
