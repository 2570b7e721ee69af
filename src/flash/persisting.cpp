// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "coord/internal/borrowed_caller_thread.hpp"
#include "flash/retries.hpp"
#include "flash/state.hpp"

namespace cairn {

using flash::FlashSave;

/// The newest goes next: an older one that waits gives way.
void FlashCheckpointer::State::enqueue(const std::shared_ptr<FlashSave>& save) {
  std::shared_ptr<FlashSave> older;
  {
    const MutexLock lock(mutex);
    older = std::exchange(waiting, save);
    interrupted.set();
  }
  if (older) {
    give_up(*older,
            std::make_exception_ptr(Error(
                Errc::superseded, fmt::format("step {}: step {} was due on disk before this one was begun",
                                              older->step(), save->step()))));
  }
  persister.post([this] { persist_waiting(); });
}

void FlashCheckpointer::State::persist_waiting() noexcept {
  std::shared_ptr<FlashSave> save;
  {
    const MutexLock lock(mutex);
    save = std::exchange(waiting, nullptr);
    if (save) {
      interrupted = is_giving_up ? async::Event::happened() : async::Event();
      persisted_now = save->step();
    }
  }
  if (save) {
    persist(save);
    const MutexLock lock(mutex);
    persisted_now.reset();
  }
}

void FlashCheckpointer::State::persist(const std::shared_ptr<FlashSave>& save) noexcept {
  const std::uint64_t step = save->step();
  try {
    settle(*save);
  } catch (...) {  // The next save tells of it.
    give_up(*save, std::current_exception());
    return;
  }
  std::exception_ptr why;
  for (unsigned attempt = 0;; ++attempt) {
    try {
      SaveResult result = copy_to_disk(step);
      is_disk_failing = false;
      memory.set(step, &Image::is_on_disk);
      memory.set(step, &Image::is_wanted, false);
      save->end(std::move(result));
      return;
    } catch (...) {
      why = std::current_exception();
    }
    if (!std::exchange(is_disk_failing, true)) {
      report(why);
    }
    const std::optional<std::error_code> code = code_of(why);
    if (!code || !flash::may_succeed_later(*code) || !wait_to_try_again(attempt)) {
      break;
    }
  }
  if (is_damage(memory.path(step), why)) {
    memory.set(step, &Image::is_damaged);
  }
  {
    const MutexLock lock(mutex);
    loss = {save, with_context(why, fmt::format("step {}", step))};
  }
  give_up(*save, std::move(why));
}

/// What is there already, as an agent has put it there, is done.
SaveResult FlashCheckpointer::State::copy_to_disk(std::uint64_t step) {
  try {
    return copy_anew(step);
  } catch (const Error& error) {
    if (error.code() != Errc::already_exists) {
      throw;
    }
    disk.reload();
    if (persisted(step) != flash::Persisted::yes) {
      throw;
    }
  }
  SaveResult result;
  result.path = disk.info(step).path;
  return result;
}

SaveResult FlashCheckpointer::State::copy_anew(std::uint64_t step) {
  StepResponse copy;
  {
    const MutexLock one(disk_mutex);
    copy = copies.copy(step, memory.path(step), persisting);
  }
  copies.drop_plan(step);  // It is being saved there.
  {
    const MutexLock lock(mutex);
    copying = copy;
  }
  SaveResult result = copy.wait();
  if (result.durable_time.count() > 0) {  // Else it was there.
    copies.add_cost(result.durable_time);
  }
  return result;
}

/// False when there is no use in that: a newer step waits, or the program ends.
bool FlashCheckpointer::State::wait_to_try_again(unsigned attempt) {
  async::Event sooner;
  {
    const MutexLock lock(mutex);
    sooner = interrupted;
  }
  return !coord::wait_with_progress(*coord::single_process(), sooner, flash::pause_after(attempt), clock);
}

void FlashCheckpointer::State::give_up(FlashSave& save, std::exception_ptr why) noexcept {
  copies.drop_plan(save.step());
  memory.set(save.step(), &Image::is_wanted, false);
  save.fail(std::move(why));
}

/// A disk that is full or away is tried again, and stops nothing: so it is told beside all that.
void FlashCheckpointer::State::report(const std::exception_ptr& why) const noexcept {
  if (context.options().on_lost_failure) {
    context.options().on_lost_failure(root.string(), why);
  }
}

}  // namespace cairn
