// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/testing/local_ranks.hpp"

#include "ranks/job_history.hpp"
#include "ranks/story.hpp"
#include "support/slow_calls.hpp"

namespace cairn::ranks {

/// Plays a story: a context for each rank, and a thread that calls its saves.
class Player {
 public:
  /// `folder` is there, and empty. `broken`: the operating system that rank 0 has instead of a slow one.
  Player(const Story& story, std::filesystem::path folder, JobHistory& history,
         std::shared_ptr<io::Syscalls> broken = nullptr);

  /// Returns when all has ended, and was compared with what the ranks were told.
  void play();

  [[nodiscard]] std::uint64_t failures() const;
  [[nodiscard]] std::uint64_t slow_calls() const;

 private:
  struct Pending {
    JobHistory::Number number = 0;
    AsyncResponse response;
  };

  void play_rank(std::size_t rank);
  void save(std::size_t rank, JobHistory::Number number, std::vector<Pending>& pending);
  void deal_with(std::size_t rank, Pending pending, const Step& step, std::vector<Pending>& later);
  void wait(std::size_t rank, const Pending& pending);
  void silence(std::size_t rank, JobHistory::Number number);
  /// What a rank saves: rows of an array, the number, and a note.
  [[nodiscard]] Tree state_of(std::size_t rank, JobHistory::Number number) const;
  /// In what a rank contradicts the others.
  [[nodiscard]] Contradiction contradiction_of(std::size_t rank, JobHistory::Number number) const;

  void look(std::size_t target, const Context& context);
  void look_at_all();
  void recover_and_look();

  const Story& story_;
  const std::filesystem::path folder_;
  JobHistory& history_;
  testing::LocalRanks job_;
  std::vector<std::shared_ptr<testing::SlowCalls>> systems_;
  std::vector<std::unique_ptr<Context>> contexts_;
};

}  // namespace cairn::ranks
