// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <cairn/core/context.hpp>
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

  /// Cleans the folder of what a killed run has left; the first save makes it.
  Checkpoints(const std::filesystem::path& root, const cairn::CheckpointerOptions& options,
              const cairn::Context& context, Log log);

  /// Loads the newest checkpoint; nothing when there is none.
  ///
  /// Errors: std::runtime_error when it was made with another configuration; cairn::Error.
  [[nodiscard]] std::optional<Snapshot> load_newest(const nlohmann::json& config);

  [[nodiscard]] bool is_due(std::int64_t step) const;

  /// Starts a save and returns as soon as training may go on. Waits for the one before it first.
  void save(const TrainingState& state, const nlohmann::json& config, const History& history);

  /// Notes the end of a save, if it has come. Never waits.
  void poll();

  /// Waits for the save in flight; rethrows what went wrong with it.
  void finish();

 private:
  Log log_;
  cairn::Checkpointer run_;
  cairn::StepResponse saving_;
  std::int64_t saving_step_ = 0;
};

}  // namespace digits
