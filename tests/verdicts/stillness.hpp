// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

namespace cairn::verdicts {

/// Tells whether every other thread of this process sleeps, so that nothing will happen before somebody sets the clock.
///
/// It asks the kernel: a thread that has been woken counts as awake before it has run, however busy the machine is.
/// Threads: one.
class Stillness {
 public:
  Stillness();
  ~Stillness();
  Stillness(const Stillness&) = delete;
  Stillness& operator=(const Stillness&) = delete;

  /// Returns whether all others sleep, and none of them ran while that was found out.
  [[nodiscard]] bool is_still();

  /// The names and states of all threads, a line each.
  [[nodiscard]] static std::string describe_threads();

 private:
  struct Files {
    int state = -1;  ///< /proc/self/task/<id>/stat
    int runs = -1;   ///< /proc/self/task/<id>/schedstat
  };

  /// Sums up how often all have run so far; false when one is awake.
  bool add_up(std::uint64_t& runs);
  /// Returns whether there is one that was not there before.
  bool list_threads();
  bool look_at(pid_t thread, std::uint64_t& runs);
  /// Returns whether any other thread has used processor time since the last call.
  bool has_worked();

  int directory_ = -1;
  pid_t self_;
  std::int64_t worked_ns_ = -1;
  std::map<pid_t, Files> files_;
};

}  // namespace cairn::verdicts
