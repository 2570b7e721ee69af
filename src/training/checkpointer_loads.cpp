// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include <algorithm>
#include <exception>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/api/find.hpp"
#include "cairn/api/load.hpp"
#include "cairn/api/maintain.hpp"
#include "cairn/base/error.hpp"

#include "api/internal/look.hpp"
#include "core/internal/disk_calls.hpp"
#include "core/internal/start.hpp"
#include "store/internal/damage.hpp"
#include "store/internal/listing.hpp"
#include "training/checkpointer_state.hpp"
#include "training/rank_resume.hpp"
#include "training/root.hpp"
#include "training/step_links.hpp"

namespace cairn {

std::optional<std::uint64_t> Checkpointer::State::best(const std::string& metric, Prefer prefer) const {
  return training::best_of(directory.infos(), metric, prefer);
}

std::uint64_t Checkpointer::State::resolve(const WhichStep& which) const {
  if (const auto* step = std::get_if<std::uint64_t>(&which.get())) {
    return *step;
  }
  const auto* wanted = std::get_if<WhichStep::Best>(&which.get());
  const std::optional<std::uint64_t> step =
      wanted != nullptr ? best(wanted->metric, wanted->prefer) : directory.latest();
  if (!step) {
    throw Error(Errc::not_found, fmt::format("{}: there are no steps", directory.root().string()));
  }
  return *step;
}

std::filesystem::path Checkpointer::State::path_of(std::uint64_t step) const {
  if (!directory.has(step)) {
    const std::optional<std::uint64_t> latest = directory.latest();
    throw Error(Errc::not_found,
                fmt::format("step {} of {}{}", step, directory.root().string(),
                            latest ? fmt::format(", the latest of which is {}", *latest) : ""));
  }
  return directory.path(step);
}

LoadOptions Checkpointer::State::load_options(LoadOptions how) const {
  if (how.join_timeout == how.join_timeout.zero()) {
    how.join_timeout = options.join_timeout;
  }
  return how;
}

/// The step of this number in another root is not the one that is meant.
void Checkpointer::State::look_at_root(Timeout deadline) const {
  const core::DiskCalls calls(context);
  calls.run(fmt::format("look at {}", directory.root().string()), deadline,
            [root = directory.held_root()] { static_cast<void>(root->open()); });
}

/// Does what comes before a load. Of ranks that load together one that refuses it there tells the others.
void Checkpointer::State::prepare_load(const LoadOptions& how, const std::function<void()>& prepare) const {
  try {
    prepare();
  } catch (...) {
    core::tell_refusal(directory.root(), how, context);
    throw;
  }
}

/// Returns whether a failure says that the step is damaged. Where that cannot be told it is not damage: the
/// failure itself counts.
bool Checkpointer::State::is_damage(const std::exception_ptr& failure,
                                    const std::filesystem::path& path) const {
  const std::optional<std::error_code> code = code_of(failure);
  try {
    return code && store::is_damage(training::syscalls_of(context), *code, path);
  } catch (const Error&) {
    return false;
  }
}

/// Returns what to tell of a load that has failed, and learns from it.
std::exception_ptr Checkpointer::State::judge_load(std::uint64_t step, const std::filesystem::path& path,
                                                   const std::exception_ptr& failure) {
  if (code_of(failure) == make_error_code(Errc::not_found) && !is_on_disk(step)) {
    return std::make_exception_ptr(
        Error(Errc::not_found, fmt::format("step {} was removed meanwhile: {}", step, path.string())));
  }
  if (is_damage(failure, path)) {
    remover.set_damaged(step, true);
  }
  return failure;
}

std::string Checkpointer::State::refusal_of(Resumed& resumed, const ResumeOptions& how) const {
  const bool is_accepted = !how.accept || how.accept(resumed.step, resumed.loaded);
  return is_accepted ? ""
                     : fmt::format("{}: ResumeOptions::accept did not take it",
                                   directory.path(resumed.step).string());
}

/// Finds the newest step that the program accepts, in a job of one process.
std::optional<Resumed> Checkpointer::State::resume_alone(const Requests& requests, const ResumeOptions& how,
                                                         const training::CallTime& time) {
  std::set<std::uint64_t> without;
  std::vector<PassedOver> refused;
  while (true) {
    std::optional<Resumed> resumed = resume_newest(requests, how, time, without);
    if (!resumed && !refused.empty()) {  // To begin anew is a decision, too.
      throw Error(refused.front().code, refused.front().why);
    }
    const std::string refusal = resumed ? refusal_of(*resumed, how) : "";
    if (refusal.empty()) {
      if (resumed) {
        refused.insert(refused.end(), resumed->passed_over.begin(), resumed->passed_over.end());
        resumed->passed_over = std::move(refused);
      }
      return resumed;
    }
    refused.push_back({directory.path(resumed->step), make_error_code(Errc::invalid_argument), refusal});
    without.insert(resumed->step);
  }
}

std::optional<Resumed> Checkpointer::State::resume(const Requests& requests, const ResumeOptions& how) {
  if (how.accept && !how.fall_back) {
    throw Error(Errc::invalid_argument,
                "ResumeOptions::accept chooses among older steps, which needs fall_back");
  }
  const LoadOptions loading = load_options(how.load);
  const training::CallTime time(clock, given_root, std::nullopt, loading.deadline, loading.join_timeout);
  std::optional<Resumed> resumed =
      ranks ? resume_together(requests, how, time) : resume_alone(requests, how, time);
  note_own(directory.latest());
  if (!resumed) {
    tell_other_names(how);
  } else {
    std::stable_sort(resumed->passed_over.begin(), resumed->passed_over.end(),
                     [this](const PassedOver& a, const PassedOver& b) {
                       return directory.parse(a.path.filename().string()) >
                              directory.parse(b.path.filename().string());
                     });
  }
  return resumed;
}

/// Says that a training begins anew though there are checkpoints, which are called otherwise than it calls its steps.
void Checkpointer::State::tell_other_names(const ResumeOptions& how) const {
  constexpr std::size_t kMostNamed = 3;
  std::vector<std::string> others = directory.others();
  const std::size_t count = others.size();
  if (count == 0) {
    return;
  }
  others.resize(std::min(count, kMostNamed));
  const std::string words = fmt::format(
      "no checkpoint is called as a step of this training is ('{}'), and {} that {} called otherwise {} "
      "passed over ('{}'{}); CheckpointerOptions::names says which names count",
      directory.path(1).filename().string(), count, count == 1 ? "is" : "are", count == 1 ? "is" : "are",
      fmt::join(others, "', '"), count > kMostNamed ? ", …" : "");
  if (how.refuse_other_names) {
    throw Error(Errc::not_found, fmt::format("{}: {}", directory.root().string(), words));
  }
  if (const auto& tell = context.options().on_problem; tell && is_primary()) {
    tell(directory.root().string(), words);
  }
}

std::optional<Resumed> Checkpointer::State::resume_together(const Requests& requests,
                                                            const ResumeOptions& how,
                                                            const training::CallTime& time) {
  training::RankResume rank;
  rank.time = &time;
  rank.root = given_root.string();
  rank.refusal = [&](Resumed& resumed) { return refusal_of(resumed, how); };
  rank.load_newest = [&](const std::set<std::uint64_t>& without) {
    return resume_newest(requests, how, time, without);
  };
  rank.loads_together = how.load.together;
  rank.find_newest = [&](const std::set<std::uint64_t>& without) { return find_newest(how, without); };
  rank.load = [&](std::uint64_t step) {
    LoadOptions loading = load_options(how.load);
    prepare_load(how.load, [&] {
      look_at_root(time.left());
      loading.deadline = time.left();
    });
    const std::filesystem::path path = directory.path(step);
    try {
      return load_checkpointables(path, requests, loading, context);
    } catch (...) {
      if (is_primary() && is_damage(std::current_exception(), path)) {
        remover.set_damaged(step, true);
      }
      throw;
    }
  };
  rank.may_fall_back = [&](std::uint64_t step, const std::exception_ptr& failure) {
    return how.fall_back && is_damage(failure, directory.path(step));
  };
  rank.path = [&](std::uint64_t step) { return directory.path(step); };
  std::optional<Resumed> resumed = training::resume_together(coordinator(), rank);
  if (!is_primary()) {
    list_again([this] { directory.reload(); });  // As rank 0 has left it.
  }
  return resumed;
}

/// The newest step that load_latest tries, also one that has lost its COMMIT and is not listed as a step otherwise.
std::optional<FoundCheckpoint> Checkpointer::State::newest_found(
    const std::set<std::uint64_t>& without) const {
  std::optional<std::uint64_t> newest;
  std::optional<FoundCheckpoint> found;
  ListOptions everything;
  everything.everything = true;
  for (FoundCheckpoint& each : list_checkpoints(directory.root(), everything, context)) {
    const std::optional<std::uint64_t> step =
        each.counts() ? directory.parse(store::name_in_root(each)) : std::nullopt;
    if (step && !without.contains(*step) && newest < step) {
      newest = step;
      found = std::move(each);
    }
  }
  return found;
}

/// The number of that; nothing where the disk does not say.
std::optional<std::uint64_t> Checkpointer::State::newest_on_disk(
    const std::set<std::uint64_t>& without) const {
  try {
    const std::optional<FoundCheckpoint> found = newest_found(without);
    return found ? directory.parse(store::name_in_root(*found)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The newest step for all ranks to load together, sound or not.
std::optional<std::uint64_t> Checkpointer::State::find_newest(const ResumeOptions& how,
                                                              const std::set<std::uint64_t>& without) {
  look_for_steps(how, without);
  const bool is_empty = api::is_yet_to_be_made(directory.root());
  const std::optional<FoundCheckpoint> found = is_empty ? std::nullopt : newest_found(without);
  if (!found) {
    return std::nullopt;
  }
  if (found->kind == store::EntryClass::displaced) {  // As load_latest has it.
    throw Error(Errc::not_committed, fmt::format("{}; recover puts it back", found->problem));
  }
  return directory.parse(store::name_in_root(*found));
}

/// What comes before the newest step is looked for, without those that a rank cannot load.
void Checkpointer::State::look_for_steps(const ResumeOptions& how, const std::set<std::uint64_t>& without) {
  static_cast<void>(directory.held_root()->open());  // Before anything of another one is recovered.
  if (how.recover && without.empty() && !api::is_yet_to_be_made(directory.root())) {
    recover(directory.root(), how.recovery, context);
  }
  list_again([this] { directory.refresh(); });
  for (const std::uint64_t step : without) {
    remover.set_damaged(step, true);  // Another rank cannot load it.
  }
}

std::optional<Resumed> Checkpointer::State::resume_newest(const Requests& requests, const ResumeOptions& how,
                                                          const training::CallTime& time,
                                                          const std::set<std::uint64_t>& without) {
  look_for_steps(how, without);
  LoadLatestOptions latest;
  latest.load = how.load;
  latest.load.deadline = time.left();
  latest.load.together = false;  // This process is alone, or its ranks load one by one.
  latest.fall_back = how.fall_back;
  latest.number = [this, &without](std::string_view name) {
    const std::optional<std::uint64_t> step = directory.parse(name);
    return step && without.count(*step) == 0 ? step : std::nullopt;
  };
  std::optional<LoadedLatest> loaded;
  try {
    loaded = load_latest(directory.root(), requests, latest, context);
  } catch (...) {
    const std::optional<std::uint64_t> newest = newest_on_disk(without);
    if (newest && is_damage(std::current_exception(), directory.path(*newest))) {
      remover.set_damaged(*newest, true);
    }
    throw;
  }
  if (!loaded) {
    return std::nullopt;
  }
  for (const PassedOver& each : loaded->passed_over) {
    if (const std::optional<std::uint64_t> step = directory.parse(each.path.filename().string())) {
      remover.set_damaged(*step, true);
    }
  }
  Resumed resumed;
  resumed.step = *directory.parse(loaded->checkpoint.name);
  resumed.loaded = std::move(loaded->loaded);
  resumed.passed_over = std::move(loaded->passed_over);
  return resumed;
}

}  // namespace cairn
