// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cairn {
class Context;
}

namespace cairn::core {

/// Closes a context that is never destroyed, as its destructor would: also on one of its own threads.
void close_at_exit(const Context& context) noexcept;

}  // namespace cairn::core
