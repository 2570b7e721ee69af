// SPDX-License-Identifier: Apache-2.0
#include "digits/checkpoints.hpp"

#include <stdexcept>
#include <utility>

#include <cairn/cairn.hpp>
#include <cairn/handlers/json.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "digits/state_tree.hpp"
#include "digits/step_folders.hpp"

namespace digits {

Checkpoints::Checkpoints(const std::filesystem::path& root, const cairn::CheckpointerOptions& options,
                         const cairn::Context& context, Log log)
    : log_(std::move(log)), run_(root, options, context) {
  log_(fmt::format("recovered removed={}", clean(root, context)));
}

std::optional<Snapshot> Checkpoints::load_newest(const nlohmann::json& config) {
  Snapshot snapshot;
  std::optional<cairn::Resumed> resumed =
      run_.resume({"state", "config", {"history", cairn::into(snapshot.history)}});
  if (!resumed) {
    return std::nullopt;
  }
  const auto stored = resumed->loaded.take<nlohmann::json>("config");
  if (stored != config) {
    throw std::runtime_error(fmt::format("step {} was made with the configuration {}, not {}", resumed->step,
                                         stored.dump(), config.dump()));
  }
  snapshot.state = from_tree(resumed->loaded.take<cairn::Tree>("state"));
  return snapshot;
}

bool Checkpoints::is_due(std::int64_t step) const {
  return run_.should_save(static_cast<std::uint64_t>(step));
}

void Checkpoints::save(const TrainingState& state, const nlohmann::json& config, const History& history) {
  finish();
  log_(fmt::format("saving {}", state.step));
  const cairn::Tree tree = to_tree(state);
  const Measurement& last = history.measurements().back();
  saving_ = run_.save(static_cast<std::uint64_t>(state.step),
                      {{"state", tree}, {"config", config}, {"history", history}},
                      cairn::Metrics{{"accuracy", last.accuracy}, {"loss", last.loss}});
  saving_step_ = state.step;
  log_(fmt::format("staged {}", state.step));
}

void Checkpoints::poll() {
  if (saving_ && saving_.is_done()) {
    finish();
  }
}

void Checkpoints::finish() {
  if (const cairn::StepResponse saved = std::exchange(saving_, cairn::StepResponse())) {
    log_(fmt::format("committed {} {}", saving_step_, facts_of(saved.wait())));
  }
}

}  // namespace digits
