// SPDX-License-Identifier: Apache-2.0
#include "core/read_job.hpp"

#include <system_error>

#include <cerrno>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "contract/internal/resolve.hpp"
#include "core/drop_later.hpp"
#include "store/internal/committed_directory.hpp"

namespace cairn::core {
namespace {

/// Returns whether a failure is what a load meets whose checkpoint has been replaced: its files are gone, or,
/// on NFS, no longer those that were opened. A handler that did not write them may take that for another
/// type.
bool says_gone(const std::exception_ptr& failure) {
  const auto code = code_of(failure);
  return code == make_error_code(Errc::not_found) || code == make_error_code(Errc::type_mismatch) ||
         code == std::error_code(ESTALE, std::system_category());
}

}  // namespace

ReadJob::ReadJob(std::shared_ptr<Services> services, std::filesystem::path path, Requests requests,
                 RegistrySnapshot registry, LoadOptions options, observe::Meter::TimePoint begin,
                 CallerMemoryUse memory)
    : Operation(std::move(services), fmt::format("load of {}", path.string()), begin, options.trace,
                Kind(memory, BlockingPhase::by_context)),
      path_(std::move(path)),
      requests_(std::move(requests)),
      registry_(std::move(registry)),
      options_(std::move(options)) {}

ReadJob::~ReadJob() {
  if (source_) {
    drop_later(services_owner(), std::move(source_));
  }
}

void ReadJob::make_way() noexcept {
  if (source_ && !is_given_up()) {  // Else it is still read.
    source_->release();
  }
}

contract::Resources ReadJob::resources() noexcept {
  return {plane(), services().coordinator, services().devices, options_.handler_options};
}

void ReadJob::require_uuid() const {
  CAIRN_ASSERT(source_ != nullptr, "a checkpoint is open when its uuid is looked at");
  const store::Manifest* manifest = source_->manifest();
  const std::string found = manifest == nullptr ? std::string() : store::to_string(manifest->uuid);
  if (!options_.uuid.empty() && options_.uuid != found) {
    throw Error(
        Errc::not_found,
        fmt::format("{} {}, not checkpoint {}", source_->path().string(),
                    found.empty() ? "belongs to another program" : "is checkpoint " + found, options_.uuid));
  }
}

Awaitable<> ReadJob::open_source(std::string metadata) {
  std::function<void()> open = [&] {
    source_ = services().checkpoint_store().open(services().disk.engine().syscalls(), path_, metadata);
    require_uuid();
  };
  co_await run_call(std::move(open));
  choose_parts();
}

void ReadJob::choose_parts() {
  CAIRN_ASSERT(source_ != nullptr && parts_.empty(), "the parts of a checkpoint are chosen once");
  const std::vector<store::SourceItem>& items = source_->items();
  if (requests_.empty()) {
    for (const store::SourceItem& item : items) {
      parts_.push_back({item, {}, {}});
    }
    return;
  }
  std::map<std::string_view, const store::SourceItem*> by_name;
  for (const store::SourceItem& item : items) {
    by_name.emplace(item.name, &item);
  }
  std::set<std::string_view> names;
  for (const Request& request : requests_) {
    if (!names.insert(request.name()).second) {
      throw Error(Errc::invalid_argument, fmt::format("'{}' is requested twice", request.name()));
    }
    const auto item = by_name.find(request.name());
    if (item == by_name.end()) {
      std::vector<std::string> available;
      for (const store::SourceItem& each : items) {
        available.push_back(each.name);
      }
      throw Error(Errc::not_found, fmt::format("{} has no checkpointable '{}'; it has: {}",
                                               source_->path().string(), request.name(), listed(available)));
    }
    parts_.push_back({*item->second, request.wanted(), {}});
  }
}

const Registration& ReadJob::resolve(const Part& part) const {
  CAIRN_ASSERT(source_ != nullptr, "a handler is found for what is open");
  if (source_->manifest() == nullptr) {
    return contract::resolve_foreign(registry_, source_->files(""), part.wanted, options_.handler_options,
                                     source_->path().string());
  }
  return contract::resolve_for_load(registry_, part.item.name, part.item.handler_id, part.wanted);
}

LoadContext ReadJob::context(const Part& part) {
  return {std::static_pointer_cast<ReadJob>(shared_from_this()), part.item.name, part.item.directory,
          part.item.handler_id};
}

std::string ReadJob::explain(const Part& part) const {
  if (source_->manifest() == nullptr || !part.registration) {
    return {};
  }
  return contract::explain_choice(registry_, part.item.handler_id, part.wanted, *part.registration);
}

void ReadJob::rethrow(const std::exception_ptr& failure, const Part& part, Asked asked) const {
  std::string handler = explain(part);
  const bool is_other = !handler.empty();
  if (!is_other) {
    const bool is_recorded = !part.item.handler_id.empty() || !part.registration;
    handler = fmt::format("handler {}", is_recorded ? std::string_view(part.item.handler_id)
                                                    : part.registration->handler->id());
  }
  const std::string who = fmt::format("{}: '{}' ({})", source_->root().string(), part.item.name, handler);
  if (is_other && code_of(failure) == make_error_code(Errc::not_found)) {
    // Another handler's files are not missing: they are of another type.
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      throw Error(Errc::type_mismatch, fmt::format("{}: {}", who, error.detail()));
    }
  }
  rethrow_of(failure, who, asked);
}

bool ReadJob::was_replaced() const {
  try {
    const auto now = services().checkpoint_store().open(services().disk.engine().syscalls(), path_);
    const bool are_checkpoints = now->manifest() != nullptr && source_ && source_->manifest() != nullptr;
    return !source_ || (are_checkpoints && now->manifest()->uuid != source_->manifest()->uuid);
  } catch (const Error& error) {
    if (error.code() != Errc::not_found && error.code() != Errc::not_committed) {
      throw;  // Nobody can tell: that is what the load says, and not that something is missing.
    }
    return false;  // It is gone, and the first failure says so.
  }
}

bool ReadJob::is_current() const {
  try {
    const auto now = services().checkpoint_store().open(services().disk.engine().syscalls(), path_);
    return now->manifest() != nullptr && now->manifest()->uuid == source_->manifest()->uuid;
  } catch (const Error&) {
    return false;
  }
}

void ReadJob::start_over() {
  meter().add_fallback("the checkpoint was replaced while it was read; the load began again",
                       path_.filename().string());
  CAIRN_PROBE("core.load_starts_over");
  source_.reset();
  parts_.clear();
  staging::DataPlane& plane = this->plane();
  plane.read_bytes = plane.cached_bytes = plane.wanted_bytes = plane.loaded_bytes = 0;
  {
    const MutexLock lock(files_mutex_);
    files_.clear();
  }
  forget_attempt();
}

Awaitable<> ReadJob::run_undisturbed() {
  for (int restarts = 0;; ++restarts) {
    std::exception_ptr failure;
    try {
      co_await attempt();
    } catch (...) {
      failure = std::current_exception();
    }
    if (!failure) {
      co_return;
    }
    bool is_overtaken = false;
    if (restarts < store::kMostRestarts && says_gone(failure)) {
      std::function<void()> look = [&] { is_overtaken = was_replaced(); };
      co_await run_call(std::move(look));
    }
    if (!is_overtaken || !may_start_over()) {
      std::rethrow_exception(
          is_overtaken ? with_context(failure, "the checkpoint was replaced during a joint load") : failure);
    }
    CAIRN_ASSERT(restarts < store::kMostRestarts, "a load starts over a few times only");
    start_over();
  }
}

void ReadJob::count_file(const std::string& relative) {
  const MutexLock lock(files_mutex_);
  files_.insert(relative);
}

std::size_t ReadJob::count_of_files() const {
  const MutexLock lock(files_mutex_);
  return files_.size();
}

}  // namespace cairn::core
