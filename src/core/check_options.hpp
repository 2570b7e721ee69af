// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cairn/core/context.hpp"
#include "cairn/core/save.hpp"

namespace cairn::core {

/// Refuses options that have no meaning, before anything is done with them.
///
/// Errors: Errc::invalid_argument, naming the option.
void check_options(const ContextOptions& options);
void check_options(const SaveOptions& options);

}  // namespace cairn::core
