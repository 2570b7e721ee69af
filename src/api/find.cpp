// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/find.hpp"

#include <system_error>

#include <functional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "api/internal/look.hpp"
#include "api/newest.hpp"
#include "core/internal/disk_calls.hpp"
#include "core/internal/paths.hpp"
#include "store/internal/listing.hpp"

namespace cairn {
namespace {

using api::Missing;
using core::DiskCalls;

std::string title_of_listing(const std::filesystem::path& root) {
  return fmt::format("listing of {}", root.string());
}

std::function<std::vector<FoundCheckpoint>()> search(DiskCalls calls, const std::filesystem::path& root,
                                                     const LatestOptions& options) {
  ListOptions how;
  how.order = options.order;
  how.numbers = options.numbers;
  return api::listing(std::move(calls), root, how, Missing::is_empty);
}

std::optional<FoundCheckpoint> newest_of(std::vector<FoundCheckpoint> found,
                                         const std::filesystem::path& root, const LatestOptions& options) {
  found = api::candidates(std::move(found), root, {options.order, options.numbers, options.number});
  return found.empty() ? std::nullopt : std::optional(std::move(found.back()));
}

Awaitable<std::optional<FoundCheckpoint>> await_newest(Awaitable<std::vector<FoundCheckpoint>> listing,
                                                       std::filesystem::path root, LatestOptions options) {
  std::vector<FoundCheckpoint> found = co_await std::move(listing);
  co_return newest_of(std::move(found), root, options);
}

std::function<bool()> look(DiskCalls calls, const std::filesystem::path& path) {
  return [calls = std::move(calls), absolute = core::absolute_path(path)] {
    return store::is_committed(calls.syscalls(), absolute);
  };
}

std::string title_of_look(const std::filesystem::path& path) {
  return fmt::format("look at {}", path.string());
}

}  // namespace

std::vector<FoundCheckpoint> list_checkpoints(const std::filesystem::path& root, const ListOptions& options,
                                              const Context& context) {
  const DiskCalls calls(context);
  return calls.ask(title_of_listing(root), options.deadline,
                   api::listing(calls, root, options, Missing::is_refused));
}

Awaitable<std::vector<FoundCheckpoint>> list_checkpoints_async(const std::filesystem::path& root,
                                                               const ListOptions& options,
                                                               const Context& context) {
  const DiskCalls calls(context);
  return calls.await_answer(title_of_listing(root), options.deadline,
                            api::listing(calls, root, options, Missing::is_refused));
}

std::optional<FoundCheckpoint> latest_checkpoint(const std::filesystem::path& root,
                                                 const LatestOptions& options, const Context& context) {
  const DiskCalls calls(context);
  return newest_of(calls.ask(title_of_listing(root), options.deadline, search(calls, root, options)), root,
                   options);
}

Awaitable<std::optional<FoundCheckpoint>> latest_checkpoint_async(const std::filesystem::path& root,
                                                                  const LatestOptions& options,
                                                                  const Context& context) {
  const DiskCalls calls(context);
  return await_newest(
      calls.await_answer(title_of_listing(root), options.deadline, search(calls, root, options)), root,
      options);
}

bool is_checkpoint(const std::filesystem::path& path, const IsCheckpointOptions& options,
                   const Context& context) {
  const DiskCalls calls(context);
  return calls.ask(title_of_look(path), options.deadline, look(calls, path));
}

Awaitable<bool> is_checkpoint_async(const std::filesystem::path& path, const IsCheckpointOptions& options,
                                    const Context& context) {
  const DiskCalls calls(context);
  return calls.await_answer(title_of_look(path), options.deadline, look(calls, path));
}

namespace api {

bool is_yet_to_be_made(const std::filesystem::path& root) {
  const std::filesystem::path absolute = core::absolute_path(root);
  const std::filesystem::path plain = absolute.has_filename() ? absolute : absolute.parent_path();
  const std::filesystem::path parent = plain.parent_path();
  std::error_code ignored;
  return std::filesystem::symlink_status(plain, ignored).type() == std::filesystem::file_type::not_found &&
         std::filesystem::is_directory(parent, ignored);
}

std::function<std::vector<FoundCheckpoint>()> listing(DiskCalls calls, const std::filesystem::path& root,
                                                      const ListOptions& options, Missing missing) {
  return [calls = std::move(calls), root, absolute = core::absolute_path(root), how = options,
          missing]() -> std::vector<FoundCheckpoint> {
    const auto list = [&] { return store::list_checkpoints(calls.syscalls(), absolute, how); };
    std::vector<FoundCheckpoint> found =
        missing == Missing::is_refused
            ? list()
            : look_if_made(absolute, list).value_or(std::vector<FoundCheckpoint>());
    for (FoundCheckpoint& each : found) {
      each.path = root / each.path.filename();
    }
    return found;
  };
}

}  // namespace api
}  // namespace cairn
