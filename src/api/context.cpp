// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/context.hpp"

#include <cstdlib>
#include <memory>

#include "cairn/handlers/builtin.hpp"

#include "base/internal/per_process.hpp"
#include "core/internal/close_at_exit.hpp"

namespace cairn {

namespace {

constinit PerProcess<Context> default_contexts;

/// Closes the default context when its process ends, as its destructor would.
void close_default() {
  if (const Context* context = default_contexts.find()) {
    core::close_at_exit(*context);
  }
}

}  // namespace

const Context& default_context() {
  // Never destroyed: destructors of other static objects may still call, and are told that it was closed.
  return default_contexts.get([] {
    auto made = std::make_unique<Context>();
    std::atexit(close_default);
    return made;
  });
}

RegistrySnapshot handlers_of(const Context& context) {
  context
      .require_own_process();  // First: in a forked child the lock of the context's registry may never be free.
  return layer({builtin_handlers(), global_registry().snapshot(), context.options().registry.snapshot()});
}

RegistrySnapshot handlers_of(const Context& context, const HandlerRegistry& registry) {
  return layer({handlers_of(context), registry.snapshot()});
}

}  // namespace cairn
