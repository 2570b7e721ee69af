// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <cairn/core/context.hpp>
#include <cairn/core/save.hpp>

#include "digits/classifier.hpp"
#include "sharded/job.hpp"
#include "sharded/train_step.hpp"

namespace sharded {

/// The checkpoints of one training, in one folder: each is called after its step, and all ranks save it
/// together.
///
/// One save is in flight at most. The `keep` newest are kept. Every rank calls the same methods in the same
/// order, but for `poll`.
class Checkpoints {
 public:
  /// Told what a save does: "saving 40", "staged 40", "committed 40 …".
  using Log = std::function<void(const std::string& line)>;

  /// Rank 0 cleans the folder of what a killed run has left; the first save makes it.
  Checkpoints(std::filesystem::path root, std::size_t keep, const Job& job, Log log);

  /// The step of the newest checkpoint, as rank 0 finds it.
  [[nodiscard]] std::optional<std::int64_t> newest() const;

  /// Loads this rank's part of a checkpoint, whatever number of ranks has saved it.
  ///
  /// Errors: std::runtime_error when it was made with other settings; cairn::Error.
  [[nodiscard]] RankState load(std::int64_t step, const digits::Settings& settings) const;

  /// Starts a save and returns as soon as training may go on. Waits for the one before it first.
  void save(const RankState& state, const digits::Settings& settings);

  /// Notes the end of a save, if it has come. Never waits.
  void poll();

  /// Waits for the save in flight; rethrows what went wrong with it.
  void finish();

 private:
  [[nodiscard]] std::filesystem::path path_of(std::int64_t step) const;

  std::filesystem::path root_;
  std::size_t keep_;
  const Job& job_;
  Log log_;
  cairn::Context context_;
  cairn::AsyncResponse saving_;
  std::optional<std::int64_t> saving_step_;
};

}  // namespace sharded
