// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/builtin.hpp"

#include <nlohmann/json.hpp>

#include "cairn/handlers/json.hpp"
#include "cairn/handlers/sharded_array.hpp"
#include "cairn/handlers/tree_handler.hpp"

namespace cairn {

RegistrySnapshot builtin_handlers() {
  RegistrationOptions of_trees;
  of_trees.aliases.emplace_back(kStateDictId);  // Whose own handler comes later, where a program has it.
  HandlerRegistry registry;
  registry.add<StatefulHandler>()
      .add<JsonHandler>()
      .add<ArrayHandler>()
      .add<ShardedArrayHandler>()
      .add<TreeHandler>(of_trees);
  return registry.snapshot();
}

}  // namespace cairn
