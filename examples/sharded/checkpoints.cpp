// SPDX-License-Identifier: Apache-2.0
#include "sharded/checkpoints.hpp"

#include <algorithm>
#include <utility>

#include <cairn/cairn.hpp>
#include <fmt/format.h>

#include "digits/step_folders.hpp"
#include "sharded/state_tree.hpp"

namespace sharded {
namespace {

constexpr std::int64_t kNone = -1;

cairn::ContextOptions context_options(const Job& job) {
  cairn::ContextOptions options;
  options.coordinator = job.coordinator();
  return options;
}

}  // namespace

Checkpoints::Checkpoints(std::filesystem::path root, std::size_t keep, const Job& job, Log log)
    : root_(std::move(root)),
      keep_(std::max<std::size_t>(keep, 1)),
      job_(job),
      log_(std::move(log)),
      context_(context_options(job)) {
  if (job_.rank() == 0) {
    digits::StepFolders found = digits::recover_step_folders(root_, context_);
    committed_ = std::move(found.committed);
    log_(fmt::format("recovered removed={}", found.removed));
  }
  // One rank chooses: others might look before the folder is clean, or while it changes.
  const std::int64_t newest_step = job_.broadcast(committed_.empty() ? kNone : committed_.back());
  if (job_.rank() != 0 && newest_step != kNone) {
    committed_ = {newest_step};
  }
}

std::optional<std::int64_t> Checkpoints::newest() const {
  return committed_.empty() ? std::nullopt : std::optional(committed_.back());
}

RankState Checkpoints::load_newest(const digits::Settings& settings) const {
  const std::filesystem::path path = path_of(committed_.back());
  const cairn::AbstractTree wanted = wanted_tree(cairn::metadata(path, context_), job_);
  return from_tree(cairn::load(path, wanted, {}, context_), settings);
}

void Checkpoints::save(const RankState& state, const digits::Settings& settings) {
  finish();
  log_(fmt::format("saving {}", state.step));
  saving_ = cairn::save_async(path_of(state.step), to_tree(state, settings, job_), {}, context_);
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
  log_(fmt::format("committed {} {}", step, digits::facts_of(result)));
  committed_.push_back(step);
  remove_old();
}

std::filesystem::path Checkpoints::path_of(std::int64_t step) const {
  return root_ / std::to_string(step);
}

/// Called after a newer checkpoint is durable, never before. What one rank has removed is removed for all.
void Checkpoints::remove_old() {
  while (committed_.size() > keep_) {
    if (job_.rank() == 0) {
      cairn::remove_checkpoint(path_of(committed_.front()), context_);
    }
    committed_.erase(committed_.begin());
  }
}

}  // namespace sharded
