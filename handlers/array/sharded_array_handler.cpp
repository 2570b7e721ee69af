// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/stored_slices.hpp"
#include "cairn/base/error.hpp"
#include "cairn/handlers/sharded_array.hpp"
#include "cairn/handlers/tree_handler.hpp"
#include "cairn/sharding/sharding.hpp"

namespace cairn {
namespace {

[[noreturn]] void refuse_kind_of_root(const std::string& name, TreeKind kind) {
  throw Error(
      Errc::type_mismatch,
      fmt::format("'{}': stored is a tree whose root is of kind {}, not one array", name, cairn::name(kind)));
}

/// Returns what a checkpoint says of its array: the boxes that are stored, and how it was divided.
AbstractShardedArray stored_form(const AbstractArray& array, const std::string& name) {
  AbstractShardedArray form(array.shape, array.dtype);
  form.stored = array.stored;
  if (array.stored == nullptr) {
    return form.want(Box::whole(array.shape));
  }
  for (std::size_t i = 0; i < array.stored->size(); ++i) {
    form.want(array.stored->box(i));
  }
  if (!array.stored->layout().empty()) {
    form.layout = std::make_shared<const Sharding>(Sharding::from_json(array.stored->layout(), name));
  }
  return form;
}

Awaitable<AbstractShardedArray> read_stored_form(LoadContext context) {
  const TreeHandler trees;
  const std::string name = context.name();
  const AbstractTree tree = co_await trees.metadata(std::move(context));
  if (tree.kind() != TreeKind::array) {
    refuse_kind_of_root(name, tree.kind());
  }
  co_return stored_form(tree.at("").as_array(), name);
}

Awaitable<Background<>> save_shards(SaveContext context, ShardedArray array) {
  const TreeHandler trees;
  const Tree tree = std::move(array);
  co_return co_await trees.save(std::move(context), tree);
}

Background<ShardedArray> read_shards(LoadContext context, std::optional<AbstractShardedArray> wanted) {
  if (!wanted) {
    wanted = co_await read_stored_form(context);
  }
  const TreeHandler trees;
  const std::string name = context.name();
  std::optional<AbstractTree> form(std::move(*wanted));
  Background<Tree> background = co_await trees.load(std::move(context), std::move(form));
  const Tree tree = co_await std::move(background);
  if (tree.sharded_array_if() == nullptr) {
    refuse_kind_of_root(name, tree.kind());
  }
  co_return tree.as<ShardedArray>();
}

}  // namespace

// outlives: copied before the first suspension; copies of a ShardedArray share its elements.
Awaitable<Background<>> ShardedArrayHandler::save(SaveContext context, const ShardedArray& value) const {
  return save_shards(std::move(context), value);
}

Awaitable<Background<ShardedArray>> ShardedArrayHandler::load(
    LoadContext context, std::optional<AbstractShardedArray> wanted) const {
  co_return read_shards(std::move(context), std::move(wanted));
}

Awaitable<AbstractShardedArray> ShardedArrayHandler::metadata(LoadContext context) const {
  return read_stored_form(std::move(context));
}

Description ShardedArrayHandler::describe(const AbstractShardedArray& stored) const {
  Description description = TreeHandler().describe(AbstractTree(stored));
  description.kind = "sharded array";
  return description;
}

}  // namespace cairn
