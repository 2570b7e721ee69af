// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "store/internal/manifest.hpp"

namespace cairn::store {

/// "2026-01-31T12:00:00Z"; parts of a second are left out.
[[nodiscard]] std::string utc(std::chrono::system_clock::time_point time);

/// Says in a manifest when the save of its checkpoint began, and when it is committed.
void set_started(Manifest& manifest, std::chrono::system_clock::time_point time);
void set_committed(Manifest& manifest, std::chrono::system_clock::time_point time);

}  // namespace cairn::store
