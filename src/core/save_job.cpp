// SPDX-License-Identifier: Apache-2.0
#include "core/save_job.hpp"

#include <algorithm>
#include <ctime>
#include <functional>
#include <new>
#include <utility>

#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include "cairn/async/when_all.hpp"
#include "cairn/core/names.hpp"
#include "cairn/io/manifest.hpp"

#include "core/other_files.hpp"

namespace cairn::core {
namespace {

std::string utc(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

/// "'point' (handler example.point/1)": who failed, for messages.
std::string who(const SaveItem& item) {
  return fmt::format("'{}' (handler {})", item.checkpointable.name(), item.registration.handler->id());
}

}  // namespace

SaveItem::SaveItem(Checkpointable what, Registration whose)
    : checkpointable(std::move(what)),
      registration(std::move(whose)),
      directory(directory_of(checkpointable.name())) {}

SaveJob::SaveJob(std::shared_ptr<Services> services, std::filesystem::path path, std::vector<SaveItem> items,
                 SaveOptions options, Meter::TimePoint begin)
    : Operation(std::move(services), fmt::format("save of {}", path.string()), begin, options.trace),
      path_(std::move(path)),
      items_(std::move(items)),
      options_(std::move(options)),
      started_at_(utc(this->services().clock.now())),
      uuid_(io::make_uuid(this->services().options.random)) {
  meter().end_step(Step::resolve);
}

void SaveJob::start(const std::shared_ptr<SaveJob>& self) {
  async::Event turn = self->services().saves.enter(self);
  try {
    self->launch(work(self, std::move(turn)), self->options_.deadline);
  } catch (...) {
    self->services().saves.leave(self.get());
    throw;
  }
}

Awaitable<> SaveJob::work(std::shared_ptr<SaveJob> self, async::Event turn) {
  std::exception_ptr failure;
  try {
    co_await turn.wait();
    co_await write_all(self);
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    co_await boost::asio::this_coro::throw_if_cancelled(false);
    co_await self->stop_helpers();
    if (self->staged_) {
      std::function<void()> abandon = [&self] { self->staged_->abandon(); };
      co_await self->run(std::move(abandon));
    }
    if (self->meter().trace() != nullptr) {
      std::function<void()> deliver = [&] {
        self->meter().end_step(Step::retire);
        failure = with_problem(failure, self->deliver_trace());
      };
      co_await self->run(std::move(deliver));
    }
    std::rethrow_exception(failure);
  }
}

Awaitable<> SaveJob::write_all(std::shared_ptr<SaveJob> self) {
  std::vector<std::optional<Background<>>> backgrounds(self->items_.size());
  std::vector<Awaitable<>> blocking;
  blocking.push_back(create_directory(self));
  for (std::size_t i = 0; i < self->items_.size(); ++i) {
    blocking.push_back(stage_item(self, i, &backgrounds));
  }
  std::vector<std::exception_ptr> failures = co_await async::settle_all(std::move(blocking));
  if (auto failure = combine(failures)) {
    std::rethrow_exception(failure);
  }
  self->meter().end_step(Step::stage);
  {
    const std::lock_guard lock(self->mutex_);
    self->result_.blocking_time = self->meter().last() - self->meter().begin();
  }
  self->mark_prepared();

  std::vector<Awaitable<>> background;
  for (std::size_t i = 0; i < self->items_.size(); ++i) {
    background.push_back(finish_item(self, i, std::move(*backgrounds[i])));
  }
  failures = co_await async::settle_all(std::move(background));
  if (auto failure = combine(failures)) {
    std::rethrow_exception(failure);
  }
  self->meter().end_step(Step::background);
  // With the trace in one go: a cancellation between them would come too late to be one.
  std::function<void()> publish = [&self] {
    self->publish();
    self->add_problem(self->deliver_trace());
  };
  co_await self->run(std::move(publish));
}

Awaitable<> SaveJob::create_directory(std::shared_ptr<SaveJob> self) {
  std::exception_ptr failure;
  try {
    std::function<void()> create = [&self] {
      io::StagedOptions options;
      options.overwrite = self->options_.overwrite;
      options.uuid = self->uuid_;
      options.on_step = [job = self.get()](io::PublishStep step) { job->end_publish_step(step); };
      self->staged_.emplace(io::StagedDirectory::create(self->engine(), self->path_, std::move(options)));
      for (const SaveItem& item : self->items_) {
        self->staged_->make_directory(item.directory);
      }
    };
    co_await self->run(std::move(create));
  } catch (...) {
    failure = std::current_exception();
  }
  self->created_.complete(failure);
  if (failure) {
    std::rethrow_exception(failure);
  }
}

Awaitable<> SaveJob::stage_item(std::shared_ptr<SaveJob> self, std::size_t index,
                                std::vector<std::optional<Background<>>>* backgrounds) {
  const SaveItem& item = self->items_[index];
  std::exception_ptr failure;
  try {
    SaveContext context(self, item.checkpointable.name(), item.directory);
    Awaitable<Background<>> blocking =
        item.registration.handler->save(std::move(context), item.checkpointable.value());
    (*backgrounds)[index].emplace(co_await std::move(blocking));
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    rethrow_of(failure, who(item));
  }
}

Awaitable<> SaveJob::finish_item(std::shared_ptr<SaveJob> self, std::size_t index, Background<> background) {
  const bool has_background = background.valid();
  std::exception_ptr failure;
  try {
    if (has_background) {
      co_await std::move(background);
    }
    self->require_written(self->items_[index].directory + "/",
                          has_background ? "" : "; the handler returned an empty background");
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    rethrow_of(failure, who(self->items_[index]));
  }
}

void SaveJob::claim(const std::string& relative) {
  const std::lock_guard lock(mutex_);
  if (!claimed_.insert(relative).second) {
    throw Error(Errc::already_exists, fmt::format("the file '{}' is written twice", relative));
  }
}

void SaveJob::add(io::FileDigest digest) {
  const std::lock_guard lock(mutex_);
  std::string path = digest.path;
  digests_.emplace(std::move(path), std::move(digest));
}

void SaveJob::require_written(const std::string& prefix, std::string_view remark) const {
  const std::lock_guard lock(mutex_);
  for (auto file = claimed_.lower_bound(prefix); file != claimed_.end() && file->starts_with(prefix);
       ++file) {
    if (!digests_.contains(*file)) {
      throw Error(
          Errc::handler_failed,
          fmt::format("the file '{}' was begun, but its background part was never awaited{}", *file, remark));
    }
  }
}

std::vector<io::FileDigest> SaveJob::digest_files() {
  require_written(
      "", " before the save was published");  // Begun after the end of the handler's background phase.
  std::map<std::string, io::FileDigest> written;
  {
    const std::lock_guard lock(mutex_);
    written.swap(digests_);
  }
  // Not under the lock: it may read for long.
  std::vector<io::FileDigest> digests = digest_other_files(staged_->directory(), written);
  digests.reserve(digests.size() + written.size());
  for (auto& [path, digest] : written) {
    digests.push_back(std::move(digest));
  }
  const auto by_path = [](const io::FileDigest& a, const io::FileDigest& b) { return a.path < b.path; };
  std::sort(digests.begin(), digests.end(), by_path);
  return digests;
}

void SaveJob::publish() {
  io::Manifest manifest;
  const std::vector<io::FileDigest> digests = digest_files();
  meter().end_step(Step::read_back);
  manifest.started = started_at_;
  manifest.committed = utc(services().clock.now());
  manifest.world_size = static_cast<std::uint32_t>(services().coordinator.size());
  manifest.custom_metadata = options_.custom_metadata;
  for (const SaveItem& item : items_) {
    io::CheckpointableEntry entry;
    entry.name = item.checkpointable.name();
    entry.handler_id = item.registration.handler->id();
    entry.directory = item.directory;
    manifest.checkpointables.push_back(std::move(entry));
  }
  prepare_result(digests);
  staged_->publish(std::move(manifest), digests);
  meter().end_step(Step::retire);

  add_problem(staged_->retirement_problem());
  const std::lock_guard lock(mutex_);
  for (SaveResult* each : {&result_, spare_result_ ? &*spare_result_ : nullptr}) {
    if (each != nullptr) {
      fill_numbers(*each);
      each->durable_time = meter().last() - meter().begin();
    }
  }
}

void SaveJob::prepare_result(std::span<const io::FileDigest> digests) {
  const std::lock_guard lock(mutex_);
  fill_words(result_);
  result_.path = path_;
  result_.files = digests.size();
  for (const io::FileDigest& digest : digests) {
    result_.bytes += digest.size_bytes;
  }
  spare_result_ = result_;
}

void SaveJob::end_publish_step(io::PublishStep step) {
  switch (step) {
    case io::PublishStep::describe:
      return meter().end_step(Step::describe);
    case io::PublishStep::sync_directories:
      return meter().end_step(Step::sync_directories);
    case io::PublishStep::make_visible:
      return meter().end_step(Step::rename);
    case io::PublishStep::sync_parent:
      return meter().end_step(Step::sync_parent);
  }
}

void SaveJob::add_problem(const std::string& problem) noexcept {
  const std::lock_guard lock(mutex_);
  if (problem.empty()) {
    return;
  }
  try {
    result_.problems.push_back(problem);
    spare_result_.reset();  // It lacks the problem.
  } catch (const std::bad_alloc&) {
    // The checkpoint is there: the save must not fail for want of words.
  }
}

void SaveJob::count_end(const std::exception_ptr& failure) {
  if (failure) {
    services().metrics.fail_save(failure);
  } else {
    const std::lock_guard lock(mutex_);
    services().metrics.end_save(result_);
  }
}

SaveResult SaveJob::result() {
  const std::lock_guard lock(mutex_);
  if (spare_result_) {
    SaveResult result = std::move(*spare_result_);
    spare_result_.reset();
    return result;
  }
  return result_;
}

SaveProgress SaveJob::progress() const {
  SaveProgress progress;
  progress.total_bytes = total_bytes;
  progress.staged_bytes = staged_bytes;
  progress.written_bytes = written_bytes;
  return progress;
}

}  // namespace cairn::core
