// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/context.hpp"

#include "cairn/handlers/builtin.hpp"

namespace cairn {

namespace {

/// Closes the default context when the program ends, as its destructor would.
class CloseAtExit {
 public:
  explicit CloseAtExit(Context& context) : context_(context) {}
  ~CloseAtExit() {
    try {
      context_.close();
    } catch (...) {  // Lost failures were reported to nobody: there is no `on_lost_failure`.
    }
  }
  CloseAtExit(const CloseAtExit&) = delete;
  CloseAtExit& operator=(const CloseAtExit&) = delete;

 private:
  Context& context_;
};

}  // namespace

const Context& default_context() {
  // Never destroyed: destructors of other static objects may still call, and are told that it was closed.
  static Context& context = *new Context;
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
