// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/core/maintenance.hpp"

#include "core/blocking_call.hpp"
#include "core/busy_here.hpp"
#include "core/paths.hpp"
#include "core/publication_order.hpp"
#include "core/services.hpp"
#include "store/internal/remove_checkpoint.hpp"
#include "store/internal/save_target.hpp"

namespace cairn {

store::RemovalReport remove_checkpoint(const std::filesystem::path& path, const RemoveOptions& options,
                                       const Context& context) {
  const std::shared_ptr<core::Services>& services = core::services_of(context);
  services->require_own_process();
  const std::filesystem::path target_path = store::target_path(core::absolute_path(path));
  const auto report = std::make_shared<store::RemovalReport>();
  std::function<void()> remove = [report, services, target_path, may_wait = !core::is_busy_here(*services)] {
    io::Syscalls& syscalls = services->disk.engine().syscalls();
    const store::SaveTarget target = store::open_target(syscalls, target_path);
    // Kept until the removal has ended, also when nobody waits for it any more.
    const std::shared_ptr<core::PublicationOrder::Place> place =
        core::PublicationOrder::enter(core::PublicationOrder::of_process(), target.directory, target.name);
    if (!place->turn().has_happened() && !may_wait) {
      core::throw_waits_for_itself("a removal");
    }
    place->turn().get();
    *report = store::remove_checkpoint(syscalls, target.path, services->options.random);
  };
  core::run_within(context, fmt::format("removal of {}", target_path.string()), options.deadline,
                   std::move(remove));
  return std::move(*report);
}

}  // namespace cairn
