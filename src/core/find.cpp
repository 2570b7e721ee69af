// SPDX-License-Identifier: Apache-2.0
#include "cairn/core/find.hpp"

#include <system_error>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "core/blocking_call.hpp"
#include "core/internal/load_latest.hpp"
#include "core/paths.hpp"
#include "core/services.hpp"
#include "store/internal/listing.hpp"

namespace cairn {
namespace {

using core::Missing;

std::string title_of_listing(const std::filesystem::path& root) {
  return fmt::format("listing of {}", root.string());
}

std::function<std::optional<FoundCheckpoint>()> search(const std::filesystem::path& root,
                                                       const LatestOptions& options, const Context& context) {
  ListOptions how;
  how.order = options.order;
  return [list = core::listing(root, how, context, Missing::is_empty)]() -> std::optional<FoundCheckpoint> {
    std::vector<FoundCheckpoint> found = list();
    return found.empty() ? std::nullopt : std::optional(std::move(found.back()));
  };
}

std::function<bool()> ask_for_commit(const std::filesystem::path& path, const Context& context) {
  const std::shared_ptr<core::Services>& services = core::services_of(context);
  services->require_own_process();
  return [services, absolute = core::absolute_path(path)] {
    return store::is_committed(services->disk.engine().syscalls(), absolute);
  };
}

std::string title_of_look(const std::filesystem::path& path) {
  return fmt::format("look at {}", path.string());
}

}  // namespace

std::vector<FoundCheckpoint> list_checkpoints(const std::filesystem::path& root, const ListOptions& options,
                                              const Context& context) {
  return core::answer_within(context, title_of_listing(root), options.deadline,
                             core::listing(root, options, context, Missing::is_refused));
}

Awaitable<std::vector<FoundCheckpoint>> list_checkpoints_async(const std::filesystem::path& root,
                                                               const ListOptions& options,
                                                               const Context& context) {
  return core::await_answer(core::services_of(context), title_of_listing(root), options.deadline,
                            core::listing(root, options, context, Missing::is_refused));
}

std::optional<FoundCheckpoint> latest_checkpoint(const std::filesystem::path& root,
                                                 const LatestOptions& options, const Context& context) {
  return core::answer_within(context, title_of_listing(root), options.deadline,
                             search(root, options, context));
}

Awaitable<std::optional<FoundCheckpoint>> latest_checkpoint_async(const std::filesystem::path& root,
                                                                  const LatestOptions& options,
                                                                  const Context& context) {
  return core::await_answer(core::services_of(context), title_of_listing(root), options.deadline,
                            search(root, options, context));
}

bool is_checkpoint(const std::filesystem::path& path, const Context& context) {
  return is_checkpoint(path, IsCheckpointOptions(), context);
}

bool is_checkpoint(const std::filesystem::path& path, const IsCheckpointOptions& options,
                   const Context& context) {
  return core::answer_within(context, title_of_look(path), options.deadline, ask_for_commit(path, context));
}

Awaitable<bool> is_checkpoint_async(const std::filesystem::path& path, const IsCheckpointOptions& options,
                                    const Context& context) {
  return core::await_answer(core::services_of(context), title_of_look(path), options.deadline,
                            ask_for_commit(path, context));
}

namespace core {

bool is_yet_to_be_made(const std::filesystem::path& root) {
  const std::filesystem::path absolute = absolute_path(root);
  const std::filesystem::path plain = absolute.has_filename() ? absolute : absolute.parent_path();
  const std::filesystem::path parent = plain.parent_path();
  std::error_code ignored;
  return std::filesystem::symlink_status(plain, ignored).type() == std::filesystem::file_type::not_found &&
         std::filesystem::is_directory(parent, ignored);
}

std::function<std::vector<FoundCheckpoint>()> listing(const std::filesystem::path& root,
                                                      const ListOptions& options, const Context& context,
                                                      Missing missing) {
  const std::shared_ptr<Services>& services = services_of(context);
  services->require_own_process();
  return [services, root, absolute = absolute_path(root), how = options,
          missing]() -> std::vector<FoundCheckpoint> {
    const auto look = [&] {
      return store::list_checkpoints(services->disk.engine().syscalls(), absolute, how);
    };
    std::vector<FoundCheckpoint> found =
        missing == Missing::is_refused
            ? look()
            : look_if_made(absolute, look).value_or(std::vector<FoundCheckpoint>());
    for (FoundCheckpoint& each : found) {
      each.path = root / each.path.filename();
    }
    return found;
  };
}

}  // namespace core
}  // namespace cairn
