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
#include <nlohmann/json_fwd.hpp>

#include "digits/history.hpp"
#include "digits/training_state.hpp"

namespace digits {

/// What a checkpoint of this program holds.
struct Snapshot {
  TrainingState state;
  History history;
};

/// The checkpoints of one training, in one folder: each is called after its step.
///
/// One save is in flight at most. The `keep` newest are kept.
class Checkpoints {
 public:
  /// Told what a save does: "saving 40", "staged 40 …", "committed 40 …".
  using Log = std::function<void(const std::string& line)>;

  /// Cleans the folder of what a killed run has left; the first save makes it.
  Checkpoints(std::filesystem::path root, std::size_t keep, const cairn::Context& context, Log log);

  /// Loads the newest checkpoint; nothing when there is none.
  ///
  /// Errors: std::runtime_error when it was made with another configuration; cairn::Error.
  [[nodiscard]] std::optional<Snapshot> load_newest(const nlohmann::json& config) const;

  /// Starts a save and returns as soon as training may go on. Waits for the one before it first.
  void save(const TrainingState& state, const nlohmann::json& config, const History& history);

  /// Notes the end of a save, if it has come. Never waits.
  void poll();

  /// Waits for the save in flight; rethrows what went wrong with it.
  void finish();

 private:
  std::filesystem::path root_;
  std::size_t keep_;
  const cairn::Context& context_;
  Log log_;
  cairn::AsyncResponse saving_;
  std::optional<std::int64_t> saving_step_;
};

}  // namespace digits
