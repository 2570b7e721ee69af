// SPDX-License-Identifier: Apache-2.0
#include "store/internal/held_checkpoint.hpp"

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "store/internal/committed_directory.hpp"

namespace cairn::store {

// outlives: store and syscalls are those of the context, which outlive what is read with them.
HeldCheckpoint::HeldCheckpoint(const Store& store, io::Syscalls& syscalls, const std::filesystem::path& path)
    : store_(store), syscalls_(syscalls) {
  for (int restarts = 0; restarts <= kMostRestarts; ++restarts) {
    source_ = store.open_committed(syscalls, path);
    const io::Directory* directory = source_->directory();
    if (directory == nullptr) {
      return;
    }
    hold_.emplace(*directory);
    CAIRN_ASSERT(source_->manifest() != nullptr, "what is held is a checkpoint");
    // A rename after this look finds the hold; one before it shows here.
    if (hold_->is_held() && !directory->is_replaced()) {
      return;
    }
  }
  CAIRN_PROBE("store.held_checkpoint_is_removed");
  throw Error(Errc::not_found, fmt::format("{} is being removed or replaced", path.string()));
}

void HeldCheckpoint::require_current() const {
  const std::filesystem::path& path = source_->path();
  if (store_.open_committed(syscalls_, path)->manifest()->uuid != manifest().uuid) {
    throw Error(Errc::not_found, fmt::format("{} was replaced meanwhile: checkpoint {} is no longer there",
                                             path.string(), to_string(manifest().uuid)));
  }
}

}  // namespace cairn::store
