// SPDX-License-Identifier: Apache-2.0
#include "cairn/core/save.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "contract/internal/resolve.hpp"
#include "coord/internal/borrowed_caller_thread.hpp"
#include "core/check_options.hpp"
#include "core/internal/busy_here.hpp"
#include "core/internal/paths.hpp"
#include "core/internal/saves_part.hpp"
#include "core/internal/start.hpp"
#include "core/response.hpp"
#include "core/save_job.hpp"
#include "store/internal/checkpointable_names.hpp"
#include "store/internal/manifest.hpp"
#include "store/internal/parts_directory.hpp"

namespace cairn {
namespace {

using core::SaveJob;

/// How a save is called.
struct Call {
  bool is_accepted = false;  ///< It returns before the blocking phase.
  core::Waiting waiting = core::Waiting::for_staged;
  bool is_on_own_thread = false;  ///< Of the context's.
};

/// Returns whether the value may be gone when the call has returned.
bool must_last(const SaveOptions& options, const Call& call) {
  return call.waiting != core::Waiting::for_the_end &&
         (options.snapshot == Snapshot::borrow || call.is_accepted);
}

/// The handler of an item; where none takes the type of its value, that of the other form that the value has.
const Registration& handler_for(const RegistrySnapshot& registry, Checkpointable& item) {
  // A type that nearly saves itself was meant to.
  const bool may_change =
      item.near_miss().empty() &&
      contract::find_for_save(registry, item.name(), item.type(), item.value()) == nullptr;
  if (may_change) {
    item.take_other_form();
  }
  return contract::resolve_for_save(registry, item.name(), item.type(), item.value(),
                                    type_name(item.shown_type()), item.near_miss());
}

/// Step 1 of a save: everything that can be refused before anything is written.
std::vector<core::SaveItem> resolve(Checkpointables items, const RegistrySnapshot& registry,
                                    const SaveOptions& options, const Call& call) {
  if (items.empty()) {
    throw Error(Errc::invalid_argument, "there is nothing to save: no checkpointables were given");
  }
  std::set<std::string, std::less<>> names;
  std::vector<core::SaveItem> resolved;
  for (Checkpointable& item : items) {
    store::validate_name(item.name());
    if (!names.insert(item.name()).second) {
      throw Error(Errc::already_exists, fmt::format("two checkpointables are called '{}'", item.name()));
    }
    if (item.is_temporary() && must_last(options, call)) {
      throw Error(
          Errc::invalid_argument,
          fmt::format(
              "'{}' is a temporary of type {} that cannot be moved: it would be gone before it is saved",
              item.name(), type_name(item.shown_type())));
    }
    if (options.snapshot == Snapshot::share && call.is_accepted) {
      item.hold_copy();  // It shares what it shows; the value itself is the caller's otherwise.
    }
    if (call.is_on_own_thread && !item.owns_memory()) {
      throw Error(
          Errc::invalid_argument,
          fmt::format(
              "'{}' ({}) belongs to the caller; on a context thread pass values by move or shared ownership",
              item.name(), type_name(item.shown_type())));
    }
    const Registration& found = handler_for(registry, item);
    resolved.emplace_back(std::move(item), found);
  }
  return resolved;
}

core::CallerMemoryUse memory_of(const std::vector<core::SaveItem>& items, const SaveOptions& options,
                                const Call& call) {
  if (!must_last(options, call)) {
    return options.snapshot == Snapshot::borrow ? core::CallerMemoryUse::until_done
                                                : core::CallerMemoryUse::until_staged;
  }
  const bool owns_all = std::all_of(items.begin(), items.end(), [](const core::SaveItem& item) {
    return item.checkpointable.owns_memory();
  });
  if (owns_all) {
    return core::CallerMemoryUse::unused;
  }
  return options.snapshot == Snapshot::borrow ? core::CallerMemoryUse::until_done
                                              : core::CallerMemoryUse::until_staged;
}

std::shared_ptr<SaveJob> make_job(const std::filesystem::path& path, Checkpointables items,
                                  const RegistrySnapshot& registry, const SaveOptions& options,
                                  const std::shared_ptr<core::Services>& services, const Call& call,
                                  std::unique_ptr<joint::JointSave>& joint) {
  const auto begin = services->clock.steady_now();
  services->metrics.begin_save();
  try {
    core::check_options(options);
    SaveOptions checked = options;
    checked.coalesce = options.coalesce && (!joint || joint->is_primary());  // Rank 0 decides what yields.
    checked.custom_metadata = store::normalise_custom_metadata(options.custom_metadata);
    checked.annotations = store::normalise_annotations(options.annotations);
    std::vector<core::SaveItem> resolved = resolve(std::move(items), registry, options, call);
    const core::Operation::Kind kind(
        memory_of(resolved, options, call),
        call.is_accepted ? core::BlockingPhase::by_context : core::BlockingPhase::by_caller);
    std::filesystem::path target = store::target_path(core::absolute_path(path));
    if (options.handler_options.find<core::SavesPart>() == nullptr) {
      store::require_outside_parts(target);
    }
    SaveJob::Plan plan(std::move(target), std::move(resolved), std::move(checked), kind);
    plan.is_waited_for = call.waiting == core::Waiting::for_the_end;
    plan.joint = std::move(joint);
    return std::make_shared<SaveJob>(services, std::move(plan), begin);
  } catch (...) {
    services->metrics.fail_save(std::current_exception());
    throw;
  }
}

Awaitable<SaveResult> await_result(std::shared_ptr<SaveJob> job) {
  job->is_observed = true;
  co_await core::wait_or_stop(job, job->answered());
  co_return job->result();
}

/// Does what comes before there is a save, and tells the other ranks when it is refused: they wait for this one.
template <class Make>
auto telling_others(std::unique_ptr<joint::JointSave>& joint, Make make) {
  try {
    return make();
  } catch (...) {
    if (joint) {
      joint->fail(std::current_exception());
    }
    throw;
  }
}

/// The save of a response that refers to one.
std::shared_ptr<SaveJob> save_of(const std::shared_ptr<core::Operation>& operation) {
  return std::static_pointer_cast<SaveJob>(operation);
}

}  // namespace

AsyncResponse::AsyncResponse(std::shared_ptr<SaveJob> job) noexcept : Response(std::move(job)) {}

SaveResult AsyncResponse::wait() const {
  wait_answered();
  return operation() ? save_of(operation())->result() : SaveResult();
}

SaveResult AsyncResponse::wait(Timeout timeout) const {
  wait_answered(timeout);
  return wait();
}

void AsyncResponse::wait_staged() const {
  wait_prepared();
}

void AsyncResponse::wait_staged(Timeout timeout) const {
  wait_prepared(timeout);
}

Awaitable<> AsyncResponse::staged() const {
  return operation() ? core::wait_or_stop(operation(), operation()->prepared()) : core::nothing();
}

Awaitable<SaveResult> AsyncResponse::committed() const {
  if (!operation()) {
    throw Error(Errc::invalid_argument, "this response belongs to no save");
  }
  return await_result(save_of(operation()));
}

bool AsyncResponse::is_staged() const {
  return !operation() || operation()->prepared().has_happened();
}

SaveProgress AsyncResponse::progress() const {
  return operation() ? save_of(operation())->progress() : SaveProgress();
}

namespace core {

AsyncResponse start_save(const std::filesystem::path& path, Checkpointables items,
                         const RegistrySnapshot& registry, const SaveOptions& options, const Context& context,
                         Waiting waiting) {
  const std::shared_ptr<Services> services = core::services_of(context);
  services->require_own_process();
  Call call;
  call.is_accepted = options.return_when_accepted;
  call.waiting = waiting;
  call.is_on_own_thread = is_busy_here(*services);
  std::unique_ptr<joint::JointSave> joint =
      joint::JointSave::join(services->coordinator, path.string(), options.join_timeout);
  auto job = telling_others(joint, [&] {
    if (!call.is_accepted) {
      refuse_here(*services, "a save");
    }
    return make_job(path, std::move(items), registry, options, services, call, joint);
  });
  job->start();
  try {
    if (call.is_accepted) {
      coord::get_with_progress(services->coordinator, job->accepted());
    } else {
      job->drive();
      coord::get_with_progress(services->coordinator, job->prepared());
    }
  } catch (...) {
    job->is_observed = true;
    throw;
  }
  return AsyncResponse(std::move(job));
}

AsyncResponse start_copy(const std::filesystem::path& from, const std::filesystem::path& to,
                         const SaveOptions& options, const Context& context, Waiting waiting) {
  const std::shared_ptr<Services> services = core::services_of(context);
  services->require_own_process();
  refuse_here(*services, "a copy");
  const auto begin = services->clock.steady_now();
  std::filesystem::path target = store::target_path(absolute_path(to));
  store::require_outside_parts(target);
  SaveJob::Plan plan(std::move(target), {}, options,
                     Operation::Kind(CallerMemoryUse::unused, BlockingPhase::by_context));
  plan.copied = absolute_path(from);
  plan.is_waited_for = waiting == Waiting::for_the_end;
  services->metrics.begin_save();
  auto job = std::make_shared<SaveJob>(services, std::move(plan), begin);
  job->start();
  try {
    coord::get_with_progress(services->coordinator, job->accepted());
  } catch (...) {
    job->is_observed = true;
    throw;
  }
  return AsyncResponse(std::move(job));
}

}  // namespace core
}  // namespace cairn
