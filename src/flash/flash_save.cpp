// SPDX-License-Identifier: Apache-2.0
#include "flash/flash_save.hpp"

#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/flash/flash_checkpointer.hpp"

#include "base/internal/clock.hpp"
#include "coord/internal/borrowed_caller_thread.hpp"

namespace cairn::flash {

FlashSave::FlashSave(std::uint64_t step, AsyncResponse memory, bool is_due_on_disk)
    : step_(step), was_skipped_(false), is_to_be_persisted_(is_due_on_disk), memory_(std::move(memory)) {}

FlashSave::FlashSave(std::uint64_t step, StepResponse disk, bool was_skipped)
    : step_(step), was_skipped_(was_skipped), is_to_be_persisted_(false), disk_(std::move(disk)) {}

FlashSave::FlashSave(std::uint64_t step, bool is_due_on_disk, bool was_skipped)
    : step_(step), was_skipped_(was_skipped), is_to_be_persisted_(is_due_on_disk) {}

SaveResult FlashSave::wait_in_memory(Timeout timeout) {
  if (disk_ && !*disk_) {
    return wait(timeout);
  }
  try {
    return disk_ ? disk_->wait(timeout) : memory_ ? memory_->wait(timeout) : SaveResult();
  } catch (const Error& error) {
    if (error.code() != Errc::still_running) {
      tell();
    }
    throw;
  }
}

SaveResult FlashSave::wait(Timeout timeout) {
  if (!is_to_be_persisted_ && !(disk_ && !*disk_)) {
    return wait_in_memory(timeout);
  }
  async::Event answered;
  {
    const MutexLock lock(mutex_);
    answered = answered_;
  }
  if (!coord::wait_with_progress(*coord::single_process(), answered, timeout, system_clock())) {
    throw Error(Errc::still_running, fmt::format("step {} is not on disk yet", step_));
  }
  const MutexLock lock(mutex_);
  if (failure_) {
    is_told_ = is_told_ || has_ended_;
    std::rethrow_exception(failure_);
  }
  return *result_;
}

SaveResult FlashSave::settle_straight() {
  {
    const MutexLock lock(mutex_);
    if (failure_) {
      std::rethrow_exception(failure_);
    }
  }
  return disk_->wait();
}

void FlashSave::settle(
    const std::function<void(const SaveResult& image, const std::exception_ptr& failure)>& on_end) {
  if (!memory_) {
    return;
  }
  SaveResult image;
  std::exception_ptr failure;
  try {
    image = memory_->wait();
  } catch (...) {
    failure = std::current_exception();
  }
  std::call_once(settled_, [&] { on_end(image, failure); });
  if (failure) {
    std::rethrow_exception(failure);
  }
}

void FlashSave::end(SaveResult result) {
  answer(std::move(result), nullptr, true);
}

void FlashSave::fail(std::exception_ptr why) {
  answer({}, std::move(why), true);
}

void FlashSave::refuse(std::exception_ptr why) {
  answer({}, std::move(why), false);
}

/// The last refusal stays, for those that it has woken.
void FlashSave::try_again() {
  const MutexLock lock(mutex_);
  if (!has_ended_ && answered_.has_happened()) {
    answered_ = async::Event();
  }
}

void FlashSave::answer(std::optional<SaveResult> result, std::exception_ptr failure, bool is_last) {
  const MutexLock lock(mutex_);
  if (!has_ended_) {
    has_ended_ = is_last;
    result_ = std::move(result);
    failure_ = std::move(failure);
    answered_.set();
  }
}

bool FlashSave::tell() {
  const MutexLock lock(mutex_);
  return std::exchange(is_told_, true);
}

}  // namespace cairn::flash

namespace cairn {

FlashResponse::FlashResponse(std::shared_ptr<flash::FlashSave> save) noexcept : save_(std::move(save)) {}

bool FlashResponse::was_skipped() const {
  return save_ && save_->was_skipped();
}

void FlashResponse::wait_in_memory(Timeout timeout) const {
  if (save_) {
    save_->wait_in_memory(timeout);
  }
}

SaveResult FlashResponse::wait(Timeout timeout) const {
  return save_ ? save_->wait(timeout) : SaveResult();
}

}  // namespace cairn
