// SPDX-License-Identifier: Apache-2.0
#include "core/load_job.hpp"

#include <system_error>

#include <cerrno>
#include <functional>
#include <map>
#include <new>
#include <set>
#include <utility>

#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include "cairn/async/awaitable.hpp"

#include "async/internal/suspend.hpp"
#include "core/drop_later.hpp"
#include "core/resolve.hpp"
#include "store/internal/committed_directory.hpp"

namespace cairn::core {
namespace {

/// Whether a failure says something of what was read, and not of the program that reads it.
bool is_about_item(const std::exception_ptr& failure) {
  if (!failure || async::is_cancelled(failure)) {
    return false;
  }
  try {
    std::rethrow_exception(failure);
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const std::system_error& error) {
    return error.code() != std::errc::too_many_files_open &&
           error.code() != std::errc::too_many_files_open_in_system &&
           error.code() != std::errc::not_enough_memory;
  } catch (...) {
    return true;  // A handler of the user's.
  }
}

}  // namespace

namespace {

/// Whether a failure is what a load meets whose checkpoint has been replaced: its files are gone, or, on NFS, no longer
/// those that were opened. A handler that did not write them may take that for another type.
bool says_gone(const std::exception_ptr& failure) {
  const auto code = code_of(failure);
  return code == make_error_code(Errc::not_found) || code == make_error_code(Errc::type_mismatch) ||
         code == std::error_code(ESTALE, std::system_category());
}

}  // namespace

LoadJob::LoadJob(std::shared_ptr<Services> services, std::filesystem::path path, Requests requests,
                 RegistrySnapshot registry, LoadOptions options, observe::Meter::TimePoint begin,
                 CallersMemory memory)
    : Operation(std::move(services), fmt::format("load of {}", path.string()), begin, options.trace,
                Kind(memory, BlockingPhase::by_context)),
      path_(std::move(path)),
      requests_(std::move(requests)),
      registry_(std::move(registry)),
      options_(std::move(options)) {}

LoadJob::~LoadJob() {
  if (source_) {
    drop_later(services_owner(), std::move(source_));
  }
}

Awaitable<> LoadJob::open_source(std::shared_ptr<LoadJob> self) {
  std::function<void()> open = [&self] {
    self->source_ = store::FileSource::open(self->services().engine->syscalls(), self->path_);
  };
  co_await self->run_call(std::move(open));
  self->choose_parts();
}

void LoadJob::choose_parts() {
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
      throw Error(Errc::invalid_argument, fmt::format("'{}' is asked for twice", request.name()));
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

const Registration& LoadJob::resolve(const Part& part) const {
  if (source_->manifest() == nullptr) {
    return resolve_foreign(registry_, source_->files(""), part.wanted, source_->path().string());
  }
  return resolve_for_load(registry_, part.item.name, part.item.handler_id, part.wanted);
}

LoadContext LoadJob::context(const Part& part) {
  return {std::static_pointer_cast<LoadJob>(shared_from_this()), part.item.name, part.item.directory};
}

std::string LoadJob::explain(const Part& part) const {
  if (source_->manifest() == nullptr || !part.registration) {
    return {};
  }
  return explain_choice(registry_, part.item.handler_id, part.wanted, *part.registration);
}

void LoadJob::rethrow(const std::exception_ptr& failure, const Part& part) const {
  std::string handler = explain(part);
  const bool is_other = !handler.empty();
  if (!is_other) {
    handler = fmt::format("handler {}",
                          part.registration ? part.registration->handler->id() : part.item.handler_id);
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
  rethrow_of(failure, who);
}

bool LoadJob::was_replaced() const {
  try {
    const auto now = store::FileSource::open(services().engine->syscalls(), path_);
    const bool are_checkpoints = now->manifest() != nullptr && source_ && source_->manifest() != nullptr;
    return !source_ || (are_checkpoints && now->manifest()->uuid != source_->manifest()->uuid);
  } catch (const Error& error) {
    if (error.code() != Errc::not_found && error.code() != Errc::not_committed) {
      throw;  // Nobody can tell: that is what the load says, and not that something is missing.
    }
    return false;  // It is gone, and the first failure says so.
  }
}

void LoadJob::start_over() {
  meter().add_fallback("the checkpoint was replaced while it was read; the load began again",
                       path_.filename().string());
  source_.reset();
  parts_.clear();
  plane().read_bytes = 0;
  plane().cached_bytes = 0;
  const std::lock_guard lock(mutex_);
  loaded_ = Loaded();
  files_.clear();
  metadata_ = CheckpointMetadata();
}

Awaitable<> LoadJob::run_undisturbed(std::shared_ptr<LoadJob> self,
                                     Awaitable<> (*attempt)(std::shared_ptr<LoadJob>)) {
  for (int restarts = 0;; ++restarts) {
    std::exception_ptr failure;
    try {
      co_await attempt(self);
    } catch (...) {
      failure = std::current_exception();
    }
    if (!failure) {
      co_return;
    }
    bool is_overtaken = false;
    if (restarts < store::kMostRestarts && says_gone(failure)) {
      std::function<void()> look = [&] { is_overtaken = self->was_replaced(); };
      co_await self->run_call(std::move(look));
    }
    if (!is_overtaken) {
      std::rethrow_exception(failure);
    }
    self->start_over();
  }
}

Awaitable<> LoadJob::load_all(std::shared_ptr<LoadJob> self) {
  self->is_load_ = true;
  self->services().metrics.begin_load();
  std::exception_ptr failure;
  try {
    co_await run_undisturbed(self, &LoadJob::load_parts);
  } catch (...) {
    failure = std::current_exception();
  }
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  self->meter().end_step(Step::fetch);
  std::string problem;
  if (self->meter().trace() != nullptr) {
    std::function<void()> deliver = [&] { problem = self->deliver_trace(); };
    co_await self->run_call(std::move(deliver));
  }
  if (failure) {
    std::rethrow_exception(with_problem(failure, problem));
  }
  self->end_load(std::move(problem));
}

Awaitable<> LoadJob::load_parts(std::shared_ptr<LoadJob> self) {
  co_await open_source(self);
  for (Part& part : self->parts_) {
    part.registration = self->resolve(part);
    if (const std::string other = self->explain(part); !other.empty()) {
      self->meter().add_fallback(other, part.item.name);
    }
  }
  self->meter().end_step(Step::find);
  std::vector<std::optional<Background<AnyValue>>> backgrounds(self->parts_.size());
  std::vector<Awaitable<>> blocking;
  for (std::size_t i = 0; i < self->parts_.size(); ++i) {
    blocking.push_back(begin_part(self, i, &backgrounds));
  }
  std::vector<std::exception_ptr> failures =
      co_await async::settle_all_on(self->blocking_lane(), std::move(blocking));
  if (auto failure = combine(failures)) {
    std::rethrow_exception(failure);
  }
  self->meter().end_step(Step::plan);
  self->mark_prepared();
  std::vector<Awaitable<>> background;
  for (std::size_t i = 0; i < self->parts_.size(); ++i) {
    background.push_back(finish_part(self, i, std::move(*backgrounds[i])));
  }
  failures = co_await async::settle_all_on(self->background_lane(), std::move(background));
  if (auto failure = combine(failures)) {
    std::rethrow_exception(failure);
  }
}

Awaitable<> LoadJob::begin_part(std::shared_ptr<LoadJob> self, std::size_t index,
                                std::vector<std::optional<Background<AnyValue>>>* backgrounds) {
  const Part& part = self->parts_[index];
  std::exception_ptr failure;
  try {
    Awaitable<Background<AnyValue>> blocking =
        part.registration->handler->load(self->context(part), part.wanted);
    (*backgrounds)[index].emplace(co_await std::move(blocking));
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    self->rethrow(failure, part);
  }
}

Awaitable<> LoadJob::finish_part(std::shared_ptr<LoadJob> self, std::size_t index,
                                 Background<AnyValue> background) {
  const Part& part = self->parts_[index];
  std::exception_ptr failure;
  try {
    AnyValue value = co_await std::move(background);
    const std::lock_guard lock(self->mutex_);
    self->loaded_.values_.insert_or_assign(part.item.name, std::move(value));
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    self->rethrow(failure, part);
  }
}

Awaitable<> LoadJob::describe_all(std::shared_ptr<LoadJob> self) {
  return run_undisturbed(std::move(self), &LoadJob::describe_parts);
}

Awaitable<> LoadJob::describe_parts(std::shared_ptr<LoadJob> self) {
  co_await open_source(self);
  {
    const std::lock_guard lock(self->mutex_);
    self->metadata_.path = self->source_->path();
    if (const store::Manifest* manifest = self->source_->manifest()) {
      self->metadata_.uuid = store::to_string(manifest->uuid);
      self->metadata_.started = manifest->started;
      self->metadata_.committed = manifest->committed;
      self->metadata_.world_size = manifest->world_size;
      self->metadata_.custom_metadata = manifest->custom_metadata;
    }
  }
  std::exception_ptr missing;
  std::vector<Awaitable<>> questions;
  for (std::size_t i = 0; i < self->parts_.size(); ++i) {
    questions.push_back(describe_part(self, i, &missing));
  }
  const std::vector<std::exception_ptr> failures =
      co_await async::settle_all_on(self->blocking_lane(), std::move(questions));
  if (auto failure = combine(failures)) {
    std::rethrow_exception(failure);
  }
  if (missing) {
    bool is_current = true;
    std::function<void()> look = [&] { is_current = self->is_current(); };
    co_await self->run_call(std::move(look));
    if (!is_current) {
      std::rethrow_exception(missing);  // It is not the item that lacks a file.
    }
  }
}

// outlives: `missing` is the caller's, who awaits this
Awaitable<> LoadJob::describe_part(std::shared_ptr<LoadJob> self, std::size_t index,
                                   std::exception_ptr* missing) {
  Part& part = self->parts_[index];
  ItemMetadata answer;
  answer.handler_id = part.item.handler_id;
  for (const std::string& file : self->source_->files(part.item.directory)) {
    const std::string relative = part.item.directory.empty() ? file : part.item.directory + "/" + file;
    answer.files.push_back({file, self->source_->file_bytes(relative).value_or(0)});
    answer.bytes += answer.files.back().bytes;
  }
  std::exception_ptr failure;
  try {
    part.registration = self->resolve(part);
    answer.handler_id =
        part.item.handler_id.empty() ? std::string(part.registration->handler->id()) : part.item.handler_id;
    answer.abstract = co_await part.registration->handler->metadata(self->context(part));
    answer.handler = part.registration->handler;
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure && self->source_->manifest() == nullptr) {
    std::rethrow_exception(failure);
  }
  if (failure && !is_about_item(failure)) {
    self->rethrow(failure, part);
  }
  if (failure) {
    self->note_problem(part, failure, answer);
    *missing = code_of(failure) == make_error_code(Errc::not_found) ? failure : *missing;
  }
  const std::lock_guard lock(self->mutex_);
  self->metadata_.items.insert_or_assign(part.item.name, std::move(answer));
}

void LoadJob::note_problem(const Part& part, const std::exception_ptr& failure, ItemMetadata& answer) const {
  // An id that nobody knows is told of with all that was tried.
  const bool is_unknown = code_of(failure) == make_error_code(Errc::unknown_handler_id);
  try {
    if (is_unknown) {
      std::rethrow_exception(failure);
    }
    rethrow(failure, part);
  } catch (const Error& error) {
    answer.problem = error.detail();
    answer.problem_code = error.code();
  }
}

bool LoadJob::is_current() const {
  try {
    const auto now = store::FileSource::open(services().engine->syscalls(), path_);
    return now->manifest() != nullptr && now->manifest()->uuid == source_->manifest()->uuid;
  } catch (const Error&) {
    return false;
  }
}

void LoadJob::count_file(const std::string& relative) {
  const std::lock_guard lock(mutex_);
  files_.insert(relative);
}

void LoadJob::end_load(std::string problem) {
  const std::lock_guard lock(mutex_);
  fill_numbers(result_);
  fill_words(result_);
  result_.path = source_->path();
  result_.bytes = plane().read_bytes;
  result_.cached_bytes = plane().cached_bytes;
  result_.files = files_.size();
  result_.load_time = meter().last() - meter().begin();
  if (!problem.empty()) {
    result_.problems.push_back(std::move(problem));
  }
  loaded_.result_ = result_;
}

void LoadJob::count_end(const std::exception_ptr& failure) {
  if (!is_load_) {
    return;
  }
  if (failure) {
    services().metrics.fail_load(failure);
  } else {
    services().metrics.end_load(result());
  }
}

LoadResult LoadJob::result() {
  const std::lock_guard lock(mutex_);
  return result_;
}

Loaded LoadJob::take_loaded() {
  const std::lock_guard lock(mutex_);
  return std::exchange(loaded_, Loaded());
}

CheckpointMetadata LoadJob::take_metadata() {
  const std::lock_guard lock(mutex_);
  return std::exchange(metadata_, CheckpointMetadata());
}

}  // namespace cairn::core
