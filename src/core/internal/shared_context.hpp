// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cairn/core/context.hpp"

namespace cairn::core {

/// Returns a context that has all that `context` has, for objects which may outlive that: static objects of a program
/// that exit() destroys in whichever order. Its destructor closes nothing. Once `context` has ended, it is closed.
[[nodiscard]] Context shared_context(const Context& context) noexcept;

}  // namespace cairn::core
