// SPDX-License-Identifier: Apache-2.0
#include "api/internal/remove.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cairn/api/maintain.hpp"

#include "core/internal/busy_here.hpp"
#include "core/internal/disk_calls.hpp"
#include "core/internal/paths.hpp"
#include "store/internal/checkpoint_lock.hpp"
#include "store/internal/publication_order.hpp"
#include "store/internal/save_target.hpp"
#include "store/internal/trash.hpp"

namespace cairn {

store::RemovalReport remove_checkpoint(const std::filesystem::path& path, const RemoveOptions& options,
                                       const Context& context) {
  return api::remove_into(path, options, context, nullptr, store::Surroundings::unknown);
}

store::RemovalReport api::remove_into(const std::filesystem::path& path, const RemoveOptions& options,
                                      const Context& context, std::shared_ptr<store::Trash> trash,
                                      store::Surroundings surroundings) {
  const core::DiskCalls calls(context);
  const std::filesystem::path target_path = store::target_path(core::absolute_path(path));
  const auto report = std::make_shared<store::RemovalReport>();
  std::function<void(core::CommitState&)> remove =
      [report, calls, target_path, surroundings, trash = std::move(trash), random = context.options().random,
       even_if_held = options.even_if_held,
       may_wait = !core::is_busy_here(*calls.services())](core::CommitState& commit) {
        const store::SaveTarget target = store::open_target(calls.syscalls(), target_path);
        // Kept until the removal has ended, also when nobody waits for it any more.
        const std::shared_ptr<store::PublicationOrder::Ticket> ticket = store::PublicationOrder::enter(
            store::PublicationOrder::of_process(), target.directory, target.name);
        if (!ticket->turn().has_happened() && !may_wait) {
          core::throw_waits_for_itself("a removal");
        }
        ticket->turn().get();
        std::optional<store::CheckpointLock> checkpoint_lock;
        if (!even_if_held) {
          checkpoint_lock.emplace(store::lock_to_remove(target.parent, target.name, calls.clock()));
        }
        // A removal that was given up must not begin: saves that came after it would be removed. One that has begun
        // keeps its ticket.
        if (commit.begin_commit()) {
          *report =
              store::remove_checkpoint(calls.syscalls(), target.path, random, trash.get(), surroundings);
        }
      };
  calls.change(fmt::format("removal of {}", target_path.string()), options.deadline, std::move(remove));
  return std::move(*report);
}

}  // namespace cairn
