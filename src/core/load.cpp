// SPDX-License-Identifier: Apache-2.0
#include "cairn/core/load.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "coord/internal/borrowed_caller_thread.hpp"
#include "core/internal/busy_here.hpp"
#include "core/internal/paths.hpp"
#include "core/internal/start.hpp"
#include "core/load_job.hpp"
#include "core/metadata_job.hpp"
#include "core/response.hpp"

namespace cairn {
namespace {

using core::LoadJob;

Awaitable<Loaded> await_loaded(std::shared_ptr<LoadJob> job) {
  co_await core::wait_or_stop(job, job->answered());
  co_return job->take_loaded();
}

/// The load of a response that refers to one.
std::shared_ptr<LoadJob> load_of(const std::shared_ptr<core::Operation>& operation) {
  return std::static_pointer_cast<LoadJob>(operation);
}

core::CallerMemoryUse memory_of(const Requests& requests, core::Waiting waiting) {
  const bool writes = std::any_of(requests.begin(), requests.end(), [waiting](const Request& request) {
    return waiting == core::Waiting::for_the_end ? request.wanted().has_value() : request.writes_to_caller();
  });
  return writes ? core::CallerMemoryUse::until_done : core::CallerMemoryUse::unused;
}

/// Each rank asks for metadata by itself.
void refuse_together(const std::filesystem::path& path, const LoadOptions& options) {
  if (options.together) {
    throw Error(Errc::invalid_argument,
                fmt::format("{}: `together` applies to loads, not to metadata", path.string()));
  }
}

/// Tells the other ranks of a load together of the current exception.
void tell_others(const std::filesystem::path& path, const LoadOptions& options,
                 coord::Coordinator& coordinator) noexcept {
  if (!options.together) {
    return;
  }
  try {
    const std::exception_ptr why = std::current_exception();
    if (const auto joint = joint::JointLoad::join(coordinator, path.string())) {
      joint->fail(why);
    }
  } catch (...) {  // The coordinator was closed: then nobody waits for this rank.
  }
}

template <class Job>
std::shared_ptr<Job> make_job(const std::shared_ptr<core::Services>& services,
                              const std::filesystem::path& path, Requests requests,
                              const RegistrySnapshot& registry, const LoadOptions& options,
                              core::Waiting waiting) {
  services->require_own_process();
  const auto begin = services->clock.steady_now();
  const core::CallerMemoryUse memory = memory_of(requests, waiting);
  return std::make_shared<Job>(services, core::absolute_path(path), std::move(requests), registry, options,
                               begin, memory);
}

Awaitable<CheckpointMetadata> await_metadata(std::shared_ptr<core::Services> services,
                                             std::filesystem::path path, Requests requests,
                                             RegistrySnapshot registry, LoadOptions options) {
  auto job = make_job<core::MetadataJob>(services, path, std::move(requests), registry, options,
                                         core::Waiting::for_the_end);
  job->launch(job->describe(), options.deadline);
  co_await core::wait_or_stop(job, job->answered());
  co_return job->take_metadata();
}

}  // namespace

Loaded::Loaded() = default;
Loaded::Loaded(const Loaded&) = default;
Loaded::Loaded(Loaded&&) noexcept = default;
Loaded& Loaded::operator=(const Loaded&) = default;
Loaded& Loaded::operator=(Loaded&&) noexcept = default;
Loaded::~Loaded() = default;

bool Loaded::has(std::string_view name) const {
  return values_.find(name) != values_.end();
}

bool Loaded::is_held_as(std::string_view name, std::type_index type) const {
  const auto found = values_.find(name);
  return found != values_.end() && found->second.type() == type;
}

AnyValue Loaded::take_any(std::string_view name, std::type_index type) {
  const auto found = values_.find(name);
  if (found == values_.end()) {
    throw Error(Errc::not_found, fmt::format("'{}' was not loaded, or was taken already", name));
  }
  if (found->second.type() != type) {
    throw Error(Errc::type_mismatch,
                fmt::format("'{}' of {} was loaded as {}, not as {}", name, result_.path.string(),
                            type_name(found->second.type()), type_name(type)));
  }
  AnyValue value = std::move(found->second);
  values_.erase(found);
  return value;
}

void Loaded::add_differences(std::string_view name, LoadResult found) {
  const auto add = [&](std::vector<std::string>& paths, std::vector<std::string>& to) {
    for (std::string& path : paths) {
      to.push_back(is_one_of_many_ ? fmt::format("{}/{}", name, path) : std::move(path));
    }
  };
  add(found.missing, result_.missing);
  add(found.unexpected, result_.unexpected);
}

void Loaded::rethrow_named(std::string_view name) {
  std::rethrow_exception(with_context(std::current_exception(), fmt::format("'{}'", name)));
}

void Loaded::throw_other_object(std::string_view name, std::type_index object, std::type_index wanted) {
  throw Error(Errc::type_mismatch, fmt::format("'{}' was loaded into an object of type {}, not {}", name,
                                               type_name(object), type_name(wanted)));
}

LoadResponse::LoadResponse(std::shared_ptr<LoadJob> job) noexcept : Response(std::move(job)) {}

Loaded LoadResponse::wait() const {
  wait_answered();
  return operation() ? load_of(operation())->take_loaded() : Loaded();
}

Loaded LoadResponse::wait(Timeout timeout) const {
  wait_answered(timeout);
  return wait();
}

Awaitable<Loaded> LoadResponse::loaded() const {
  if (!operation()) {
    throw Error(Errc::invalid_argument, "this response belongs to no load");
  }
  return await_loaded(load_of(operation()));
}

LoadResult LoadResponse::result() const {
  wait_answered();
  return operation() ? load_of(operation())->result() : LoadResult();
}

LoadProgress LoadResponse::progress() const {
  return operation() ? load_of(operation())->progress() : LoadProgress();
}

Description ItemMetadata::description() const {
  return handler ? handler->describe(abstract.get()) : Description();
}

ArrayEntries arrays(const ItemMetadata& item) {
  return item.description().arrays;
}

void ItemMetadata::throw_mismatch(std::type_index wanted) const {
  if (problem_code) {
    throw Error(problem_code, problem);
  }
  if (!abstract.has_value()) {
    throw Error(Errc::type_mismatch, fmt::format("handler '{}' does not implement metadata", handler_id));
  }
  throw Error(Errc::type_mismatch, fmt::format("handler '{}' describes its values by {}, not by {}",
                                               handler_id, type_name(abstract.type()), type_name(wanted)));
}

const ItemMetadata& CheckpointMetadata::at(std::string_view name) const& {
  const auto found = items.find(name);
  if (found != items.end()) {
    return found->second;
  }
  std::vector<std::string> names;
  for (const auto& [each, item] : items) {
    names.push_back(each);
  }
  throw Error(Errc::not_found, fmt::format("{} has no checkpointable '{}'; it has: {}", path.string(), name,
                                           core::listed(names)));
}

namespace core {

LoadResponse start_load(const std::filesystem::path& path, const Requests& requests,
                        const RegistrySnapshot& registry, const LoadOptions& options, const Context& context,
                        Waiting waiting) {
  return start_load(path, requests, registry, options, services_of(context), waiting);
}

LoadResponse start_load(const std::filesystem::path& path, const Requests& requests,
                        const RegistrySnapshot& registry, const LoadOptions& options,
                        const std::shared_ptr<Services>& services, Waiting waiting) {
  std::shared_ptr<LoadJob> job;
  try {
    refuse_here(*services, "a load");
    job = make_job<LoadJob>(services, path, requests, registry, options, waiting);
  } catch (...) {
    tell_others(path, options, services->coordinator);
    throw;
  }
  job->start();
  coord::get_with_progress(services->coordinator, job->prepared());
  return LoadResponse(std::move(job));
}

Awaitable<Loaded> await_load(std::shared_ptr<Services> services, std::filesystem::path path,
                             Requests requests, RegistrySnapshot registry, LoadOptions options) {
  auto job = make_job<LoadJob>(services, path, std::move(requests), registry, options, Waiting::for_the_end);
  job->start();
  const LoadResponse response(job);  // Takes the memory back where the frame is destroyed without an end.
  co_await wait_or_stop(job, job->answered());
  co_return job->take_loaded();
}

void tell_refusal(const std::filesystem::path& path, const LoadOptions& options,
                  const Context& context) noexcept {
  tell_others(path, options, services_of(context)->coordinator);
}

CheckpointMetadata read_metadata(const std::filesystem::path& path, const std::vector<std::string>& names,
                                 const RegistrySnapshot& registry, const LoadOptions& options,
                                 const Context& context) {
  refuse_together(path, options);
  const std::shared_ptr<Services> services = services_of(context);
  refuse_here(*services, "a load");
  auto job = make_job<MetadataJob>(services, path, Requests(names.begin(), names.end()), registry, options,
                                   Waiting::for_the_end);
  job->launch(job->describe(), options.deadline);
  coord::get_with_progress(services->coordinator, job->answered());
  return job->take_metadata();
}

Awaitable<CheckpointMetadata> metadata_async(const std::filesystem::path& path,
                                             const std::vector<std::string>& names,
                                             const RegistrySnapshot& registry, const LoadOptions& options,
                                             const Context& context) {
  refuse_together(path, options);
  const std::shared_ptr<Services> services = services_of(context);
  services->require_own_process();
  return await_metadata(services, absolute_path(path), Requests(names.begin(), names.end()), registry,
                        options);
}

}  // namespace core
}  // namespace cairn
