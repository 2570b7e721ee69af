// SPDX-License-Identifier: Apache-2.0
#include "core/lifecycle.hpp"

#include <fmt/format.h>

#include "async/internal/suspend.hpp"
#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"

namespace cairn::core {

bool Lifecycle::stop(Errc reason, std::string_view why) {
  Error words(reason, fmt::format("{}: {}", what_, why));
  const MutexLock lock(mutex_);
  if (phase_ != Phase::running) {
    CAIRN_PROBE("core.stopped_again");
    return false;
  }
  phase_ = Phase::stopping;
  reason_.emplace(std::move(words));
  return true;
}

bool Lifecycle::give_up() noexcept {
  const MutexLock lock(mutex_);
  if (phase_ != Phase::stopping) {
    return false;
  }
  CAIRN_ASSERT(reason_.has_value(), "who is given up was told why before");
  phase_ = Phase::given_up;
  return true;
}

bool Lifecycle::end() noexcept {
  const MutexLock lock(mutex_);
  if (phase_ == Phase::given_up || phase_ == Phase::ended) {
    return false;
  }
  phase_ = Phase::ended;
  return true;
}

Lifecycle::Phase Lifecycle::phase() const {
  const MutexLock lock(mutex_);
  return phase_;
}

bool Lifecycle::is_stopped() const {
  const MutexLock lock(mutex_);
  return reason_.has_value();
}

Error Lifecycle::reason() const {
  const MutexLock lock(mutex_);
  return reason_.value_or(Error(Errc::cancelled, what_));
}

std::exception_ptr Lifecycle::explain(const std::exception_ptr& failure) const {
  return async::is_cancelled(failure) ? std::make_exception_ptr(reason()) : failure;
}

void Lifecycle::answer(const std::exception_ptr& failure) const noexcept {
  prepared_.complete(failure);
  answered_.complete(failure);
  told_.set();
}

}  // namespace cairn::core
