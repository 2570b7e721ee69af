// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/store/reports.hpp"

namespace cairn::store {

/// The time that a manifest gives as `text`, "2026-01-31T12:00:00Z", and nanoseconds of that second; nothing for any
/// other text.
[[nodiscard]] std::optional<CommitTime> parse_commit_time(std::string_view text, std::uint32_t nanoseconds);

}  // namespace cairn::store
