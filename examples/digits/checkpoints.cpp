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

namespace {

/// Some images more than two: a step takes a millisecond, a copy to disk the time of many.
constexpr std::uint64_t kMemoryBytes = std::uint64_t{1} << 20;

std::unique_ptr<cairn::FlashCheckpointer> flash_of(const std::filesystem::path& root,
                                                   const std::filesystem::path& memory,
                                                   const cairn::CheckpointerOptions& disk,
                                                   const cairn::Context& context) {
  cairn::FlashOptions options;
  options.memory = memory;
  options.memory_bytes = kMemoryBytes;
  options.disk = disk;
  return memory.empty() ? nullptr : std::make_unique<cairn::FlashCheckpointer>(root, options, context);
}

}  // namespace

Checkpoints::Checkpoints(const std::filesystem::path& root, const std::filesystem::path& memory,
                         const cairn::CheckpointerOptions& options, const cairn::Context& context, Log log)
    : log_(std::move(log)),
      own_(memory.empty() ? std::make_unique<cairn::Checkpointer>(root, options, context) : nullptr),
      flash_(flash_of(root, memory, options, context)),
      run_(flash_ ? flash_->disk() : *own_) {
  log_(fmt::format("recovered removed={}", clean(root, context)));
}

std::optional<Snapshot> Checkpoints::load_newest(const nlohmann::json& config) {
  Snapshot snapshot;
  const cairn::Requests wanted = {"state", "config", {"history", cairn::into(snapshot.history)}};
  std::optional<cairn::Resumed> resumed =
      flash_ ? std::optional<cairn::Resumed>(flash_->resume(wanted)) : run_.resume(wanted);
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

bool Checkpoints::is_due_on_disk(std::int64_t step) const {
  return run_.should_save(static_cast<std::uint64_t>(step));
}

void Checkpoints::save(const TrainingState& state, const nlohmann::json& config, const History& history) {
  if (flash_) {
    save_in_memory(state, config, history);
    return;
  }
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

void Checkpoints::save_in_memory(const TrainingState& state, const nlohmann::json& config,
                                 const History& history) {
  const cairn::Tree tree = to_tree(state);
  const cairn::FlashResponse saved = flash_->save(
      static_cast<std::uint64_t>(state.step), {{"state", tree}, {"config", config}, {"history", history}});
  if (saved.was_skipped()) {
    log_(fmt::format("skipped {}", state.step));
  }
}

void Checkpoints::poll() {
  if (saving_ && saving_.is_done()) {
    finish();
  }
}

void Checkpoints::finish() {
  if (flash_) {
    flash_->wait();
  }
  if (const cairn::StepResponse saved = std::exchange(saving_, cairn::StepResponse())) {
    log_(fmt::format("committed {} {}", saving_step_, facts_of(saved.wait())));
  }
}

}  // namespace digits
