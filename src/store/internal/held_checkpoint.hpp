// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "io/internal/syscalls.hpp"
#include "store/internal/checkpoint_lock.hpp"
#include "store/internal/source.hpp"
#include "store/internal/store.hpp"

namespace cairn::store {

/// A committed checkpoint that somebody reads for long: opened once, and held (CheckpointHold) until this goes.
///
/// Every call blocks.
class HeldCheckpoint {
 public:
  /// Errors: as Store::open_committed; Errc::not_found when it is being removed.
  HeldCheckpoint(const Store& store, io::Syscalls& syscalls, const std::filesystem::path& path);

  [[nodiscard]] const std::shared_ptr<const Source>& source() const noexcept { return source_; }
  [[nodiscard]] const Manifest& manifest() const noexcept { return *source_->manifest(); }

  /// Errors: Errc::not_found when another checkpoint, or none, is at its path by now.
  void require_current() const;

 private:
  const Store& store_;
  io::Syscalls& syscalls_;
  std::shared_ptr<const Source> source_;
  std::optional<CheckpointHold> hold_;  // Nothing where the store has no locks.
};

}  // namespace cairn::store
