// SPDX-License-Identifier: Apache-2.0
#include "cli/partial_load.hpp"

#include <utility>

#include "cairn/api/load.hpp"
#include "cairn/formats/index.hpp"
#include "cairn/handlers/tree_handler.hpp"

namespace cairn::cli {

void PartialLoad::want(std::string_view path, AbstractTree node) {
  AbstractTree* at = &wanted_;
  for (const std::string& key : formats::split_path(path)) {
    at = &(*at)[key];
  }
  *at = std::move(node);
}

LoadResponse PartialLoad::start(const std::filesystem::path& source, const std::string& item) {
  TreeLoadOptions some;
  some.partial = true;
  LoadOptions options;
  options.handler_options.set(some);
  return load_checkpointables_async(source, {Request(item, std::move(wanted_))}, options);
}

}  // namespace cairn::cli
