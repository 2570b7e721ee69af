// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cairn::core {

/// Whether the call that starts an operation waits for its end, or only for that of its blocking phase.
enum class Waiting : std::uint8_t { for_staged, for_the_end };

}  // namespace cairn::core
