// SPDX-License-Identifier: Apache-2.0
#include "cairn/core/remove.hpp"

#include <functional>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/io/remove_checkpoint.hpp"
#include "cairn/io/save_target.hpp"

#include "core/blocking_call.hpp"
#include "core/operation.hpp"
#include "core/publication_order.hpp"
#include "core/services.hpp"

namespace cairn {

io::RemovalReport remove_checkpoint(const std::filesystem::path& path, const RemoveOptions& options,
                                    const Context& context) {
  const std::shared_ptr<core::Services>& services = context.services();
  services->require_own_process();
  io::Syscalls& syscalls = services->engine->syscalls();
  const io::SaveTarget target = io::open_target(syscalls, path);
  // It lives until the removal has ended, also when nobody waits for it any more.
  std::shared_ptr<core::PublicationOrder::Place> place =
      core::PublicationOrder::enter(core::PublicationOrder::of_process(), target.directory, target.name);
  if (!place->turn().has_happened()) {
    core::refuse_here(*services, "a removal");
  }
  const auto report = std::make_shared<io::RemovalReport>();
  std::function<void()> remove = [report, &syscalls, path = target.path, random = services->options.random,
                                  place = std::move(place)] {
    place->turn().get();
    *report = io::remove_checkpoint(syscalls, path, random);
  };
  core::run_within(context, fmt::format("removal of {}", target.path.string()), options.deadline,
                   std::move(remove));
  return std::move(*report);
}

}  // namespace cairn
