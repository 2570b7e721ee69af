// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "support/target_history.hpp"

namespace cairn::testing {

/// The histories of several targets, told by several threads, and the lies that were found in them.
///
/// Threads: every method may be called from any thread.
class Chronicle {
 public:
  using Number = TargetHistory::Number;
  using Tick = TargetHistory::Tick;

  /// Enters a call before it is made; returns its number, which is what a save has to save.
  Number begin_save(const std::string& target, bool overwrites = true);
  Number begin_removal(const std::string& target);
  /// A call that does not wait has returned: whoever calls now comes after it.
  void place(Number number);
  /// What a call was told.
  void answer_save(Number number, const std::exception_ptr& failure);
  void answer_removal(Number number, const std::exception_ptr& failure);
  /// Nothing of all that has begun runs any more.
  void settle();

  /// When a look at a target begins, and what it has found.
  [[nodiscard]] Tick now(const std::string& target);
  void see(const std::string& target, std::optional<Number> holder, Tick since);
  /// A look whose finding is a lie by itself.
  void lie(const std::string& kind, const std::string& what);

  [[nodiscard]] std::vector<std::string> targets() const;
  /// How many lies there were of each kind.
  [[nodiscard]] std::map<std::string, std::uint64_t> lies() const;
  /// The first of them, with their kinds; a line each.
  [[nodiscard]] std::string first_lies() const;

 private:
  static constexpr std::size_t kMostLies = 10;

  Number begin(const std::string& target);
  TargetHistory& history_of(Number number);
  void check(const std::optional<Lie>& lie);

  mutable std::mutex mutex_;  // Protects all below.
  std::map<std::string, TargetHistory> histories_;
  std::vector<TargetHistory*> by_number_;
  std::map<std::string, std::uint64_t> kinds_;
  std::vector<std::string> first_;
};

}  // namespace cairn::testing
