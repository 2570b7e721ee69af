// SPDX-License-Identifier: Apache-2.0
#include "training/rewinding.hpp"

#include <system_error>

#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"

#include "store/internal/checkpoint_entries.hpp"
#include "training/internal/pins.hpp"
#include "training/internal/rewound.hpp"
#include "training/remover.hpp"
#include "training/root.hpp"

namespace cairn::training {
namespace {

io::Directory make_line(const io::Directory& root, const Context& context) {
  return make_rewound_line(root, clock_of(context).now(), context.options().random);
}

/// A rewind that has moved nothing leaves no line.
void remove_if_empty(const io::Directory& root, const io::Directory& line) noexcept {
  try {
    root.open_directory(kRewoundName).remove_empty_directory(line.path().filename().string());
  } catch (const Error&) {  // Something is in it.
  }
}

}  // namespace

Rewinding::Rewinding(std::uint64_t step, StepDirectory& directory, StepUses& uses)
    : directory_(directory), root_(directory.held_root()->open()) {
  find(step, uses);
  std::vector<std::string> objections;
  for (auto& [number, above] : above_) {
    const bool is_free = removals_.emplace_back(uses, number).has_begun();
    if (!is_free && above.objection.empty()) {
      above.objection = "is being saved, loaded or removed";
    }
    if (!above.objection.empty()) {
      objections.push_back(fmt::format("step {} {}", number, above.objection));
    }
  }
  if (!above_.empty() && root_) {
    stays_.emplace(*root_, directory.entry(step).filename().string());
    if (!stays_->is_held()) {
      objections.push_back(fmt::format("step {} is being pinned, replaced or removed", step));
    }
  }
  if (!objections.empty()) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} does not go back to step {}, and nothing is moved: {}",
                            directory.root().string(), step, fmt::join(objections, "; ")));
  }
}

void Rewinding::find(std::uint64_t step, const StepUses& uses) {
  for (const std::uint64_t number : uses.in_use()) {
    if (number > step) {
      above_.try_emplace(number);  // Also one that is not there yet.
    }
  }
  if (!root_) {
    return;
  }
  for (store::CheckpointEntry& each : store::list_entries(*root_)) {
    const std::optional<std::uint64_t> number = directory_.parse(each.checkpoint);
    if (!number || *number <= step) {
      continue;
    }
    if (!each.is_movable()) {
      above_[*number].objection = fmt::format(
          "{} ({}: {})", each.kind == store::EntryClass::live ? "is being saved" : "cannot be looked at",
          each.entry, each.note);
    }
    above_[*number].entries.push_back(std::move(each.entry));
  }
  const std::set<std::uint64_t> pins = read_pins(*root_);
  for (auto& [number, above] : above_) {
    if (pins.contains(number)) {
      above.objection = "is pinned";
    }
  }
}

void Rewinding::run(const Context& context) {
  move_leftovers(context);
  const io::Directory line = make_line(*root_, context);
  try {
    for (auto each = above_.rbegin(); each != above_.rend(); ++each) {
      const auto& [step, above] = *each;
      if (!above.entries.empty()) {
        move_step(step, above.entries.back(), line);
      }
      directory_.forget(step);
    }
  } catch (...) {
    remove_if_empty(*root_, line);
    throw;
  }
}

void Rewinding::move_leftovers(const Context& context) {
  std::optional<io::Directory> line;
  for (auto each = above_.rbegin(); each != above_.rend(); ++each) {
    std::vector<std::string>& entries = each->second.entries;
    for (; entries.size() > 1; entries.erase(entries.begin())) {
      if (!line) {
        line.emplace(make_line(*root_, context));
      }
      move(entries.front(), *line);
    }
  }
}

void Rewinding::move_step(std::uint64_t step, const std::string& entry, const io::Directory& line) const {
  const store::CheckpointLock checkpoint_lock(*root_, entry);
  if (!checkpoint_lock.is_held() || is_pinned(*root_, step)) {
    throw Error(
        Errc::invalid_argument,
        fmt::format(
            "step {} of {} was pinned meanwhile, or somebody pins, replaces or removes it: those above "
            "it are set aside, and it is the last step now",
            step, root_->path().string()));
  }
  move(entry, line);
}

void Rewinding::move(const std::string& entry, const io::Directory& line) const {
  try {
    store::move_entry(*root_, entry, line);
  } catch (const Error& error) {
    if (error.code() == std::error_code(EXDEV, std::system_category())) {
      throw Error(
          error.code(),
          fmt::format("{} lies in the lower layer of an overlay file system and cannot be renamed: it stays",
                      (root_->path() / entry).string()));
    }
    // Another program may have removed it.
    if (error.code() != std::errc::no_such_file_or_directory || root_->status(entry)) {
      throw;
    }
  }
}

}  // namespace cairn::training
