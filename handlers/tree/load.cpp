// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/async/when_all.hpp"
#include "cairn/formats/index.hpp"
#include "cairn/handlers/array_options.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "files.hpp"
#include "load_plan.hpp"

namespace cairn {
namespace {

Awaitable<Tree> read(LoadContext context, std::optional<AbstractTree> wanted) {
  const formats::Index index = co_await detail::open_index(context);
  const TreeLoadOptions* given = context.option<TreeLoadOptions>();
  const TreeLoadOptions options = given ? *given : TreeLoadOptions();
  detail::LoadPlan plan;
  detail::LoadSurroundings surroundings;
  surroundings.file_bytes = [&context](std::string_view file) { return context.file_bytes(file); };
  surroundings.copier_of = [&context](Device device) { return context.copier(device); };
  surroundings.map_file = [&context](std::string_view file) { return context.map_file(file); };
  std::function<void()> make_plan = [&] {
    if (wanted) {
      wanted->materialise();
    }
    plan = detail::plan_load(index, wanted ? &*wanted : nullptr, options, surroundings);
  };
  co_await context.run(std::move(make_plan));
  std::vector<Awaitable<>> tasks;
  for (auto& [file, pieces] : plan.pieces) {
    tasks.push_back(context.read_pieces(file, std::move(pieces)));
  }
  Tree tree;
  std::function<void()> assemble = [&] { tree = std::exchange(plan.assemble, {})(); };
  tasks.push_back(context.run(std::move(assemble)));  // While the disk works.
  co_await async::when_all(std::move(tasks));
  co_return std::move(tree);
}

Awaitable<AbstractTree> describe(LoadContext context) {
  formats::Index index = co_await detail::open_index(std::move(context));
  co_return AbstractTree(std::move(index));
}

}  // namespace

Awaitable<Background<Tree>> TreeHandler::load(LoadContext context, std::optional<AbstractTree> wanted) const {
  co_return read(std::move(context), std::move(wanted));
}

Awaitable<AbstractTree> TreeHandler::metadata(LoadContext context) const {
  return describe(std::move(context));
}

bool TreeHandler::recognises(std::span<const std::string> files) const {
  return std::any_of(files.begin(), files.end(),
                     [](const std::string& file) { return detail::is_safetensors(file); });
}

}  // namespace cairn
