// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cairn/base/timeout.hpp"
#include "cairn/core/save.hpp"

#include "training/step_uses.hpp"

namespace cairn::core {
class Services;
}

namespace cairn::training {

/// The save of a step, shared by the Checkpointer and by whom it has told of it.
///
/// Threads: every method may be called from any thread.
class StepSave {
 public:
  /// Called once, when the save has ended, before anybody is told; null: it is committed.
  using OnEnd = std::function<void(StepSave& save, const std::exception_ptr& failure)>;

  /// `services` are those of the context that saves.
  StepSave(std::uint64_t step, AsyncResponse response, std::shared_ptr<core::Services> services,
           std::unique_ptr<StepUser> user, std::vector<std::string> problems, OnEnd on_end);

  /// The problems that the result lists besides its own.
  [[nodiscard]] const std::vector<std::string>& problems() const noexcept { return problems_; }
  [[nodiscard]] std::uint64_t step() const noexcept { return step_; }
  [[nodiscard]] const AsyncResponse& response() const noexcept { return response_; }

  /// Blocks until the end; for the Checkpointer, which is told by `on_end`. Returns whether it is committed.
  ///
  /// Errors: Errc::invalid_argument on one of the context's own threads, which would wait for itself.
  bool settle();
  /// Returns whether the calling thread is one that it needs, while it is in flight.
  [[nodiscard]] bool runs_here() const { return refusal_to_wait() == Code::of_wait; }
  /// Blocks until the end; for users, who are told here.
  SaveResult wait();
  SaveResult wait(Timeout timeout);
  /// Blocks until the values may be changed; for users, who are told here of a failure before that. It is the end
  /// that the Checkpointer waits for which ends the save.
  void wait_staged();
  void wait_staged(Timeout timeout);

  /// Returns whether a user was told of its failure, or is now.
  bool tell() noexcept { return is_told_.exchange(true); }

 private:
  /// Whose error it is, when a code may come from the save itself and from a wait that comes back before the save has
  /// ended.
  enum class Code : std::uint8_t { of_save, of_wait };

  SaveResult tell_result(SaveResult (*result_of)(const AsyncResponse&, Timeout), Timeout timeout,
                         Code still_running);
  void tell_stage(void (*wait_for)(const AsyncResponse&, Timeout), Timeout timeout, Code still_running);
  /// Whose error Errc::invalid_argument is on this thread: on one of the context's own it refuses the wait.
  [[nodiscard]] Code refusal_to_wait() const;
  /// Returns whether the exception that is being handled is how the save has failed.
  [[nodiscard]] static bool is_failure_of_save(Code still_running, Code invalid_argument);
  void end(const std::exception_ptr& failure);

  const std::uint64_t step_;
  const AsyncResponse response_;
  const std::shared_ptr<core::Services> services_;
  std::unique_ptr<StepUser> user_;
  const std::vector<std::string> problems_;
  const OnEnd on_end_;
  std::once_flag ended_;
  std::atomic<bool> is_told_{false};
};

}  // namespace cairn::training
