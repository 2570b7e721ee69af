// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "io/internal/file.hpp"

namespace cairn::store {

/// An open file of this process alone: a child that is forked closes its copy at once. Else a lock on the file would
/// be held for as long as the child lives, whatever becomes of the process that has taken it. A child that has not run
/// yet has closed nothing, so where the process was forked, the lock is given back before the file is closed.
class ProcessFile {
 public:
  ProcessFile() = default;
  /// `open` is called again where the process is forked meanwhile.
  explicit ProcessFile(const std::function<io::FileHandle()>& open);
  ~ProcessFile();
  ProcessFile(ProcessFile&& other) noexcept = default;
  ProcessFile& operator=(ProcessFile&&) = delete;

  [[nodiscard]] const io::FileHandle& file() const noexcept { return *file_; }
  [[nodiscard]] int fd() const noexcept { return file_->fd(); }

 private:
  std::unique_ptr<io::FileHandle> file_;
  pid_t process_ = 0;
  std::uint64_t forks_ = 0;  ///< Of the process that had begun when the file was opened.
};

}  // namespace cairn::store
