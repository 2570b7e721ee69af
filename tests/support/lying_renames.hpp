// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <mutex>
#include <string>

#include "support/forwarding_syscalls.hpp"

namespace cairn::testing {

/// How the renames that make checkpoints visible lie.
enum class RenameLie {
  forgotten,  ///< Answered with success, and never done.
  undead,     ///< Answered with EIO; the checkpoint becomes visible later, when the next one is renamed.
};

/// The operating system of a library whose verdicts are lies, for tests of those who judge it.
class LyingRenames final : public ForwardingSyscalls {
 public:
  explicit LyingRenames(RenameLie lie) : lie_(lie) {}
  ~LyingRenames() override { raise_the_dead(); }  ///< The last one, too.

  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                io::RenameMode mode) noexcept override;

 private:
  void bury(const std::filesystem::path& directory, const std::filesystem::path& target);
  void raise_the_dead() noexcept;

  const RenameLie lie_;
  std::mutex mutex_;              // Protects all below.
  std::filesystem::path copy_;    // Of a directory that was not renamed; empty: none.
  std::filesystem::path target_;  // What it shall be called.
  int buried_ = 0;
};

}  // namespace cairn::testing
