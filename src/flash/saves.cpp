// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include <cerrno>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/api/save.hpp"
#include "cairn/base/error.hpp"
#include "cairn/training/step_options.hpp"

#include "flash/retries.hpp"
#include "flash/state.hpp"
#include "training/internal/annotations.hpp"

namespace cairn {

using flash::FlashSave;
using flash::Image;

namespace {

/// Returns whether a save that goes straight to disk has failed by what the disk says, and not by the program's call.
bool is_of_the_disk(const std::exception_ptr& why) {
  const std::optional<std::error_code> code = code_of(why);
  return code && (flash::may_succeed_later(*code) || *code == Errc::not_found);
}

bool is_out_of_memory(std::error_code code) {
  return code == std::errc::no_space_on_device || code == std::errc::not_enough_memory ||
         code == std::errc::file_too_large || code == std::error_code(EDQUOT, std::system_category());
}

}  // namespace

bool FlashCheckpointer::State::is_due_in_memory(std::uint64_t step, const StepOptions& how) const {
  SaveMoment moment;
  moment.step = step;
  std::vector<std::uint64_t> steps;
  for (const Image& image : memory.images()) {
    steps.push_back(image.step);
  }
  moment.steps = steps;
  if (options.to_memory.asks_time()) {
    moment.now = clock.now();
    moment.costs = image_costs.costs();
    moment.costs.mtbf = estimated_mtbf(disk.failures());
    if (last_image) {
      moment.since_last_save = clock.steady_now() - *last_image;
    }
    const MutexLock lock(mutex);
    moment.is_saving = in_flight && !in_flight->is_complete();
  }
  moment.is_preempted = is_preempted() && !has_saved_preempted;
  return how.force || options.to_memory(moment);
}

bool FlashCheckpointer::State::is_preempted() const {
  return options.disk.preemption != nullptr && options.disk.preemption->is_preempted();
}

void FlashCheckpointer::State::require_above_images(std::uint64_t step) const {
  const std::optional<std::uint64_t> latest = memory.latest();
  if (latest && step <= *latest) {
    throw Error(Errc::invalid_argument,
                fmt::format("step {}: {} is in memory, in {}; who goes back to an earlier step calls rewind",
                            step, *latest, memory.root().string()));
  }
}

/// A program that goes on is where `resume` has put it; one that has forgotten that begins below what it has saved.
void FlashCheckpointer::State::require_above_disk(std::uint64_t step) const {
  const std::optional<std::uint64_t> on_disk = disk.latest();
  if (on_disk && step <= *on_disk && !has_gone_on) {
    throw Error(
        Errc::invalid_argument,
        fmt::format(
            "step {}: {} is on disk, in {}; who goes on from it calls resume before it saves, who goes "
            "back to an earlier step rewind",
            step, *on_disk, root.string()));
  }
}

void FlashCheckpointer::State::require_open() const {
  const MutexLock lock(mutex);
  if (is_closed) {
    throw Error(Errc::closed, fmt::format("FlashCheckpointer of {}", options.memory.string()));
  }
}

FlashResponse FlashCheckpointer::State::save(std::uint64_t step, const Checkpointables& items,
                                             const StepOptions& how) {
  require_open();
  const bool is_due_on_disk = copies.decide(step, how);
  const bool is_due_here = is_due_in_memory(step, how) || (is_due_on_disk && is_disk_busy());
  if (!is_due_on_disk && !is_due_here) {
    return {};
  }
  const auto called = clock.steady_now();
  settle_in_flight();
  enter_if_rewound();
  throw_failure();
  std::shared_ptr<FlashSave> save;
  if (is_due_here) {
    if (!how.force) {
      require_above_disk(step);
    }
    require_above_images(step);
    save = save_into_memory(step, items, how, is_due_on_disk);
  }
  if (save) {
    has_saved_preempted = is_preempted();
    image_costs.add_blocking(clock.steady_now() - called);
    if (!std::exchange(last_image, called)) {
      persister.post([this] { copies.enter(); });
    }
    preparer.post([this] { memory.make_ready(); });
  } else {
    save = is_due_on_disk ? save_straight(step, items, how, is_due_here)
                          : std::make_shared<FlashSave>(step, false, is_due_here);
    const MutexLock lock(mutex);
    skipped += is_due_here ? 1 : 0;
  }
  last_given = step;
  return FlashResponse(std::move(save));
}

bool FlashCheckpointer::State::is_disk_busy() const {
  const MutexLock lock(mutex);
  return persisted != nullptr;
}

/// Of a step that is due on disk, and gets no image. While the disk is busy the newest image goes there in its place,
/// and nobody waits for that here; without an image steps wait for each other, as in a Checkpointer.
std::shared_ptr<FlashSave> FlashCheckpointer::State::save_straight(std::uint64_t step,
                                                                   const Checkpointables& items,
                                                                   const StepOptions& how, bool was_skipped) {
  const std::optional<std::uint64_t> newest = memory.newest_there();
  if (newest && is_disk_busy()) {
    const auto given_up = std::make_shared<FlashSave>(step, true, was_skipped);
    given_up->fail(std::make_exception_ptr(
        Error(Errc::superseded, fmt::format("step {}: no image could give way to it, and the disk is busy: "
                                            "step {}, or a later one, goes there in its place",
                                            step, *newest))));
    enqueue(std::make_shared<FlashSave>(*newest, true, false));
    return given_up;
  }
  wait_for_disk();
  StepResponse straight;
  std::exception_ptr why;
  try {
    straight = copies.save(step, items, how);
  } catch (...) {
    why = std::current_exception();
    if (!is_of_the_disk(why)) {
      throw;
    }
  }
  const auto save = std::make_shared<FlashSave>(step, straight, was_skipped);
  if (why) {
    save->fail(why);
  }
  enqueue(save);
  return save;
}

/// Returns null when no image may give way, or there is no memory.
std::shared_ptr<FlashSave> FlashCheckpointer::State::save_into_memory(std::uint64_t step,
                                                                      const Checkpointables& items,
                                                                      const StepOptions& how,
                                                                      bool is_due_on_disk) {
  SaveOptions into = how.save;
  into.annotations = training::annotate(how.save.annotations, step, how.metrics, memory.line());
  into.overwrite = false;
  into.coalesce = false;
  into.create_parents = 0;
  persister.start();  // What can fail, does so before.
  preparer.start();
  if (!memory.is_there()) {
    report_once_gone();
    return nullptr;
  }
  std::shared_ptr<FlashSave> save;
  std::uint64_t wanted = 0;  // By the step, as far as that is known.
  std::exception_ptr refusal;
  memory.renew();
  memory.look_for_room();
  while (!save && memory.make_room(step, wanted)) {
    try {
      AsyncResponse response = save_checkpointables_async(memory.path(step), items, into, context);
      save = std::make_shared<FlashSave>(step, std::move(response), is_due_on_disk);
    } catch (const Error& error) {
      if (!is_out_of_memory(error.code())) {
        throw;
      }
      refusal = std::current_exception();
      if (!memory.may_fit_yet(wanted)) {
        break;
      }
    }
  }
  if (!save && refusal) {
    report_once_full(step, refusal);
  }
  if (save) {
    {
      const MutexLock lock(mutex);
      in_flight = save;
    }
    if (is_due_on_disk) {
      copies.plan(step);
      enqueue(save);
    }
  }
  return save;
}

void FlashCheckpointer::State::report_once_full(std::uint64_t step, const std::exception_ptr& why) {
  if (!is_reported_full.exchange(true)) {
    report(with_context(why, fmt::format("step {} is not kept in memory", step)));
  }
}

/// The steps that are due on disk go there. It may have been removed in the midst of a save, which has failed by that.
void FlashCheckpointer::State::report_once_gone() {
  if (!std::exchange(is_reported_gone, true)) {
    report(std::make_exception_ptr(
        Error(Errc::not_found,
              fmt::format("{} was removed: no step is kept in memory until the program starts again",
                          memory.root().string()))));
  }
}

/// Blocks until the image is complete, and enters it.
void FlashCheckpointer::State::settle(FlashSave& save) {
  save.settle([&](const SaveResult& image, const std::exception_ptr& why) {
    if (!why) {
      memory.add(save.step(), image.bytes);
      image_costs.add_durable(image.durable_time);
      is_reported_full = false;
    }
    const MutexLock lock(mutex);
    memory.set(save.step(), &Image::is_wanted, persisted.get() == &save);
    if (in_flight.get() == &save) {
      if (why) {
        failure = {in_flight, with_context(why, fmt::format("step {}", save.step()))};
      }
      in_flight.reset();
    }
  });
}

void FlashCheckpointer::State::settle_in_flight() noexcept {
  std::shared_ptr<FlashSave> save;
  {
    const MutexLock lock(mutex);
    save = in_flight;
  }
  if (save) {
    try {
      settle(*save);
    } catch (...) {  // It is kept for who is to be told.
    }
  }
}

void FlashCheckpointer::State::rethrow(const Failure& untold) {
  if (untold.save && !untold.save->tell()) {
    std::rethrow_exception(untold.why);
  }
}

void FlashCheckpointer::State::throw_failure() {
  Failure untold;
  {
    const MutexLock lock(mutex);
    untold = std::exchange(failure, {});
  }
  if (untold.save && !memory.is_there()) {
    report_once_gone();
    return;
  }
  // Others may take memory that its last files would have needed. That is no more of a failure than if they had come
  // before.
  const std::optional<std::error_code> code = untold.save ? code_of(untold.why) : std::nullopt;
  if (code && is_out_of_memory(*code)) {
    {
      const MutexLock lock(mutex);
      ++skipped;
    }
    if (!untold.save->tell()) {
      report_once_full(untold.save->step(), untold.why);
    }
    return;
  }
  rethrow(untold);
}

void FlashCheckpointer::State::throw_loss() {
  Failure untold;
  {
    const MutexLock lock(mutex);
    untold = std::exchange(loss, {});
  }
  rethrow(untold);
}

}  // namespace cairn
