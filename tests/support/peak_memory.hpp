// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

namespace cairn::testing {

/// Why peaks of memory cannot be measured here, because the build adds memory of its own; empty when they can.
const char* why_no_peak_memory();

/// Runs `work` in a forked process. Returns by how many bytes its resident memory has grown at most, or nothing when
/// it failed (it says why on stderr) or was killed.
std::optional<std::size_t> peak_growth(const std::function<void()>& work);

}  // namespace cairn::testing
