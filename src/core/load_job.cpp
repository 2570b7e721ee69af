// SPDX-License-Identifier: Apache-2.0
#include "core/load_job.hpp"

#include <functional>
#include <utility>

#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "async/internal/suspend.hpp"
#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"

namespace cairn::core {

LoadJob::LoadJob(std::shared_ptr<Services> services, std::filesystem::path path, Requests requests,
                 RegistrySnapshot registry, LoadOptions options, observe::Meter::TimePoint begin,
                 CallerMemoryUse memory)
    : ReadJob(std::move(services), std::move(path), std::move(requests), std::move(registry),
              std::move(options), begin, memory),
      joint_(this->options().together
                 ? joint::JointLoad::join(this->services().coordinator, this->path().string(),
                                          this->options().join_timeout)
                 : nullptr) {}

LoadJob::~LoadJob() {
  if (joint_) {
    joint_->stop_listening();  // First: what listens uses `this`.
  }
}

void LoadJob::start() {
  if (joint_) {
    joint_->on_failure([this](const std::exception_ptr& why) { stop_because(why); });
  }
  launch(load(), options().deadline);
}

Awaitable<> LoadJob::load() {
  services().metrics.begin_load();
  std::exception_ptr failure;
  try {
    co_await run_undisturbed();
    if (joint_) {
      co_await joint_->end();  // No rank succeeds before all have loaded.
    }
  } catch (...) {
    failure = std::current_exception();
  }
  // A load that was cancelled tells the others, and delivers its trace, as well.
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  if (failure && joint_) {
    CAIRN_PROBE("core.load_fails_for_all_ranks");
    joint_->fail(Operation::explain(failure));
  }
  meter().end_step(Step::fetch);
  std::string problem;
  if (meter().trace() != nullptr) {
    std::function<void()> deliver = [&] { problem = stats().deliver_trace(); };
    co_await run_call(std::move(deliver));
  }
  if (failure) {
    std::rethrow_exception(with_problem(failure, problem));
  }
  end_load(std::move(problem));
}

joint::RankValues LoadJob::rank_values() const {
  joint::RankValues rank_values;
  rank_values.emplace_back("the path", path().string());
  rank_values.emplace_back("verify", options().verify ? "true" : "false");
  rank_values.emplace_back("the uuid", options().uuid);
  std::string names;
  for (const Request& request : requests()) {
    names += fmt::format("'{}' ", request.name());
  }
  rank_values.emplace_back("the names", std::move(names));
  return rank_values;
}

// Rank 0 alone asks the disk which checkpoint it is; the others open what it has found, by its metadata.
Awaitable<> LoadJob::open_together() {
  joint::RankValues mine = rank_values();
  CAIRN_ASSERT(joint_ != nullptr, "ranks open together what they load together");
  Awaitable<> agreeing = joint_->agree(std::move(mine));
  co_await std::move(agreeing);
  std::string metadata;
  if (joint_->is_primary()) {
    try {
      co_await open_source();
    } catch (const Error& error) {
      if (error.code() == Errc::not_found) {  // Nobody finds it: who begins anew then does not do so alone.
        joint_->fail_together(error);
      }
      throw;
    }
    std::function<void()> read = [&] { metadata = source().manifest_text(); };
    co_await run_call(std::move(read));
  }
  Awaitable<std::string> sharing = joint_->share(std::move(metadata));
  metadata = co_await std::move(sharing);
  if (joint_->is_primary()) {
    co_return;
  }
  co_await open_source(metadata);
  // Once it is open: what is compared is what will be read, whatever takes its name meanwhile.
  if (!source().is_described_by(metadata)) {
    CAIRN_PROBE("core.ranks_see_different_checkpoints");
    throw Error(Errc::not_found,
                fmt::format("{} is another checkpoint here than at rank 0: it was replaced while all "
                            "ranks opened it, or they do not see one directory",
                            source().path().string()));
  }
}

std::optional<coord::Channel> LoadJob::next_reading(const std::string& directory) {
  if (!joint_) {
    return std::nullopt;
  }
  // Numbered: a handler may read several times, in the same order on all ranks.
  const MutexLock lock(mutex_);
  return joint_->channel(fmt::format("{}/{}", directory, ++readings_[directory]));
}

std::optional<coord::Channel> LoadJob::channel(const std::string& directory, std::string_view what) const {
  if (!joint_) {
    return std::nullopt;
  }
  return joint_->channel(fmt::format("{}//{}", directory, what));  // No reading is called so.
}

void LoadJob::add_differences(const std::string& name, std::vector<std::string> missing,
                              std::vector<std::string> unexpected) {
  LoadResult found;
  found.missing = std::move(missing);
  found.unexpected = std::move(unexpected);
  const MutexLock lock(mutex_);
  loaded_.is_one_of_many_ = parts().size() > 1;
  loaded_.add_differences(name, std::move(found));
}

void LoadJob::refuse_effect() noexcept {
  if (joint_) {  // At once, not at the end of the work: that may be stuck, and others wait for this rank.
    joint_->fail(Operation::explain(nullptr));
  }
}

Awaitable<> LoadJob::attempt() {
  if (joint_) {
    co_await open_together();
  } else {
    co_await open_source();
  }
  for (Part& part : parts()) {
    part.registration = resolve(part);
    if (const std::string other = explain(part); !other.empty()) {
      meter().add_fallback(other, part.item.name);
    }
  }
  meter().end_step(Step::find);
  Backgrounds backgrounds(parts().size());
  std::vector<Awaitable<>> blocking;
  for (std::size_t i = 0; i < parts().size(); ++i) {
    blocking.push_back(begin_part(i, &backgrounds));
  }
  co_await run_phase(blocking_lane(), std::move(blocking));
  meter().end_step(Step::plan);
  mark_prepared();
  std::vector<Awaitable<>> background;
  for (std::size_t i = 0; i < parts().size(); ++i) {
    CAIRN_ASSERT(backgrounds[i].has_value(), "a part has begun before it is finished");
    background.push_back(finish_part(i, std::move(*backgrounds[i])));
  }
  co_await run_phase(background_lane(), std::move(background));
}

Awaitable<> LoadJob::begin_part(std::size_t index, Backgrounds* backgrounds) {
  const Part& part = parts()[index];
  CAIRN_ASSERT(!(*backgrounds)[index].has_value(), "a part begins once");
  std::exception_ptr failure;
  try {
    Awaitable<Background<AnyValue>> blocking = part.registration->handler->load(context(part), part.wanted);
    (*backgrounds)[index].emplace(co_await std::move(blocking));
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    const boost::asio::cancellation_state state = co_await boost::asio::this_coro::cancellation_state;
    const Asked asked = asked_of(state, is_stopped());
    rethrow_of_part(failure, part, asked);
  }
}

Awaitable<> LoadJob::finish_part(std::size_t index, Background<AnyValue> background) {
  const Part& part = parts()[index];
  std::exception_ptr failure;
  try {
    AnyValue value = co_await std::move(background);
    const MutexLock lock(mutex_);
    loaded_.values_.insert_or_assign(part.item.name, std::move(value));
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    const boost::asio::cancellation_state state = co_await boost::asio::this_coro::cancellation_state;
    const Asked asked = asked_of(state, is_stopped());
    rethrow_of_part(failure, part, asked);
  }
}

void LoadJob::rethrow_of_part(const std::exception_ptr& failure, const Part& part, Asked asked) const {
  if (joint_ && failure == joint_->failure()) {  // Ranks that hear of it say the same.
    std::rethrow_exception(asked == Asked::to_stop
                               ? async::cancelled()
                               : with_context(failure, fmt::format("load of {}", path().string())));
  }
  rethrow(failure, part, asked);
}

void LoadJob::forget_attempt() {
  CAIRN_PROBE("core.load_begins_again");
  const MutexLock lock(mutex_);
  loaded_ = Loaded();
}

void LoadJob::add_problem(const std::string& problem) noexcept {
  const MutexLock lock(mutex_);
  loaded_.result_.problems.push_back(problem);
}

void LoadJob::end_load(std::string problem) {
  const MutexLock lock(mutex_);
  result_ = std::exchange(loaded_.result_, LoadResult());  // With what handlers have told.
  stats().fill_numbers(result_);
  stats().fill_words(result_);
  result_.path = source().path();
  result_.bytes = plane().read_bytes;
  result_.cached_bytes = plane().cached_bytes;
  result_.files = count_of_files();
  result_.load_time = meter().last() - meter().begin();
  if (!problem.empty()) {
    result_.problems.push_back(std::move(problem));
  }
  loaded_.result_ = result_;
  loaded_.options_ = options().handler_options;
  loaded_.is_one_of_many_ = parts().size() > 1;
}

void LoadJob::count_end(const std::exception_ptr& failure) {
  if (failure) {
    services().metrics.fail_load(failure);
  } else {
    services().metrics.end_load(result());
  }
}

LoadResult LoadJob::result() const {
  const MutexLock lock(mutex_);
  return result_;
}

LoadProgress LoadJob::progress() const {
  LoadProgress progress;
  progress.loaded_bytes = plane().loaded_bytes;  // First: it never seems to be more than the total.
  progress.total_bytes = plane().wanted_bytes;
  return progress;
}

Loaded LoadJob::take_loaded() {
  const MutexLock lock(mutex_);
  return std::exchange(loaded_, Loaded());
}

}  // namespace cairn::core
