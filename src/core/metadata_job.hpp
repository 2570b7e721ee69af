// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "base/internal/mutex.hpp"
#include "core/read_job.hpp"

namespace cairn::core {

/// A question for what a checkpoint holds, in flight.
class MetadataJob final : public ReadJob {
 public:
  using ReadJob::ReadJob;

  /// The whole of it, to be launched.
  Awaitable<> describe();

  /// The answer, to be asked for once the job is answered.
  [[nodiscard]] CheckpointMetadata take_metadata();

 private:
  Awaitable<> attempt() override;
  void forget_attempt() override;
  void describe_checkpoint();
  Awaitable<> describe_part(std::size_t index);
  /// Enters what keeps a checkpointable from being described.
  void note_problem(const Part& part, const std::exception_ptr& failure, ItemMetadata& answer, Asked asked);
  void count_end(const std::exception_ptr& /*failure*/) override {}

  std::exception_ptr missing_;  // Says that something of a checkpointable is not there.
  Mutex mutex_;
  CheckpointMetadata metadata_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn::core
