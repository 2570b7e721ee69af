// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/read_job.hpp"

namespace cairn::core {

/// A load in flight.
class LoadJob final : public ReadJob {
 public:
  using ReadJob::ReadJob;

  /// The whole load, to be launched.
  Awaitable<> load();

  /// The results, to be asked for once the job is answered.
  [[nodiscard]] Loaded take_loaded();
  [[nodiscard]] LoadResult result() const;
  [[nodiscard]] LoadProgress progress() const;

 private:
  using Backgrounds = std::vector<std::optional<Background<AnyValue>>>;

  Awaitable<> attempt() override;
  void forget_attempt() override;
  Awaitable<> begin_part(std::size_t index, Backgrounds* backgrounds);
  Awaitable<> finish_part(std::size_t index, Background<AnyValue> background);
  /// Fills in the result; `problem` is what went wrong with the trace, empty when nothing did.
  void end_load(std::string problem);
  void count_end(const std::exception_ptr& failure) override;

  mutable std::mutex mutex_;  // Protects all below.
  Loaded loaded_;
  LoadResult result_;
};

}  // namespace cairn::core
