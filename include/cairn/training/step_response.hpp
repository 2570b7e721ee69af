// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/timeout.hpp"
#include "cairn/core/load.hpp"
#include "cairn/core/save.hpp"

namespace cairn {

namespace training {
struct StepLoad;
class StepSave;
}  // namespace training

/// The save of a step, in flight or over; empty when the policy declined.
///
/// May be dropped: the Checkpointer owns the save, waits for it, and tells of its failure where nobody was told here.
/// Threads: every method may be called from any thread.
class StepResponse {
 public:
  StepResponse() = default;
  explicit StepResponse(std::shared_ptr<training::StepSave> save) noexcept;

  /// Returns whether the step is saved at all.
  [[nodiscard]] explicit operator bool() const noexcept { return save_ != nullptr; }

  /// Blocks until the step is durable; rethrows what went wrong, which the Checkpointer then does not throw again. Of
  /// an empty one returns at once.
  SaveResult wait() const;
  /// Errors: Errc::still_running; the save goes on.
  SaveResult wait(Timeout timeout) const;

  /// Blocks until the values may be changed, as AsyncResponse::wait_staged; rethrows what the save has failed with
  /// before, which the Checkpointer then does not throw again. Of an empty one returns at once. For saves that
  /// return_when_accepted.
  void wait_staged() const;
  /// Errors: Errc::still_running; the save goes on, and the values must not be changed.
  void wait_staged(Timeout timeout) const;

  [[nodiscard]] bool is_staged() const;
  [[nodiscard]] bool is_done() const;
  [[nodiscard]] SaveProgress progress() const;
  /// Asks the save to stop: it then fails with Errc::cancelled, unless it commits already.
  void cancel() const;

 private:
  std::shared_ptr<training::StepSave> save_;
};

/// The load of a step in flight. While there is one, its step is not removed by this process. Asking how it has ended
/// tells the Checkpointer of a damaged step; an error names a step that was removed meanwhile.
class StepLoadResponse : private LoadResponse {
 public:
  StepLoadResponse(LoadResponse response, std::shared_ptr<const training::StepLoad> load) noexcept;
  ~StepLoadResponse();
  StepLoadResponse(StepLoadResponse&&) noexcept = default;
  StepLoadResponse& operator=(StepLoadResponse&&) noexcept = default;

  /// As those of LoadResponse. A failure that is one of the checkpoint itself is known to the Checkpointer from then
  /// on; see Checkpointer::load.
  [[nodiscard]] Loaded wait() const;
  [[nodiscard]] Loaded wait(Timeout timeout) const;
  [[nodiscard]] Awaitable<Loaded> loaded() const;
  [[nodiscard]] LoadResult result() const;

  using LoadResponse::cancel;
  using LoadResponse::done;
  using LoadResponse::is_done;
  using LoadResponse::is_released;
  using LoadResponse::progress;
  using LoadResponse::released;
  using LoadResponse::wait_done;
  using LoadResponse::wait_released;

 private:
  std::shared_ptr<const training::StepLoad> load_;
};

}  // namespace cairn
