// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"

namespace cairn::kill {

/// What may be under each name, after all that a victim has said.
class Ledger {
 public:
  Ledger();

  /// Enters what one victim has said until its end.
  void read(const std::vector<std::string>& lines);

  /// Runs recovery on `root` and compares what is there then with what may be there; that is what is there from now on.
  /// Returns what is wrong; empty when nothing is.
  [[nodiscard]] std::string complaint(const std::filesystem::path& root, const Context& context);

  /// The number of the last save that was begun.
  [[nodiscard]] std::int64_t last() const { return last_; }
  [[nodiscard]] std::uint64_t saves() const { return saves_; }
  /// How often a victim ended in the middle of something.
  [[nodiscard]] std::uint64_t interrupted() const { return interrupted_; }

 private:
  /// The number of the save that is there; none: no checkpoint.
  using Content = std::optional<std::int64_t>;

  std::map<std::string, std::set<Content>> may_hold_;
  std::int64_t last_ = 0;
  std::uint64_t saves_ = 0;
  std::uint64_t interrupted_ = 0;
};

}  // namespace cairn::kill
