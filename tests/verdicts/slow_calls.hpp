// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "support/slow_calls.hpp"
#include "verdicts/harness_clock.hpp"
#include "verdicts/journal.hpp"

namespace cairn::verdicts {

using testing::CallKind;
using testing::Disturbances;
using testing::Focus;

/// The operating system of a program: some calls are slow by its clock, some fail.
///
/// Calls that belong to a calm folder (see `kCalmFolder`) are as they are in reality. Memory that transfers use is
/// looked at.
/// Threads: every method may be called from any thread.
class SlowCalls final : public testing::SlowCalls {
 public:
  static constexpr const char* kCalmFolder = "/calm";

  /// `journal` is told of what goes wrong.
  SlowCalls(std::shared_ptr<const HarnessClock> clock, std::shared_ptr<Journal> journal, std::uint64_t seed,
            Disturbances disturbances)
      : testing::SlowCalls(seed, disturbances), clock_(std::move(clock)), journal_(std::move(journal)) {}

 private:
  std::int64_t pass(const testing::PassingCall& call) noexcept override;
  void spend(CallKind kind, Duration time) noexcept override;
  [[nodiscard]] bool is_spared(const testing::PassingCall& call) const noexcept override;
  void tell(CallKind kind, const std::string& what) noexcept override;

  void mark(std::int64_t fd, bool is_calm);
  [[nodiscard]] bool is_calm(int fd) const;

  const std::shared_ptr<const HarnessClock> clock_;  // A context may outlive its program.
  const std::shared_ptr<Journal> journal_;
  std::array<std::atomic<bool>, 4096> calm_fds_{};
};

}  // namespace cairn::verdicts
