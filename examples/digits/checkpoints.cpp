// SPDX-License-Identifier: Apache-2.0
#include "digits/checkpoints.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include <cairn/cairn.hpp>
#include <cairn/handlers/json.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "digits/state_tree.hpp"
#include "digits/step_folders.hpp"

namespace digits {

Checkpoints::Checkpoints(std::filesystem::path root, std::size_t keep, const cairn::Context& context, Log log)
    : root_(std::move(root)), keep_(std::max<std::size_t>(keep, 1)), context_(context), log_(std::move(log)) {
  StepFolders found = recover_step_folders(root_, context_);
  committed_ = std::move(found.committed);
  log_(fmt::format("recovered removed={}", found.removed));
}

std::optional<std::int64_t> Checkpoints::newest() const {
  return committed_.empty() ? std::nullopt : std::optional(committed_.back());
}

Snapshot Checkpoints::load_newest(const nlohmann::json& config) const {
  const std::filesystem::path path = root_ / std::to_string(committed_.back());
  Snapshot snapshot;
  cairn::Loaded loaded = cairn::load_checkpointables(
      path, {"state", "config", {"history", cairn::into(snapshot.history)}}, {}, context_);
  const auto stored = loaded.take<nlohmann::json>("config");
  if (stored != config) {
    throw std::runtime_error(fmt::format("{} was made with the configuration {}, not {}", path.string(),
                                         stored.dump(), config.dump()));
  }
  snapshot.state = from_tree(loaded.take<cairn::Tree>("state"));
  return snapshot;
}

void Checkpoints::save(const TrainingState& state, const nlohmann::json& config, const History& history) {
  finish();
  log_(fmt::format("saving {}", state.step));
  const cairn::Tree tree = to_tree(state);
  saving_ = cairn::save_checkpointables_async(root_ / std::to_string(state.step),
                                              {{"state", tree}, {"config", config}, {"history", history}},
                                              context_);
  saving_step_ = state.step;
  log_(fmt::format("staged {}", state.step));
}

void Checkpoints::poll() {
  if (saving_step_ && saving_.is_done()) {
    finish();
  }
}

void Checkpoints::finish() {
  if (!saving_step_) {
    return;
  }
  const std::int64_t step = *std::exchange(saving_step_, std::nullopt);
  const cairn::SaveResult result = saving_.wait();
  log_(fmt::format("committed {} {}", step, facts_of(result)));
  committed_.push_back(step);
  remove_old();
}

/// Called after a newer checkpoint is durable, never before.
void Checkpoints::remove_old() {
  while (committed_.size() > keep_) {
    cairn::remove_checkpoint(root_ / std::to_string(committed_.front()), context_);
    committed_.erase(committed_.begin());
  }
}

}  // namespace digits
