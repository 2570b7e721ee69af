// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"

#include "support/target_history.hpp"

namespace cairn::kill {

/// What may be under each name, after all that a victim has said: what it was told is compared with the disk.
class Ledger {
 public:
  Ledger();

  /// Enters what one victim has said until its end; see README.md for the words.
  void read(const std::vector<std::string>& lines);

  /// Compares what is on the disk with what may be there: as the victim has left it, after a recovery, and after
  /// another one. What is there then is there from now on. Returns what is wrong; empty when nothing is.
  [[nodiscard]] std::string complaint(const std::filesystem::path& root, const Context& context);

  /// Why the last victim has ended by itself; empty when it has not.
  [[nodiscard]] const std::string& ended() const { return ended_; }
  /// The number of the last call that was begun.
  [[nodiscard]] std::int64_t last() const { return last_; }
  [[nodiscard]] std::uint64_t saves() const { return saves_; }
  /// How often a save was told that it has failed, or that nobody knows.
  [[nodiscard]] std::uint64_t refused() const { return refused_; }
  [[nodiscard]] std::uint64_t unknown() const { return unknown_; }
  /// How often a victim ended in the middle of something, or because of what it was told.
  [[nodiscard]] std::uint64_t interrupted() const { return interrupted_; }

 private:
  using Number = testing::TargetHistory::Number;

  void enter(const std::string& verb, Number number, const std::string& rest);
  void check(const std::optional<testing::Lie>& lie);
  /// Looks at every target, byte for byte, and says when one holds what it may not.
  [[nodiscard]] std::string look(const std::filesystem::path& root, const Context& context);

  std::map<std::string, testing::TargetHistory> targets_;
  std::map<Number, std::string> open_;  ///< What a victim has begun and was not told of: its target.
  std::map<std::string, std::optional<Number>> found_;
  std::string lies_;
  std::string ended_;
  std::int64_t last_ = 0;
  std::uint64_t saves_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t unknown_ = 0;
  std::uint64_t interrupted_ = 0;
};

}  // namespace cairn::kill
