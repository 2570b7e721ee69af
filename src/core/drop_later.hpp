// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "core/services.hpp"

namespace cairn::core {

/// Destroys `thing` on a thread for system calls that block: to close a file may take as long as the disk likes, and
/// the last reference is often dropped by somebody who must not wait for that.
template <class T>
void drop_later(const std::shared_ptr<Services>& services, T thing) noexcept {
  if (!services->is_own_process()) {
    return;  // Here and now: a forked child has no other threads.
  }
  auto held = std::make_shared<T>(std::move(thing));
  services->threads.calls.submit([services, held = std::move(held)]() mutable { held.reset(); });
}

}  // namespace cairn::core
