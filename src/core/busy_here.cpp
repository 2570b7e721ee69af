// SPDX-License-Identifier: Apache-2.0
#include "core/internal/busy_here.hpp"

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "core/services.hpp"

namespace cairn::core {

bool is_busy_here(const Services& services) noexcept {
  return services.threads.runs_this_thread() || DrivenHere::is_of(services);
}

void throw_waits_for_itself(std::string_view what) {
  throw Error(
      Errc::invalid_argument,
      fmt::format("{}: would deadlock: blocking call on one of the context's threads, or in a handler's "
                  "blocking phase",
                  what));
}

void refuse_here(const Services& services, std::string_view what) {
  if (is_busy_here(services)) {
    throw_waits_for_itself(what);
  }
}

}  // namespace cairn::core
