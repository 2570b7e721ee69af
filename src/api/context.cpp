// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/context.hpp"

#include "cairn/handlers/builtin.hpp"

namespace cairn {

const Context& default_context() {
  static const Context context;
  return context;
}

RegistrySnapshot handlers_of(const Context& context) {
  context.require_own_process();  // First: in a forked child the lock of a registry may never be free.
  return layer({builtin_handlers(), global_registry().snapshot(), context.options().registry.snapshot()});
}

}  // namespace cairn
