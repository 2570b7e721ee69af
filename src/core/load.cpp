// SPDX-License-Identifier: Apache-2.0
#include "cairn/core/load.hpp"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/load_job.hpp"
#include "core/paths.hpp"

namespace cairn {
namespace {

using core::LoadJob;

Awaitable<Loaded> await_loaded(std::shared_ptr<LoadJob> job) {
  co_await job->done().wait();
  co_return job->take_loaded();
}

std::shared_ptr<LoadJob> make_job(const std::filesystem::path& path, Requests requests,
                                  const RegistrySnapshot& registry, const LoadOptions& options,
                                  const Context& context) {
  context.services()->require_own_process();
  const auto begin = context.services()->clock.steady_now();
  if (context.services()->coroutines.runs_this_thread()) {
    throw Error(
        Errc::invalid_argument,
        "a load that blocks was started on one of the context's own threads; it would wait for itself");
  }
  return std::make_shared<LoadJob>(context.services(), core::absolute_path(path), std::move(requests),
                                   registry, options, begin);
}

}  // namespace

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

Loaded LoadResponse::wait() const {
  if (!job_) {
    return {};
  }
  job_->done().get();
  return job_->take_loaded();
}

Loaded LoadResponse::wait(std::chrono::nanoseconds timeout) const {
  if (job_ && !job_->done().wait_for(timeout)) {
    throw Error(Errc::timed_out, fmt::format("{} is still running after {:.3f} s", job_->title(),
                                             std::chrono::duration<double>(timeout).count()));
  }
  return wait();
}

Awaitable<Loaded> LoadResponse::loaded() const {
  if (!job_) {
    throw Error(Errc::invalid_argument, "this response belongs to no load");
  }
  return await_loaded(job_);
}

LoadResult LoadResponse::result() const {
  if (!job_) {
    return {};
  }
  job_->done().get();
  return job_->result();
}

bool LoadResponse::is_done() const {
  return !job_ || job_->done().has_happened();
}

void LoadResponse::cancel() const {
  if (job_) {
    job_->stop(Errc::cancelled, "cancelled by the caller");
  }
}

void ItemMetadata::throw_mismatch(std::type_index wanted) const {
  if (!abstract.has_value()) {
    throw Error(Errc::type_mismatch,
                problem.empty() ? fmt::format("handler '{}' describes nothing", handler_id) : problem);
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
                                           fmt::join(names, ", ")));
}

namespace core {

LoadResponse start_load(const std::filesystem::path& path, const Requests& requests,
                        const RegistrySnapshot& registry, const LoadOptions& options,
                        const Context& context) {
  auto job = make_job(path, requests, registry, options, context);
  job->launch(LoadJob::load_all(job), options.deadline);
  job->prepared().get();
  return LoadResponse(std::move(job));
}

CheckpointMetadata read_metadata(const std::filesystem::path& path, const std::vector<std::string>& names,
                                 const RegistrySnapshot& registry, const LoadOptions& options,
                                 const Context& context) {
  auto job = make_job(path, Requests(names.begin(), names.end()), registry, options, context);
  job->launch(LoadJob::describe_all(job), options.deadline);
  job->done().get();
  return job->take_metadata();
}

}  // namespace core
}  // namespace cairn
