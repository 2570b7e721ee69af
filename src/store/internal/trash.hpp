// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "base/internal/mutex.hpp"
#include "io/internal/file.hpp"

namespace cairn::store {

/// Remembers what removals have renamed away in one directory and not removed yet: the checkpoint is gone,
/// its bytes are not. Who keeps this tries again; without it only recovery does.
///
/// Threads: every method may be called from any thread.
class Trash {
 public:
  /// A removal is about to give something this name.
  void begin(const std::string& name);
  /// Nothing of it is left.
  void end(const std::string& name) noexcept;
  /// The removal has failed: whoever comes next may go on with it. One that has ended stays ended.
  void give_up(const std::string& name) noexcept;

  [[nodiscard]] bool is_empty() const;

  /// Goes on with all that failed, in `parent`. Blocks.
  ///
  /// Errors: the first failure, once all were tried; Errc::timed_out, where nothing has failed: a removal that has
  ///         passed its deadline goes on.
  void remove(const io::Directory& parent);

 private:
  mutable Mutex mutex_;
  std::map<std::string, bool> is_at_work_ CAIRN_GUARDED_BY(mutex_);  // By name; else its removal has failed.
};

}  // namespace cairn::store
