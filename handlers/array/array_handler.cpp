// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/handlers/tree_handler.hpp"

namespace cairn {
namespace {

[[noreturn]] void refuse(const std::string& name, TreeKind kind) {
  throw Error(
      Errc::type_mismatch,
      fmt::format("'{}': stored is a tree whose root is of kind {}, not one array", name, cairn::name(kind)));
}

Awaitable<Background<>> save_tree(SaveContext context, Array array) {
  const TreeHandler trees;
  const Tree tree = std::move(array);
  co_return co_await trees.save(std::move(context), tree);
}

Background<Array> read(LoadContext context, std::optional<AbstractTree> wanted) {
  const TreeHandler trees;
  const std::string name = context.name();
  Background<Tree> background = co_await trees.load(std::move(context), std::move(wanted));
  const Tree tree = co_await std::move(background);
  if (!tree.is_array()) {
    refuse(name, tree.kind());
  }
  co_return tree.as<Array>();
}

Awaitable<AbstractArray> read_metadata(LoadContext context) {
  const TreeHandler trees;
  const std::string name = context.name();
  const AbstractTree tree = co_await trees.metadata(std::move(context));
  if (tree.kind() != TreeKind::array) {
    refuse(name, tree.kind());
  }
  co_return tree.at("").as_array();
}

}  // namespace

// outlives: copied before the first suspension; copies of an Array share its elements.
Awaitable<Background<>> ArrayHandler::save(SaveContext context, const Array& value) const {
  return save_tree(std::move(context), value);
}

Awaitable<Background<Array>> ArrayHandler::load(LoadContext context,
                                                std::optional<AbstractArray> wanted) const {
  std::optional<AbstractTree> tree;
  if (wanted) {
    tree.emplace(std::move(*wanted));
  }
  co_return read(std::move(context), std::move(tree));
}

Awaitable<AbstractArray> ArrayHandler::metadata(LoadContext context) const {
  return read_metadata(std::move(context));
}

Description ArrayHandler::describe(const AbstractArray& stored) const {
  Description description = TreeHandler().describe(AbstractTree(stored));
  description.kind = "array";
  return description;
}

}  // namespace cairn
