// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/context.hpp"

#include "cairn/handlers/builtin.hpp"

#include "core/internal/close_at_exit.hpp"

namespace cairn {

namespace {

/// Closes the default context when the program ends, as its destructor would.
class CloseAtExit {
 public:
  explicit CloseAtExit(const Context& context) : context_(context) {}
  ~CloseAtExit() { core::close_at_exit(context_); }
  CloseAtExit(const CloseAtExit&) = delete;
  CloseAtExit& operator=(const CloseAtExit&) = delete;

 private:
  const Context& context_;
};

}  // namespace

const Context& default_context() {
  // Never destroyed: destructors of other static objects may still call, and are told that it was closed.
  static const Context& context = *new Context;
  static const CloseAtExit closer(context);
  return context;
}

RegistrySnapshot handlers_of(const Context& context) {
  context.require_own_process();  // First: in a forked child the lock of a registry may never be free.
  return layer({builtin_handlers(), global_registry().snapshot(), context.options().registry.snapshot()});
}

RegistrySnapshot handlers_of(const Context& context, const HandlerRegistry& registry) {
  return layer({handlers_of(context), registry.snapshot()});
}

}  // namespace cairn
