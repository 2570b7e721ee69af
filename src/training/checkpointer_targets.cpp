// SPDX-License-Identifier: Apache-2.0
// What stands where a step is to be saved.
#include <system_error>

#include <filesystem>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "training/checkpointer_state.hpp"
#include "training/internal/damaged_aside.hpp"
#include "training/root.hpp"

namespace cairn {

/// Returns whether something has the name of a step, be it a step or what is left of one.
bool Checkpointer::State::is_on_disk(std::uint64_t step) const {
  std::error_code unknown;  // Then it may be there.
  return std::filesystem::exists(directory.path(step), unknown) || unknown ||
         std::filesystem::exists(directory.entry(step), unknown) || unknown;
}

/// Refuses to overwrite a step that is pinned. Asked at the call, before anything is copied, and by the commit, when
/// nobody can pin it any more.
void Checkpointer::State::require_unpinned(std::uint64_t step) const {
  if (directory.is_pinned(step)) {
    throw Error(Errc::already_exists,
                fmt::format("step {} is pinned: {}; it is overwritten only after Checkpointer::unpin", step,
                            directory.path(step).string()));
  }
}

/// Refuses to save in another root than before, and a step where another one is that is not to go; moves away what is
/// known to be damaged and no save could replace. On rank 0, which alone knows what the disk holds.
void Checkpointer::State::make_way(std::uint64_t step, bool overwrite) const {
  directory.held_root()->require_same();
  const std::string path = directory.path(step).string();
  if (!is_on_disk(step)) {
    return;
  }
  if (!overwrite && remover.is_damaged(step)) {
    throw Error(
        Errc::already_exists,
        fmt::format("step {} is there, and damaged or passed over by resume: {}; to save it again set "
                    "StepOptions::save.overwrite, which replaces it",
                    step, path));
  }
  if (!overwrite && directory.has(step)) {
    throw Error(Errc::already_exists, fmt::format("step {} is there: {}", step, path));
  }
  if (overwrite) {
    require_unpinned(step);
  }
  if (overwrite && remover.is_damaged(step)) {
    training::set_damaged_aside(training::syscalls_of(context), directory.root(),
                                directory.path(step).filename(), context.options().random);
  }
}

}  // namespace cairn
