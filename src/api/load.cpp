// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/load.hpp"

#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/contract/checkpointable.hpp"
#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/into.hpp"

#include "api/check_destinations.hpp"
#include "array/internal/overlap.hpp"
#include "core/internal/start.hpp"
#include "store/internal/source.hpp"

namespace cairn {
namespace {

/// Adds the memory that one request names, which has that number. Two names of one array may have the same: the
/// handler knows which are.
void add_destinations(const Request& request, std::uint64_t number, std::vector<Destination>& destinations) {
  const auto add = [&](std::string_view path, const AbstractArray& array) {
    if (array.destination) {
      const std::string name = path.empty() ? request.name() : fmt::format("{}/{}", request.name(), path);
      destinations.emplace_back(fmt::format("'{}'", name), array.destination->view(), number);
    }
  };
  const auto add_shards = [&](std::string_view path, const AbstractShardedArray& array) {
    for (const WantedShard& shard : array.shards) {
      AbstractArray one;
      one.destination = shard.destination;
      add(path, one);
    }
  };
  if (const auto* array = request.wanted().as<AbstractArray>()) {
    add("", *array);
  } else if (const auto* sharded = request.wanted().as<AbstractShardedArray>()) {
    add_shards("", *sharded);
  } else if (const auto* tree = request.wanted().as<AbstractTree>(); tree != nullptr && !tree->is_view()) {
    visit_leaves(*tree, [&](std::string_view path, const AbstractTree& leaf) {
      if (leaf.kind() == TreeKind::array) {
        add(path, leaf.as_array());
      } else if (leaf.kind() == TreeKind::sharded_array) {
        add_shards(path, leaf.as_sharded_array());
      }
    });
  }
}

/// The object that a request loads into; null when it names none.
const void* object_of(const Request& request) {
  if (const auto* reference = request.wanted().as<StatefulReference>()) {
    return reference->object();
  }
  const auto* tree = request.wanted().as<AbstractTree>();
  const std::shared_ptr<TreeTarget> target = tree != nullptr ? tree->target() : nullptr;
  return target ? target->object() : nullptr;
}

Awaitable<Tree> take_state(Awaitable<Loaded> all) {
  Loaded loaded = co_await std::move(all);
  co_return loaded.take<Tree>(store::kStateName);
}

Awaitable<LoadResult> result_of(Awaitable<Loaded> all) {
  const Loaded loaded = co_await std::move(all);
  co_return loaded.result();
}

AbstractTree state_of(const CheckpointMetadata& metadata) {
  const ItemMetadata& state = metadata.at(store::kStateName);
  try {
    return state.as<AbstractTree>();
  } catch (const Error&) {
    if (state.problem_code) {
      throw;  // It names them.
    }
    std::rethrow_exception(with_context(
        std::current_exception(), fmt::format("'{}' of {}", store::kStateName, metadata.path.string())));
  }
}

Awaitable<AbstractTree> describe_state(Awaitable<CheckpointMetadata> all) {
  const CheckpointMetadata metadata = co_await std::move(all);
  co_return state_of(metadata);
}

LoadOptions objects_only(LoadOptions options) {
  options.handler_options.set(ObjectsOnly());
  return options;
}

Requests state_request(std::optional<AbstractTree> wanted) {
  Requests requests;
  if (wanted) {
    requests.emplace_back(store::kStateName, std::move(*wanted));
  } else {
    requests.emplace_back(store::kStateName);
  }
  return requests;
}

}  // namespace

void check_destinations(const Requests& requests) {
  if (requests.size() < 2) {
    return;
  }
  std::vector<Destination> destinations;
  std::map<const void*, std::string_view> objects;
  std::uint64_t number = 0;
  for (const Request& request : requests) {
    add_destinations(request, ++number, destinations);
    const void* object = object_of(request);
    if (object == nullptr) {
      continue;
    }
    const auto [other, is_first] = objects.try_emplace(object, request.name());
    if (!is_first) {
      throw Error(Errc::invalid_argument, fmt::format("'{}' and '{}' are to be loaded into one object",
                                                      other->second, request.name()));
    }
  }
  check_disjoint(destinations);
}

namespace {

/// The handlers of a load whose requests do not contradict each other.
RegistrySnapshot prepare(const std::filesystem::path& path, const Requests& requests,
                         const LoadOptions& options, const Context& context) {
  try {
    check_destinations(requests);
    return handlers_of(context, options.registry);
  } catch (...) {
    core::tell_refusal(path, options, context);
    throw;
  }
}

}  // namespace

LoadResponse load_checkpointables_async(const std::filesystem::path& path, const Requests& requests,
                                        const LoadOptions& options, const Context& context) {
  return core::start_load(path, requests, prepare(path, requests, options, context), options, context);
}

Loaded load_checkpointables(const std::filesystem::path& path, const Requests& requests,
                            const LoadOptions& options, const Context& context) {
  return core::start_load(path, requests, prepare(path, requests, options, context), options, context,
                          core::Waiting::for_the_end)
      .wait();
}

std::string detail::state_name() {
  return store::kStateName;
}

LoadResult detail::load_state(const std::filesystem::path& path, Request request, const LoadOptions& options,
                              const Context& context) {
  return load_checkpointables(path, {std::move(request)}, objects_only(options), context).result();
}

LoadIntoResponse detail::load_state_async(const std::filesystem::path& path, Request request,
                                          const LoadOptions& options, const Context& context) {
  return LoadIntoResponse(
      load_checkpointables_async(path, {std::move(request)}, objects_only(options), context));
}

LoadResult LoadIntoResponse::wait() const {
  return LoadResponse::wait().result();
}

LoadResult LoadIntoResponse::wait(Timeout timeout) const {
  return LoadResponse::wait(timeout).result();
}

Awaitable<LoadResult> LoadIntoResponse::loaded() const {
  return result_of(LoadResponse::loaded());
}

Tree TreeResponse::wait() const {
  return LoadResponse::wait().take<Tree>(store::kStateName);
}

Tree TreeResponse::wait(Timeout timeout) const {
  return LoadResponse::wait(timeout).take<Tree>(store::kStateName);
}

Awaitable<Tree> TreeResponse::loaded() const {
  return take_state(LoadResponse::loaded());
}

TreeResponse load_async(const std::filesystem::path& path, std::optional<AbstractTree> wanted,
                        const LoadOptions& options, const Context& context) {
  return TreeResponse(load_checkpointables_async(path, state_request(std::move(wanted)), options, context));
}

Tree load(const std::filesystem::path& path, const LoadOptions& options, const Context& context) {
  return load_checkpointables(path, state_request(std::nullopt), options, context)
      .take<Tree>(store::kStateName);
}

Tree load(const std::filesystem::path& path, AbstractTree wanted, const LoadOptions& options,
          const Context& context) {
  return load_checkpointables(path, state_request(std::move(wanted)), options, context)
      .take<Tree>(store::kStateName);
}

CheckpointMetadata checkpointables_metadata(const std::filesystem::path& path, const Context& context) {
  return checkpointables_metadata(path, LoadOptions(), context);
}

CheckpointMetadata checkpointables_metadata(const std::filesystem::path& path, const LoadOptions& options,
                                            const Context& context) {
  return checkpointables_metadata(path, std::vector<std::string>(), options, context);
}

CheckpointMetadata checkpointables_metadata(const std::filesystem::path& path,
                                            const std::vector<std::string>& names, const LoadOptions& options,
                                            const Context& context) {
  return core::read_metadata(path, names, handlers_of(context, options.registry), options, context);
}

Awaitable<CheckpointMetadata> checkpointables_metadata_async(const std::filesystem::path& path,
                                                             const std::vector<std::string>& names,
                                                             const LoadOptions& options,
                                                             const Context& context) {
  return core::metadata_async(path, names, handlers_of(context, options.registry), options, context);
}

AbstractTree metadata(const std::filesystem::path& path, const Context& context) {
  return metadata(path, LoadOptions(), context);
}

AbstractTree metadata(const std::filesystem::path& path, const LoadOptions& options, const Context& context) {
  return state_of(checkpointables_metadata(path, {store::kStateName}, options, context));
}

Awaitable<AbstractTree> metadata_async(const std::filesystem::path& path, const LoadOptions& options,
                                       const Context& context) {
  return describe_state(checkpointables_metadata_async(path, {store::kStateName}, options, context));
}

}  // namespace cairn
