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
  log_(fmt::format("recovered removed={}", clean(root_, context_)));
}

std::optional<Snapshot> Checkpoints::load_newest(const nlohmann::json& config) const {
  Snapshot snapshot;
  const cairn::Requests wanted = {"state", "config", {"history", cairn::into(snapshot.history)}};
  std::optional<cairn::LoadedLatest> latest = cairn::load_latest(root_, wanted, {}, context_);
  if (!latest) {
    return std::nullopt;
  }
  const auto stored = latest->loaded.take<nlohmann::json>("config");
  if (stored != config) {
    throw std::runtime_error(fmt::format("{} was made with the configuration {}, not {}",
                                         latest->checkpoint.path.string(), stored.dump(), config.dump()));
  }
  snapshot.state = from_tree(latest->loaded.take<cairn::Tree>("state"));
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
  keep_newest(root_, keep_, context_);  // After a newer one is durable, never before.
}

}  // namespace digits
