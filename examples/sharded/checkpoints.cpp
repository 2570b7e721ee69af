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

/// Removes all but the `keep` newest.
void keep_newest(const std::filesystem::path& root, std::size_t keep, const cairn::Context& context) {
  for (auto old = cairn::list_checkpoints(root, {}, context); old.size() > keep; old.erase(old.begin())) {
    cairn::remove_checkpoint(old.front().path, {}, context);
  }
}

}  // namespace

Checkpoints::Checkpoints(std::filesystem::path root, std::size_t keep, const Job& job, Log log)
    : root_(std::move(root)),
      keep_(std::max<std::size_t>(keep, 1)),
      job_(job),
      log_(std::move(log)),
      context_(context_options(job)) {
  if (job_.rank() == 0) {
    log_(fmt::format("recovered removed={}", digits::clean(root_, context_)));
  }
}

std::optional<std::int64_t> Checkpoints::newest() const {
  std::int64_t step = kNone;
  if (job_.rank() ==
      0) {  // One rank chooses: others might look before the folder is clean, or while it changes.
    const auto latest = cairn::latest_checkpoint(root_, {}, context_);
    step = latest ? std::stoll(latest->name) : kNone;
  }
  step = job_.broadcast(step);
  return step == kNone ? std::nullopt : std::optional(step);
}

RankState Checkpoints::load(std::int64_t step, const digits::Settings& settings) const {
  const std::filesystem::path path = path_of(step);
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
  if (job_.rank() == 0) {
    keep_newest(root_, keep_, context_);  // After a newer one is durable, never before.
  }
}

std::filesystem::path Checkpoints::path_of(std::int64_t step) const {
  return root_ / std::to_string(step);
}

}  // namespace sharded
