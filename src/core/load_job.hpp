// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/internal/mutex.hpp"
#include "core/read_job.hpp"
#include "joint/internal/joint_load.hpp"

namespace cairn::core {

/// A load in flight.
class LoadJob final : public ReadJob {
 public:
  LoadJob(std::shared_ptr<Services> services, std::filesystem::path path, Requests requests,
          RegistrySnapshot registry, LoadOptions options, observe::Meter::TimePoint begin,
          CallerMemoryUse memory);
  ~LoadJob() override;

  /// Runs it.
  void start();

  [[nodiscard]] std::optional<coord::Channel> next_reading(const std::string& directory) override;
  [[nodiscard]] std::optional<coord::Channel> channel(const std::string& directory,
                                                      std::string_view what) const override;
  void add_problem(const std::string& problem) noexcept override;
  void add_differences(const std::string& name, std::vector<std::string> missing,
                       std::vector<std::string> unexpected) override;

  /// The results, to be asked for once the job is answered.
  [[nodiscard]] Loaded take_loaded();
  [[nodiscard]] LoadResult result() const;
  [[nodiscard]] LoadProgress progress() const;

 private:
  using Backgrounds = std::vector<std::optional<Background<AnyValue>>>;

  /// The whole load.
  Awaitable<> load();
  Awaitable<> attempt() override;
  [[nodiscard]] bool may_start_over() const noexcept override { return joint_ == nullptr; }
  /// Opens the checkpoint that rank 0 has opened.
  Awaitable<> open_together();
  [[nodiscard]] joint::RankValues rank_values() const;
  void refuse_effect() noexcept override;
  [[nodiscard]] SomeRanks missing_ranks() const override { return joint_ ? joint_->missing() : SomeRanks(); }
  void forget_attempt() override;
  Awaitable<> begin_part(std::size_t index, Backgrounds* backgrounds);
  Awaitable<> finish_part(std::size_t index, Background<AnyValue> background);
  [[noreturn]] void rethrow_of_part(const std::exception_ptr& failure, const Part& part, Asked asked) const;
  /// Fills in the result; `problem` is what went wrong with the trace, empty when nothing did.
  void end_load(std::string problem);
  void count_end(const std::exception_ptr& failure) override;

  const std::unique_ptr<joint::JointLoad> joint_;  // Null: this process loads alone.

  mutable Mutex mutex_;
  // How often handlers have read files of each directory together.
  std::map<std::string, int> readings_ CAIRN_GUARDED_BY(mutex_);
  Loaded loaded_ CAIRN_GUARDED_BY(mutex_);
  LoadResult result_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn::core
