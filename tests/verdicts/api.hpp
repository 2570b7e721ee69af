// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <concepts>

#include "cairn/cairn.hpp"

// What the stage asks of responses; falls back to the nearest thing where the library does not have it.
namespace cairn::verdicts {

template <class Response>
[[nodiscard]] bool is_released(const Response& response) {
  if constexpr (requires { response.is_released(); }) {
    return response.is_released();
  } else {
    return response.is_done();
  }
}

template <class Response>
void wait_released(const Response& response) {
  if constexpr (requires { response.wait_released(); }) {
    response.wait_released();
  } else {
    static_cast<void>(response);
  }
}

/// Whether the destructor of a response waits until the memory of the caller is his again.
template <class Response>
inline constexpr bool kWaitsWhenDropped = requires(const Response& response) {
  response.is_released();
};

template <class Code>
[[nodiscard]] constexpr Code still_running() {
  if constexpr (requires { Code::still_running; }) {
    return Code::still_running;
  } else {
    return Code::timed_out;
  }
}

template <class Options>
void set_grace(Options& options, std::chrono::nanoseconds grace) {
  if constexpr (requires { options.stop_grace = grace; }) {
    options.stop_grace = grace;
  }
}

}  // namespace cairn::verdicts
