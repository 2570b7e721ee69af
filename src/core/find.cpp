// SPDX-License-Identifier: Apache-2.0
#include "cairn/core/find.hpp"

#include <system_error>

#include <functional>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "core/blocking_call.hpp"
#include "core/internal/load_latest.hpp"
#include "core/paths.hpp"
#include "core/services.hpp"
#include "store/internal/listing.hpp"

namespace cairn {

std::vector<FoundCheckpoint> list_checkpoints(const std::filesystem::path& root, const ListOptions& options,
                                              const Context& context) {
  const auto found = std::make_shared<std::vector<FoundCheckpoint>>();
  const std::filesystem::path absolute = core::absolute_path(root);
  const auto list = [found, root, absolute, how = options, services = core::services_of(context)] {
    *found = store::list_checkpoints(services->disk.engine().syscalls(), absolute, how);
    for (FoundCheckpoint& each : *found) {
      each.path = root / each.path.filename();
    }
  };
  core::run_within(context, fmt::format("listing of {}", root.string()), options.deadline, list);
  return std::move(*found);
}

std::optional<FoundCheckpoint> latest_checkpoint(const std::filesystem::path& root,
                                                 const LatestOptions& options, const Context& context) {
  ListOptions listing;
  listing.order = options.order;
  listing.deadline = options.deadline;
  std::vector<FoundCheckpoint> found = core::list_if_made(root, listing, context);
  return found.empty() ? std::nullopt : std::optional(std::move(found.back()));
}

bool is_checkpoint(const std::filesystem::path& path, const Context& context) {
  const std::shared_ptr<core::Services>& services = core::services_of(context);
  services->require_own_process();
  return store::is_committed(services->disk.engine().syscalls(), core::absolute_path(path));
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

std::vector<FoundCheckpoint> list_if_made(const std::filesystem::path& root, const ListOptions& options,
                                          const Context& context) {
  try {
    return list_checkpoints(root, options, context);
  } catch (const Error& error) {
    if (error.code() != Errc::not_found || !is_yet_to_be_made(root)) {
      throw;
    }
    return {};
  }
}

}  // namespace core
}  // namespace cairn
