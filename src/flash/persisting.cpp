// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "coord/internal/borrowed_caller_thread.hpp"
#include "flash/retries.hpp"
#include "flash/state.hpp"

namespace cairn {

using flash::FlashSave;
using flash::Image;

namespace {

std::exception_ptr superseded(std::uint64_t step, const std::string& by, const std::exception_ptr& refusal) {
  return std::make_exception_ptr(
      Error(Errc::superseded,
            fmt::format("step {}: {}{}", step, by, refusal ? fmt::format(" ({})", describe(refusal)) : "")));
}

}  // namespace

/// What is on its way goes on. Of what waits the newest is next.
void FlashCheckpointer::State::enqueue(const std::shared_ptr<FlashSave>& save) {
  std::shared_ptr<FlashSave> older;
  {
    const MutexLock lock(mutex);
    if (persisted) {
      older = std::exchange(waiting, save);
      if (save->goes_straight()) {  // It is under way.
        interrupted.set();
      }
    } else {
      persister.post([this] { persist_all(); });
      persisted = save;
      at_rest = async::Event();
    }
  }
  if (older) {
    give_up(*older, superseded(older->step(), fmt::format("step {} goes to disk in its place", save->step()),
                               nullptr));
  }
}

void FlashCheckpointer::State::persist_all() noexcept {
  for (bool has_waited = false;; has_waited = true) {
    std::shared_ptr<FlashSave> save;
    {
      const MutexLock lock(mutex);
      save = persisted;
    }
    persist(std::move(save), has_waited);
    const MutexLock lock(mutex);
    disk_refused = nullptr;
    persisted = std::exchange(waiting, nullptr);
    if (!persisted) {
      at_rest.set();
      return;
    }
  }
}

/// What the disk refuses holds no image: the next attempt is with the newest one.
void FlashCheckpointer::State::persist(std::shared_ptr<FlashSave> save, bool has_waited) noexcept {
  bool takes_newest = has_waited;
  try {
    settle(*save);
  } catch (...) {  // The next save tells of it.
    give_up(*save, std::current_exception());
    takes_newest = true;
  }
  for (;;) {
    std::exception_ptr why;
    {
      const MutexLock one(disk_mutex);
      begin_attempt();
      try {
        enter_if_rewound();
        if (takes_newest || !(save->goes_straight() || memory.want(save->step()))) {
          save = newest_for(save);
        }
        if (!save) {
          return;
        }
        SaveResult result = put_on_disk(*save);
        refusals = 0;
        memory.set_on_disk(save->step());
        save->end(std::move(result));
        return;
      } catch (...) {
        why = std::current_exception();
      }
      memory.set(save->step(), &Image::is_wanted, false);
    }
    if (code_of(why) == make_error_code(Errc::superseded)) {
      give_up(*save, std::move(why));
      return;
    }
    why = with_context(why, fmt::format("step {}", save->step()));
    const bool is_final = !may_pass(*save, why);
    if (is_final || refusals++ == 0) {
      report(why);
    }
    if (is_final || save->goes_straight()) {
      lose(save, why);
    } else {
      save->refuse(why);
    }
    if (is_final || (save->goes_straight() && !memory.latest()) || !wait_to_try_again(save, why)) {
      return;
    }
    takes_newest = true;
  }
}

/// What waits for the disk is the newest image. Returns its save; null, and `save` has ended, where the disk has a step
/// as new.
std::shared_ptr<FlashSave> FlashCheckpointer::State::newest_for(const std::shared_ptr<FlashSave>& save) {
  std::optional<std::uint64_t> newest = memory.newest_there();
  const std::optional<std::uint64_t> on_disk = copies.newest();
  const bool is_own = newest == save->step() && !save->goes_straight();
  const bool is_newer = newest && (!on_disk || *newest > *on_disk || (*newest == *on_disk && is_own));
  if (!is_newer || !memory.want(*newest)) {
    newest.reset();
  }
  if (newest && is_own) {
    save->try_again();
    return save;
  }
  std::shared_ptr<FlashSave> next;
  std::exception_ptr why;
  {
    const MutexLock lock(mutex);
    why = disk_refused;
    if (newest) {
      next = std::make_shared<FlashSave>(*newest, true, false);
      persisted = next;
    }
  }
  give_up(*save, superseded(save->step(),
                            newest    ? fmt::format("step {} goes to disk in its place", *newest)
                            : on_disk ? fmt::format("step {} is on disk", *on_disk)
                                      : "it is in memory no more",
                            why));
  return next;
}

SaveResult FlashCheckpointer::State::put_on_disk(FlashSave& save) {
  return save.goes_straight() ? save.settle_straight() : copy_to_disk(save.step());
}

/// What is there already, as an agent has put it there, is done; what is older than that is overtaken.
SaveResult FlashCheckpointer::State::copy_to_disk(std::uint64_t step) {
  std::exception_ptr why;
  try {
    return copy_anew(step);
  } catch (const Error& error) {
    if (error.code() != Errc::already_exists && error.code() != Errc::invalid_argument) {
      throw;
    }
    why = std::current_exception();
  }
  disk.reload();
  if (const std::optional<std::uint64_t> newest = copies.newest(); newest && *newest > step) {
    std::rethrow_exception(superseded(step, fmt::format("step {} is on disk", *newest), nullptr));
  }
  if (persisted_as(step) != flash::Persisted::yes) {
    std::rethrow_exception(why);
  }
  SaveResult result;
  result.path = disk.info(step).path;
  return result;
}

SaveResult FlashCheckpointer::State::copy_anew(std::uint64_t step) {
  const StepResponse copy = copies.copy(step, memory.path(step), persisting);
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

/// Returns whether a later attempt may do better. All is the disk's, whatever it says, but for what is wrong with the
/// image, or in its place.
bool FlashCheckpointer::State::may_pass(const FlashSave& save, const std::exception_ptr& why) const {
  const std::optional<std::error_code> code = code_of(why);
  return code && *code != Errc::already_exists && *code != Errc::closed && *code != Errc::cancelled &&
         (flash::may_succeed_later(*code) || save.goes_straight() ||
          !is_damage(memory.path(save.step()), why));
}

void FlashCheckpointer::State::begin_attempt() {
  const MutexLock lock(mutex);
  interrupted = is_giving_up ? async::Event::happened() : async::Event();
  if (at_rest.has_happened()) {
    at_rest = async::Event();
  }
}

/// False when it is over for `save`: a newer step waits, or the program ends.
bool FlashCheckpointer::State::wait_to_try_again(const std::shared_ptr<FlashSave>& save,
                                                 const std::exception_ptr& why) {
  async::Event sooner;
  {
    const MutexLock lock(mutex);
    disk_refused = why;
    at_rest.set();
    sooner = interrupted;
  }
  const auto pause = flash::pause_after(refusals - 1);
  if (coord::wait_with_progress(*coord::single_process(), sooner, pause, clock)) {
    refusals = 1;  // Somebody waits for it, who may have made room.
  }
  std::shared_ptr<FlashSave> newer;
  bool is_ending = false;
  {
    const MutexLock lock(mutex);
    newer = waiting;
    is_ending = is_giving_up;
  }
  if (is_ending) {
    lose(save, why);
  } else if (newer) {
    give_up(*save,
            superseded(save->step(), fmt::format("step {} goes to disk in its place", newer->step()), why));
  }
  return !is_ending && !newer;
}

/// What the disk has refused is tried again at once.
void FlashCheckpointer::State::try_disk_now() {
  const MutexLock lock(mutex);
  if (persisted && at_rest.has_happened()) {
    at_rest = async::Event();
    interrupted.set();
  }
}

/// Blocks until nothing is on its way to disk, or the disk has refused it.
void FlashCheckpointer::State::wait_for_disk() const {
  async::Event rest;
  {
    const MutexLock lock(mutex);
    rest = at_rest;
  }
  coord::wait_with_progress(*coord::single_process(), rest);
}

std::exception_ptr FlashCheckpointer::State::disk_refusal() const {
  const MutexLock lock(mutex);
  return disk_refused;
}

void FlashCheckpointer::State::lose(const std::shared_ptr<FlashSave>& save,
                                    const std::exception_ptr& why) noexcept {
  if (!save->goes_straight() && is_damage(memory.path(save->step()), why)) {
    memory.set(save->step(), &Image::is_damaged);
  }
  {
    const MutexLock lock(mutex);
    loss = {save, why};
  }
  give_up(*save, why);
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
