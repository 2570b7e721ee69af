// SPDX-License-Identifier: Apache-2.0
#include "core/metadata_job.hpp"

#include <system_error>

#include <functional>
#include <new>
#include <utility>
#include <vector>

#include <boost/asio/this_coro.hpp>

#include "async/internal/suspend.hpp"
#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"

namespace cairn::core {
namespace {

/// Returns whether a failure says something of what was read, and not of the program that reads it.
bool is_about_item(const std::exception_ptr& failure, Asked asked) {
  if (asked != Asked::nothing && async::is_cancelled(failure)) {
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

Awaitable<> MetadataJob::describe() {
  return run_undisturbed();
}

Awaitable<> MetadataJob::attempt() {
  co_await open_source();
  describe_checkpoint();
  std::vector<Awaitable<>> questions;
  for (std::size_t i = 0; i < parts().size(); ++i) {
    questions.push_back(describe_part(i));
  }
  co_await run_phase(blocking_lane(), std::move(questions));
  if (missing_) {
    bool is_current = true;
    std::function<void()> look = [&] { is_current = this->is_current(); };
    co_await run_call(std::move(look));
    if (!is_current) {
      CAIRN_PROBE("core.replaced_while_it_was_described");
      std::rethrow_exception(missing_);  // It is not the item that lacks a file.
    }
  }
}

void MetadataJob::describe_checkpoint() {
  const MutexLock lock(mutex_);
  metadata_.path = source().path();
  if (const store::Manifest* manifest = source().manifest()) {
    metadata_.uuid = store::to_string(manifest->uuid);
    metadata_.started = manifest->started;
    metadata_.committed = manifest->committed;
    metadata_.world_size = manifest->world_size;
    metadata_.custom_metadata = manifest->custom_metadata;
    metadata_.annotations = manifest->annotations;
  }
}

Awaitable<> MetadataJob::describe_part(std::size_t index) {
  Part& part = parts()[index];
  ItemMetadata answer;
  answer.handler_id = part.item.handler_id;
  for (const std::string& file : source().files(part.item.directory)) {
    const std::string relative = part.item.directory.empty() ? file : part.item.directory + "/" + file;
    answer.files.push_back({file, source().file_bytes(relative).value_or(0), source().writer_of(relative)});
    answer.bytes += answer.files.back().bytes;
  }
  std::exception_ptr failure;
  try {
    part.registration = resolve(part);
    answer.handler_id =
        part.item.handler_id.empty() ? std::string(part.registration->handler->id()) : part.item.handler_id;
    answer.abstract = co_await part.registration->handler->metadata(context(part));
    answer.handler = part.registration->handler;
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure && source().manifest() == nullptr) {
    std::rethrow_exception(failure);
  }
  if (failure) {
    const boost::asio::cancellation_state state = co_await boost::asio::this_coro::cancellation_state;
    const Asked asked = asked_of(state, is_stopped());
    if (!is_about_item(failure, asked)) {
      rethrow(failure, part, asked);
    }
    note_problem(part, failure, answer, asked);
  }
  const MutexLock lock(mutex_);
  metadata_.items.insert_or_assign(part.item.name, std::move(answer));
}

void MetadataJob::note_problem(const Part& part, const std::exception_ptr& failure, ItemMetadata& answer,
                               Asked asked) {
  CAIRN_ASSERT(failure != nullptr, "a problem is a failure that was caught");
  if (code_of(failure) == make_error_code(Errc::not_found)) {
    missing_ = failure;
  }
  // An id that nobody knows is told of with all that was tried.
  const bool is_unknown = code_of(failure) == make_error_code(Errc::unknown_handler_id);
  try {
    if (is_unknown) {
      std::rethrow_exception(failure);
    }
    rethrow(failure, part, asked);
  } catch (const Error& error) {
    answer.problem = error.detail();
    answer.problem_code = error.code();
  }
}

void MetadataJob::forget_attempt() {
  missing_ = nullptr;
  const MutexLock lock(mutex_);
  metadata_ = CheckpointMetadata();
}

CheckpointMetadata MetadataJob::take_metadata() {
  const MutexLock lock(mutex_);
  return std::exchange(metadata_, CheckpointMetadata());
}

}  // namespace cairn::core
