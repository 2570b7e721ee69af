// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/formats/index_builder.hpp"
#include "cairn/handlers/array_files.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "containers.hpp"
#include "divide.hpp"

namespace cairn {
namespace {

void add_scalar(formats::IndexBuilder& builder, std::string_view path, const Tree& leaf) {
  switch (leaf.kind()) {
    case TreeKind::null:
      return builder.add_null(path);
    case TreeKind::boolean:
      return builder.add_bool(path, leaf.as<bool>());
    case TreeKind::floating:
      return builder.add_double(path, leaf.as<double>());
    case TreeKind::string:
      return builder.add_string(path, leaf.as<std::string_view>());
    case TreeKind::bytes:
      return builder.add_bytes(path, leaf.as<Bytes>());
    case TreeKind::map:
      return builder.add_empty_map(path);
    case TreeKind::list:
      return builder.add_list(path, leaf.size());
    case TreeKind::integer:
      if (const auto value = leaf.large_integer()) {
        builder.add_unsigned(path, *value);
      } else {
        builder.add_integer(path, leaf.as<std::int64_t>());
      }
      return;
    case TreeKind::array:
    case TreeKind::sharded_array:
      return;
  }
}

/// Walks the tree once: each array is looked at while it is in the caches. Returns those that are to be divided: sharded
/// ones, and with a policy all.
std::vector<detail::HeldArray> add_leaves(array_store::Writer& writer, const Tree& tree, bool has_policy) {
  std::vector<detail::HeldArray> divided;
  const auto add = [&](std::string_view path, const Tree& leaf) {
    const Array* array = leaf.array_if();
    const ShardedArray* sharded = leaf.sharded_array_if();
    if (sharded != nullptr || (array != nullptr && has_policy)) {
      divided.push_back({std::string(path), array, sharded});
    } else if (array != nullptr) {
      writer.add(path, *array);
    } else {
      add_scalar(writer.entries(), path, leaf);
    }
  };
  std::string path;
  detail::TreeAccess::visit(tree, path, 0, add);
  return divided;
}

}  // namespace

// outlives: `value` is valid during this phase; what is kept of it, pieces own or the caller promised
Awaitable<Background<>> TreeHandler::save(SaveContext context, const Tree& value) const {
  array_store::Writer writer = array_writer(context);
  const ShardingOptions* sharding = context.option<ShardingOptions>();
  const bool has_policy = sharding != nullptr && sharding->policy != nullptr;
  const std::vector<detail::HeldArray> divided = add_leaves(writer, value, has_policy);
  if (!divided.empty()) {
    detail::add_divided(writer, divided, context);
  }
  co_return co_await write_arrays(std::move(context), std::move(writer));
}

}  // namespace cairn
