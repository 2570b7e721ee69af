// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"

#include "io/internal/syscalls.hpp"
#include "support/chronicle.hpp"
#include "support/slow_calls.hpp"

namespace cairn::stress {

/// Where actors act, and who remembers what they were told.
struct World {
  std::filesystem::path root;
  testing::Chronicle& chronicle;
  /// How long a call of the system takes at most; the longer, the fewer are slow. A deadline may be as long.
  std::chrono::milliseconds slowest{30};
  /// Makes the calls of a context, for a library that lies; null: calls that are slow now and then.
  std::function<std::shared_ptr<io::Syscalls>()> broken_calls;
};

/// What actors did, and how it ended; the numbers of several can be added.
struct Tally {
  std::map<std::string, std::uint64_t> outcomes;  ///< "saved", "loaded", "not saved: …", …
  std::uint64_t slow_calls = 0;
  std::string first_problem;  ///< The first failure that no rule allows, in words.

  void add(const Tally& other);
};

/// Makes the checkpoints that all actors write and read: from then on each of them is always there.
void fill_root(const World& world);

/// Compares every target with what it may hold, with all its bytes. For when nothing runs any more.
void look_at_all(const World& world);

/// One thread of a program that does everything at any time: saves, loads, cancels, deadlines, removals, recoveries,
/// contexts that end with work in flight. What it does next depends on its seed only. All that it is told, and all
/// that it then finds, it tells the chronicle.
///
/// Threads: one; several actors share a world.
class Actor {
 public:
  Actor(World world, int number, std::uint64_t seed);
  ~Actor();
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  void act();

  [[nodiscard]] const Tally& tally() const noexcept { return tally_; }

 private:
  using Number = testing::Chronicle::Number;
  using Codes = std::vector<Errc>;

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

  [[nodiscard]] std::string shared();
  [[nodiscard]] std::filesystem::path path_of(const std::string& target) const {
    return world_.root / target;
  }
  [[nodiscard]] std::chrono::microseconds moment();
  [[nodiscard]] ContextOptions context_options();
  void make_context();

  /// Runs `work`; counts it as `done`, or as how it failed. What others may do to it is `allowed`. Returns what it
  /// threw.
  template <class Work>
  std::exception_ptr count(const std::string& done, const Codes& allowed, Work work);
  /// A save of `target`, by `work`, which is given its number and its options; then a look at what is there.
  template <class Work>
  void save_to(const std::string& target, const std::string& done, const Codes& allowed, SaveOptions options,
               Work work);
  /// A load of `target` by `work`, which returns its state.
  template <class Work>
  void load_from(const std::string& target, const std::string& done, const Codes& allowed, Work work);
  void look_at(const std::string& target);

  World world_;
  int number_;
  std::mt19937_64 random_;
  std::shared_ptr<testing::SlowCalls> slow_;
  std::optional<Context> context_;
  std::uint64_t step_ = 0;
  Tally tally_;
};

}  // namespace cairn::stress
