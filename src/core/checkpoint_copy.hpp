// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <vector>

#include "cairn/async/awaitable.hpp"

#include "core/operation.hpp"
#include "core/save_files.hpp"
#include "store/internal/held_checkpoint.hpp"
#include "store/internal/manifest.hpp"

namespace cairn::core {

/// The checkpoint that a save copies, instead of asking handlers for what is in it.
class CheckpointCopy {
 public:
  CheckpointCopy(Operation& operation, SaveFiles& files, std::filesystem::path from)
      : operation_(operation), files_(files), from_(std::move(from)) {}

  ~CheckpointCopy();
  CheckpointCopy(const CheckpointCopy&) = delete;
  CheckpointCopy& operator=(const CheckpointCopy&) = delete;

  /// Opens the checkpoint, and looks at the target. Returns false when the same checkpoint is there already. Blocks.
  bool look();
  /// Makes its directories in the new one. Blocks.
  void make_directories() const;
  /// Copies its files, several at once; each of these awaits less than all.
  [[nodiscard]] std::vector<Awaitable<>> copy();
  [[nodiscard]] const store::Manifest& manifest() const noexcept { return original_->manifest(); }
  /// Errors: Errc::not_found when another checkpoint, or none, is at its path by now.
  void require_current() const { original_->require_current(); }
  void close() noexcept { original_.reset(); }

 private:
  [[nodiscard]] bool is_there() const;
  Awaitable<> copy_next();

  Operation& operation_;
  SaveFiles& files_;
  const std::filesystem::path from_;
  std::unique_ptr<store::HeldCheckpoint> original_;  // Held while the copy is made.
  std::size_t next_ = 0;                             // Of its files.
};

}  // namespace cairn::core
