// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/load.hpp"

#include <utility>

#include "cairn/api/metadata.hpp"

#include "api/state_name.hpp"

namespace cairn {
namespace {

Awaitable<Tree> take_state(Awaitable<Loaded> all) {
  Loaded loaded = co_await std::move(all);
  co_return loaded.take<Tree>(kStateName);
}

Requests state_request(std::optional<AbstractTree> wanted) {
  Requests requests;
  if (wanted) {
    requests.emplace_back(kStateName, std::move(*wanted));
  } else {
    requests.emplace_back(kStateName);
  }
  return requests;
}

}  // namespace

LoadResponse load_checkpointables_async(const std::filesystem::path& path, const Requests& requests,
                                        const LoadOptions& options, const Context& context) {
  return core::start_load(path, requests, handlers_of(context), options, context);
}

Loaded load_checkpointables(const std::filesystem::path& path, const Requests& requests,
                            const LoadOptions& options, const Context& context) {
  return core::start_load(path, requests, handlers_of(context), options, context, core::Waiting::for_the_end)
      .wait();
}

Tree TreeResponse::wait() const {
  return response_.wait().take<Tree>(kStateName);
}

Tree TreeResponse::wait(std::chrono::nanoseconds timeout) const {
  return response_.wait(timeout).take<Tree>(kStateName);
}

Awaitable<Tree> TreeResponse::loaded() const {
  return take_state(response_.loaded());
}

TreeResponse load_async(const std::filesystem::path& path, std::optional<AbstractTree> wanted,
                        const LoadOptions& options, const Context& context) {
  return TreeResponse(load_checkpointables_async(path, state_request(std::move(wanted)), options, context));
}

Tree load(const std::filesystem::path& path, const LoadOptions& options, const Context& context) {
  return load_checkpointables(path, state_request(std::nullopt), options, context).take<Tree>(kStateName);
}

Tree load(const std::filesystem::path& path, AbstractTree wanted, const LoadOptions& options,
          const Context& context) {
  return load_checkpointables(path, state_request(std::move(wanted)), options, context)
      .take<Tree>(kStateName);
}

CheckpointMetadata checkpointables_metadata(const std::filesystem::path& path, const Context& context) {
  return checkpointables_metadata(path, LoadOptions(), context);
}

CheckpointMetadata checkpointables_metadata(const std::filesystem::path& path, const LoadOptions& options,
                                            const Context& context) {
  return core::read_metadata(path, {}, handlers_of(context), options, context);
}

AbstractTree metadata(const std::filesystem::path& path, const Context& context) {
  return metadata(path, LoadOptions(), context);
}

AbstractTree metadata(const std::filesystem::path& path, const LoadOptions& options, const Context& context) {
  const CheckpointMetadata all =
      core::read_metadata(path, {kStateName}, handlers_of(context), options, context);
  return all.at(kStateName).as<AbstractTree>();
}

}  // namespace cairn
