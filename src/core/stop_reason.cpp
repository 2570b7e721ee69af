// SPDX-License-Identifier: Apache-2.0
#include "core/stop_reason.hpp"

#include <fmt/format.h>

#include "async/internal/suspend.hpp"
#include "base/internal/probe.hpp"

namespace cairn::core {

bool StopReason::set(Errc reason, std::string_view why) {
  const MutexLock lock(mutex_);
  if (reason_) {
    CAIRN_PROBE("core.stopped_again");
    return false;
  }
  reason_.emplace(reason, fmt::format("{}: {}", what_, why));
  return true;
}

bool StopReason::is_set() const {
  const MutexLock lock(mutex_);
  return reason_.has_value();
}

Error StopReason::error() const {
  const MutexLock lock(mutex_);
  return reason_.value_or(Error(Errc::cancelled, what_));
}

std::exception_ptr StopReason::explain(const std::exception_ptr& failure) const {
  return async::is_cancelled(failure) ? std::make_exception_ptr(error()) : failure;
}

}  // namespace cairn::core
