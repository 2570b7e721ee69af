// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"

namespace cairn::stress {

/// What actors did, and how it ended; the numbers of several can be added.
struct Tally {
  std::map<std::string, std::uint64_t> outcomes;  ///< "saved", "loaded", "save cancelled", …
  std::uint64_t wrong = 0;                        ///< Loads that gave other values than one save had.
  std::string first_problem;                      ///< The first failure that no rule allows, in words.

  void add(const Tally& other);
};

/// Makes the checkpoints that all actors write and read: from then on each of them is always there.
void fill_root(const std::filesystem::path& root);

/// One thread of a program that does everything at any time: saves, loads, cancels, deadlines, removals, recoveries,
/// contexts that end with work in flight. What it does next depends on its seed only.
///
/// Threads: one; several actors share a root.
class Actor {
 public:
  Actor(std::filesystem::path root, int number, std::uint64_t seed);

  void act();

  [[nodiscard]] const Tally& tally() const noexcept { return tally_; }

 private:
  void save_and_wait(bool overwrite);
  void save_and_cancel();
  void save_until_deadline();
  void save_and_drop();
  void save_own();
  void load_shared();
  void load_foreign();
  void load_and_cancel();
  void describe_shared();
  void recover_root();
  void end_context();

  [[nodiscard]] Tree next_state();
  [[nodiscard]] std::filesystem::path shared();
  [[nodiscard]] std::chrono::microseconds moment();
  SaveOptions replacing();

  /// Runs `work`; counts it as `done`, or as how it failed. What others may do to it is `allowed`.
  template <class Work>
  void count(const std::string& done, const std::vector<Errc>& allowed, Work work);
  void check(const Tree& state);

  std::filesystem::path root_;
  int number_;
  std::mt19937_64 random_;
  std::optional<Context> context_;
  std::uint64_t step_ = 0;
  Tally tally_;
};

}  // namespace cairn::stress
