// SPDX-License-Identifier: Apache-2.0
#include "cairn/core/save.hpp"

#include <new>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/core/names.hpp"
#include "cairn/io/manifest.hpp"

#include "core/check_options.hpp"
#include "core/paths.hpp"
#include "core/save_job.hpp"

namespace cairn {
namespace {

using core::SaveJob;

/// Steps 1 of a save: everything that can be refused before anything is written.
std::vector<core::SaveItem> resolve(const Checkpointables& items, const RegistrySnapshot& registry,
                                    const SaveOptions& options) {
  if (items.empty()) {
    throw Error(Errc::invalid_argument, "there is nothing to save: no checkpointables were given");
  }
  const bool must_last = options.snapshot == Snapshot::borrow || options.return_when_accepted;
  std::set<std::string_view> names;
  std::vector<core::SaveItem> resolved;
  for (const Checkpointable& item : items) {
    core::validate_name(item.name());
    if (!names.insert(item.name()).second) {
      throw Error(Errc::already_exists, fmt::format("two checkpointables are called '{}'", item.name()));
    }
    if (item.is_temporary() && must_last) {
      throw Error(Errc::invalid_argument,
                  fmt::format("'{}' is a temporary of type {}: it would be gone before it is saved",
                              item.name(), type_name(item.shown_type())));
    }
    resolved.emplace_back(item, core::resolve_for_save(registry, item.name(), item.type(), item.value(),
                                                       type_name(item.shown_type()), item.near_miss()));
  }
  return resolved;
}

std::shared_ptr<SaveJob> make_job(const std::filesystem::path& path, const Checkpointables& items,
                                  const RegistrySnapshot& registry, const SaveOptions& options,
                                  const std::shared_ptr<core::Services>& services) {
  const auto begin = services->clock.steady_now();
  services->metrics.begin_save();
  try {
    core::check_options(options);
    SaveOptions checked = options;
    checked.custom_metadata = io::normalise_custom_metadata(options.custom_metadata);
    return std::make_shared<SaveJob>(services, core::absolute_path(path), resolve(items, registry, options),
                                     std::move(checked), begin);
  } catch (...) {
    services->metrics.fail_save(std::current_exception());
    throw;
  }
}

Awaitable<> await_event(std::shared_ptr<SaveJob> job, async::Event event) {
  co_await event.wait();
  static_cast<void>(job);
}

Awaitable<SaveResult> await_result(std::shared_ptr<SaveJob> job) {
  job->is_observed = true;
  co_await job->done().wait();
  co_return job->result();
}

}  // namespace

AsyncResponse::~AsyncResponse() {
  report_if_lost();
}

AsyncResponse& AsyncResponse::operator=(AsyncResponse&& other) noexcept {
  if (this != &other) {
    report_if_lost();
    job_ = std::move(other.job_);
  }
  return *this;
}

void AsyncResponse::report_if_lost() noexcept {
  if (!job_ || job_->is_observed || !job_->services().is_own_process()) {
    return;
  }
  try {
    job_->done().on_complete([job = job_](const std::exception_ptr& failure) {
      if (failure && !job->is_observed && code_of(failure) != Errc::superseded) {
        job->services().lose(job->path().string(), failure);
      }
    });
  } catch (const std::
               bad_alloc&) {  // A destructor has nobody to tell; the metrics count the failure all the same.
  }
}

SaveResult AsyncResponse::wait() const {
  if (!job_) {
    return {};
  }
  job_->is_observed = true;
  job_->done().get();
  return job_->result();
}

SaveResult AsyncResponse::wait(std::chrono::nanoseconds timeout) const {
  if (job_ && !job_->done().wait_for(timeout)) {
    throw Error(Errc::timed_out, fmt::format("{} is still running after {:.3f} s", job_->title(),
                                             std::chrono::duration<double>(timeout).count()));
  }
  return wait();
}

Awaitable<> AsyncResponse::staged() const {
  return await_event(job_, job_ ? job_->prepared() : async::Event::happened());
}

Awaitable<SaveResult> AsyncResponse::committed() const {
  if (!job_) {
    throw Error(Errc::invalid_argument, "this response belongs to no save");
  }
  return await_result(job_);
}

bool AsyncResponse::is_staged() const {
  return !job_ || job_->prepared().has_happened();
}

bool AsyncResponse::is_done() const {
  return !job_ || job_->done().has_happened();
}

SaveProgress AsyncResponse::progress() const {
  return job_ ? job_->progress() : SaveProgress();
}

void AsyncResponse::cancel() const {
  if (job_) {
    job_->stop(Errc::cancelled, "cancelled by the caller");
  }
}

namespace core {

AsyncResponse start_save(const std::filesystem::path& path, const Checkpointables& items,
                         const RegistrySnapshot& registry, const SaveOptions& options,
                         const Context& context) {
  const std::shared_ptr<Services>& services = context.services();
  services->require_own_process();
  if (services->coroutines.runs_this_thread() && !options.return_when_accepted) {
    throw Error(
        Errc::invalid_argument,
        "a save that blocks was started on one of the context's own threads; it would wait for itself");
  }
  auto job = make_job(path, items, registry, options, services);
  SaveJob::start(job);
  if (!options.return_when_accepted) {
    try {
      job->prepared().get();
    } catch (...) {
      job->is_observed = true;
      throw;
    }
  }
  return AsyncResponse(std::move(job));
}

}  // namespace core
}  // namespace cairn
