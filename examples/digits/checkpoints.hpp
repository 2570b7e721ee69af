// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <cairn/core/context.hpp>
#include <cairn/flash/flash_checkpointer.hpp>
#include <cairn/training/checkpointer.hpp>
#include <nlohmann/json_fwd.hpp>

#include "digits/history.hpp"
#include "digits/training_state.hpp"

namespace digits {

/// Holds what a checkpoint of this program holds.
struct Snapshot {
  TrainingState state;
  History history;
};

/// The checkpoints of one training, which says what becomes of each.
class Checkpoints {
 public:
  /// Told what a save does: "saving 40", "staged 40 …", "committed 40 …".
  using Log = std::function<void(const std::string& line)>;

  /// Cleans the folder of what a killed run has left; the first save makes it. Where `memory` is not empty, each step
  /// that is saved is kept there, and those that are due go on to disk.
  Checkpoints(const std::filesystem::path& root, const std::filesystem::path& memory,
              const cairn::CheckpointerOptions& options, const cairn::Context& context, Log log);

  /// Loads the newest checkpoint; nothing when there is none.
  ///
  /// Errors: std::runtime_error when it was made with another configuration; cairn::Error.
  [[nodiscard]] std::optional<Snapshot> load_newest(const nlohmann::json& config);

  [[nodiscard]] bool is_due_on_disk(std::int64_t step) const;
  [[nodiscard]] bool is_due(std::int64_t step) const { return flash_ || is_due_on_disk(step); }

  /// Starts a save and returns as soon as training may go on. Waits for the one before it first.
  void save(const TrainingState& state, const nlohmann::json& config, const History& history);

  /// Notes the end of a save, if it has come. Never waits.
  void poll();

  /// Waits for the save in flight; rethrows what went wrong with it.
  void finish();

 private:
  void save_in_memory(const TrainingState& state, const nlohmann::json& config, const History& history);

  Log log_;
  std::unique_ptr<cairn::Checkpointer> own_;         // One of them is there.
  std::unique_ptr<cairn::FlashCheckpointer> flash_;  // It has one of its own.
  cairn::Checkpointer& run_;
  cairn::StepResponse saving_;
  std::int64_t saving_step_ = 0;
};

}  // namespace digits
