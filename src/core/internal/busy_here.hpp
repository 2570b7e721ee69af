// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "async/internal/thread_scope.hpp"

namespace cairn::core {

class Services;

/// The calling thread runs the blocking phase of an operation of a context while this lives.
class DrivenHere {
 public:
  explicit DrivenHere(const Services& services) noexcept : scope_(&services) {}

  [[nodiscard]] static bool is_of(const Services& services) noexcept {
    return async::ThreadScope::is_in(&services);
  }

 private:
  const async::ThreadScope scope_;
};

/// The calling thread, one of a context's, runs work of the program that may wait for that context while this lives.
class OffloadedHere {
 public:
  explicit OffloadedHere(const Services& services) noexcept;

  [[nodiscard]] static bool is_of(const Services& services) noexcept;

 private:
  const async::ThreadScope scope_;
};

/// Returns whether the calling thread is one of the context's, or runs the blocking phase of one of its
/// operations: then nothing of that context may be waited for. What was offloaded may.
[[nodiscard]] bool is_busy_here(const Services& services) noexcept;

/// Errors: Errc::invalid_argument, always; `what` as below.
[[noreturn]] void throw_waits_for_itself(std::string_view what);

/// Errors: Errc::invalid_argument when `is_busy_here`; `what` is what was tried: "a load".
void refuse_here(const Services& services, std::string_view what);

}  // namespace cairn::core
