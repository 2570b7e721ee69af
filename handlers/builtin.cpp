// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/builtin.hpp"

#include <nlohmann/json.hpp>

#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/array_handler.hpp"
#include "cairn/handlers/json.hpp"
#include "cairn/handlers/stateful.hpp"
#include "cairn/handlers/tree_handler.hpp"

namespace cairn {

RegistrySnapshot builtin_handlers() {
  HandlerRegistry registry;
  registry.add<StatefulHandler>().add<JsonHandler>().add<ArrayHandler>().add<TreeHandler>();
  return registry.snapshot();
}

ArrayEntries arrays(const ItemMetadata& item) {
  if (const auto* tree = item.abstract.as<AbstractTree>()) {
    return tree->arrays();
  }
  if (const auto* array = item.abstract.as<AbstractArray>()) {
    return ArrayEntries({{"", array->dtype, array->shape}});
  }
  return {};
}

}  // namespace cairn
