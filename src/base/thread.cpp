// SPDX-License-Identifier: Apache-2.0
#include "base/internal/thread.hpp"

#include <sys/resource.h>
#include <system_error>

#include <utility>

#include <fmt/format.h>
#include <pthread.h>

#include "cairn/base/error.hpp"

#include "base/internal/limits_behind.hpp"

namespace cairn {
namespace {

thread_local bool is_own = false;

}  // namespace

std::thread start_thread(const std::string& name, std::function<void()> body) {
  auto run = [title = name.substr(0, 15), work = std::move(body)]() noexcept {
    is_own = true;
    ::pthread_setname_np(::pthread_self(), title.c_str());
    work();
  };
  try {
    return std::thread(std::move(run));
  } catch (const std::system_error& error) {
    const std::error_code code(error.code().value(), std::system_category());
    throw Error(code, fmt::format("start a thread '{}' ({})", name, limits_of_threads()));
  }
}

bool is_own_thread() noexcept {
  return is_own;
}

void lower_priority(int niceness) noexcept {
  if (niceness > 0) {
    const int now = ::getpriority(PRIO_PROCESS, 0);  // On Linux, of the thread.
    ::setpriority(PRIO_PROCESS, 0, now + niceness);  // The kernel knows the most.
  }
}

}  // namespace cairn
