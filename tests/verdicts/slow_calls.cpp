// SPDX-License-Identifier: Apache-2.0
#include "verdicts/slow_calls.hpp"

#include <sys/prctl.h>

#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "verdicts/guarded_memory.hpp"

namespace cairn::verdicts {

void SlowCalls::spend(CallKind kind, Duration time) noexcept {
  clock_->sleep_for(time, fmt::format("a slow {}", name(kind)));
}

void SlowCalls::tell(CallKind kind, const std::string& what) noexcept {
  std::array<char, 17> thread{};
  ::prctl(PR_GET_NAME, thread.data());
  journal_->note(fmt::format("    {} {} ({})", name(kind), what, thread.data()));
}

void SlowCalls::mark(std::int64_t fd, bool is_calm) {
  if (fd >= 0 && static_cast<std::size_t>(fd) < calm_fds_.size()) {
    calm_fds_[static_cast<std::size_t>(fd)] = is_calm;
  }
}

bool SlowCalls::is_calm(int fd) const {
  return fd >= 0 && static_cast<std::size_t>(fd) < calm_fds_.size() &&
         calm_fds_[static_cast<std::size_t>(fd)];
}

bool SlowCalls::is_spared(const testing::PassingCall& call) const noexcept {
  const bool leads_there =
      call.kind == CallKind::open && std::string_view(call.name).find(kCalmFolder) != std::string_view::npos;
  return leads_there || is_calm(call.fd);
}

std::int64_t SlowCalls::pass(const testing::PassingCall& call) noexcept {
  GuardedMemory::the().check_transfer(call.memory, call.bytes);
  const bool is_calm = is_spared(call);
  const std::int64_t result = testing::SlowCalls::pass(call);
  if (call.kind == CallKind::open) {
    mark(result, is_calm);
  }
  GuardedMemory::the().check_transfer(call.memory, call.bytes);
  return result;
}

}  // namespace cairn::verdicts
