// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cairn/contract/registry.hpp"
#include "cairn/core/context.hpp"

namespace cairn {

/// The context of programs that make none of their own: automatic engine, a quarter of the memory that it may have as
/// byte budget. Made at its first use, and never destroyed: at the end of the program it is closed, which waits for
/// saves in flight; calls that come later fail with Errc::closed. A forked child gets one of its own at its first use
/// there; references to that of the parent stay its parent's.
const Context& default_context();

/// Returns what a save or load sees: the built-in handlers, over them the global registry as it is now, over
/// that the registry of the context.
///
/// Errors: Errc::closed in a process that was forked from the context's.
[[nodiscard]] RegistrySnapshot handlers_of(const Context& context);
/// The same, and on top the registry that the options of a call have.
[[nodiscard]] RegistrySnapshot handlers_of(const Context& context, const HandlerRegistry& registry);

}  // namespace cairn
