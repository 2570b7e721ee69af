// SPDX-License-Identifier: Apache-2.0
#include "cairn/core/load.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/internal/start.hpp"
#include "core/load_job.hpp"
#include "core/paths.hpp"
#include "core/response.hpp"

namespace cairn {
namespace {

using core::LoadJob;

// A coroutine that waits keeps the load, not the response.
Awaitable<Loaded> await_loaded(std::shared_ptr<LoadJob> job) {
  co_await core::wait_or_stop(*job, job->answered());
  co_return job->take_loaded();
}

Awaitable<> await_event(std::shared_ptr<LoadJob> job, async::Event event) {
  co_await event.wait();
  static_cast<void>(job);
}

Awaitable<> nothing() {
  co_return;
}

core::CallersMemory memory_of(const Requests& requests, core::Waiting waiting) {
  const bool writes = std::any_of(requests.begin(), requests.end(), [waiting](const Request& request) {
    return waiting == core::Waiting::for_the_end ? request.wanted().has_value() : request.writes_to_caller();
  });
  return writes ? core::CallersMemory::until_done : core::CallersMemory::unused;
}

std::shared_ptr<LoadJob> make_job(const std::filesystem::path& path, Requests requests,
                                  const RegistrySnapshot& registry, const LoadOptions& options,
                                  const Context& context, core::Waiting waiting) {
  const std::shared_ptr<core::Services>& services = core::services_of(context);
  services->require_own_process();
  const auto begin = services->clock.steady_now();
  core::refuse_here(*services, "a load");
  const core::CallersMemory memory = memory_of(requests, waiting);
  return std::make_shared<LoadJob>(services, core::absolute_path(path), std::move(requests), registry,
                                   options, begin, memory);
}

}  // namespace

Loaded::Loaded() = default;
Loaded::Loaded(const Loaded&) = default;
Loaded::Loaded(Loaded&&) noexcept = default;
Loaded& Loaded::operator=(const Loaded&) = default;
Loaded& Loaded::operator=(Loaded&&) noexcept = default;
Loaded::~Loaded() = default;

AnyValue Loaded::take_any(std::string_view name, std::type_index type) {
  const auto found = values_.find(name);
  if (found == values_.end()) {
    throw Error(Errc::not_found, fmt::format("'{}' was not loaded, or was taken already", name));
  }
  if (found->second.type() != type) {
    throw Error(Errc::type_mismatch, fmt::format("'{}' was loaded as {}, not as {}", name,
                                                 type_name(found->second.type()), type_name(type)));
  }
  AnyValue value = std::move(found->second);
  values_.erase(found);
  return value;
}

LoadResponse::~LoadResponse() {
  let_go();
}

LoadResponse& LoadResponse::operator=(LoadResponse&& other) noexcept {
  if (this != &other) {
    let_go();
    job_ = std::move(other.job_);
  }
  return *this;
}

void LoadResponse::let_go() noexcept {
  if (job_ && job_->services().is_own_process()) {
    core::take_memory_back(*job_);
  }
}

Loaded LoadResponse::wait() const {
  if (!job_) {
    return {};
  }
  core::require_may_wait(*job_);
  job_->answered().get();
  return job_->take_loaded();
}

Loaded LoadResponse::wait(Timeout timeout) const {
  if (job_) {
    core::wait_for_answer(*job_, timeout);
  }
  return wait();
}

void LoadResponse::wait_released() const {
  if (job_) {
    core::require_may_wait(*job_);
    job_->released().get();
  }
}

void LoadResponse::wait_done() const {
  if (job_) {
    core::require_may_wait(*job_);
    job_->done().get();
  }
}

Awaitable<Loaded> LoadResponse::loaded() const {
  if (!job_) {
    throw Error(Errc::invalid_argument, "this response belongs to no load");
  }
  return await_loaded(job_);
}

Awaitable<> LoadResponse::released() const {
  return job_ ? await_event(job_, job_->released()) : nothing();
}

Awaitable<> LoadResponse::done() const {
  return job_ ? await_event(job_, job_->done()) : nothing();
}

LoadResult LoadResponse::result() const {
  if (!job_) {
    return {};
  }
  core::require_may_wait(*job_);
  job_->answered().get();
  return job_->result();
}

bool LoadResponse::is_released() const {
  return !job_ || job_->released().has_happened();
}

bool LoadResponse::is_done() const {
  return !job_ || job_->is_done();
}

void LoadResponse::cancel() const {
  if (job_) {
    job_->stop(Errc::cancelled, "cancelled by the caller");
  }
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
    throw Error(Errc::type_mismatch, fmt::format("handler '{}' describes nothing", handler_id));
  }
  throw Error(Errc::type_mismatch, fmt::format("handler '{}' describes its values by {}, not by {}",
                                               handler_id, type_name(abstract.type()), type_name(wanted)));
}

const ItemMetadata& CheckpointMetadata::at(std::string_view name) const {
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
  auto job = make_job(path, requests, registry, options, context, waiting);
  job->launch(LoadJob::load_all(job), options.deadline);
  job->prepared().get();
  return LoadResponse(std::move(job));
}

CheckpointMetadata read_metadata(const std::filesystem::path& path, const std::vector<std::string>& names,
                                 const RegistrySnapshot& registry, const LoadOptions& options,
                                 const Context& context) {
  auto job =
      make_job(path, Requests(names.begin(), names.end()), registry, options, context, Waiting::for_the_end);
  job->launch(LoadJob::describe_all(job), options.deadline);
  job->answered().get();
  return job->take_metadata();
}

}  // namespace core
}  // namespace cairn
