// SPDX-License-Identifier: Apache-2.0
#include "core/internal/busy_here.hpp"

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "core/services.hpp"

namespace cairn::core {

OffloadedHere::OffloadedHere(const Services& services) noexcept : scope_(&services.threads) {}

bool OffloadedHere::is_of(const Services& services) noexcept {
  return async::ThreadScope::is_in(&services.threads);
}

bool is_busy_here(const Services& services) noexcept {
  return DrivenHere::is_of(services) ||
         (services.threads.runs_this_thread() && !OffloadedHere::is_of(services));
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
