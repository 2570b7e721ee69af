// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/find.hpp"

#include "api/check_destinations.hpp"
#include "core/internal/load_latest.hpp"

namespace cairn {

std::vector<FoundCheckpoint> list_checkpoints(const std::filesystem::path& root, const ListOptions& options) {
  return list_checkpoints(root, options, default_context());
}

std::optional<FoundCheckpoint> latest_checkpoint(const std::filesystem::path& root,
                                                 const LatestOptions& options) {
  return latest_checkpoint(root, options, default_context());
}

bool is_checkpoint(const std::filesystem::path& path, const IsCheckpointOptions& options) {
  return is_checkpoint(path, options, default_context());
}

Awaitable<std::vector<FoundCheckpoint>> list_checkpoints_async(const std::filesystem::path& root,
                                                               const ListOptions& options) {
  return list_checkpoints_async(root, options, default_context());
}

Awaitable<std::optional<FoundCheckpoint>> latest_checkpoint_async(const std::filesystem::path& root,
                                                                  const LatestOptions& options) {
  return latest_checkpoint_async(root, options, default_context());
}

Awaitable<bool> is_checkpoint_async(const std::filesystem::path& path, const IsCheckpointOptions& options) {
  return is_checkpoint_async(path, options, default_context());
}

std::optional<LoadedLatest> load_latest(const std::filesystem::path& root, const Requests& requests,
                                        const LoadLatestOptions& options, const Context& context) {
  check_destinations(requests);
  return core::load_latest(root, requests, handlers_of(context, options.load.registry), options, context);
}

Awaitable<std::optional<LoadedLatest>> load_latest_async(const std::filesystem::path& root,
                                                         const Requests& requests,
                                                         const LoadLatestOptions& options,
                                                         const Context& context) {
  check_destinations(requests);
  return core::load_latest_async(root, requests, handlers_of(context, options.load.registry), options,
                                 context);
}

}  // namespace cairn
