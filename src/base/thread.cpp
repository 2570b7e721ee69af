// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/thread.hpp"

#include <system_error>

#include <utility>

#include <fmt/format.h>
#include <pthread.h>

#include "cairn/base/error.hpp"

namespace cairn {

std::thread start_thread(const std::string& name, std::function<void()> body) {
  auto run = [title = name.substr(0, 15), work = std::move(body)]() noexcept {
    ::pthread_setname_np(::pthread_self(), title.c_str());
    work();
  };
  try {
    return std::thread(std::move(run));
  } catch (const std::system_error& error) {
    const std::error_code code(error.code().value(), std::system_category());
    throw Error(code, fmt::format("start a thread '{}'", name));
  }
}

}  // namespace cairn
