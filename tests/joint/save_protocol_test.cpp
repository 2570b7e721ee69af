// SPDX-License-Identifier: Apache-2.0
// Three ranks save together, in every order of their acts, and any of them dies, is stopped, fails or is not heard.
// The protocol is the library's; the disk and the messages are a few words.
#include "joint/internal/save_protocol.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/sanitizer.hpp"

namespace cairn::joint {
namespace {

using Act = SaveProtocol::Act;
using State = CommitState::State;

constexpr std::size_t kRanks = 3;

/// The disk, as the temporary name and the target show it.
enum class Disk : std::uint8_t { unpublished, moved_away, visible, durable };

struct Faults {
  int crashes = 0;
  int stops = 0;
  int failures = 0;
  int silences = 0;  ///< Between rank 0 and another.
};

/// A part of the protocol that is left out, to see that it is missed.
struct Without {
  bool moving_away = false;  ///< A rank that is alone only looks.
  bool sync = false;         ///< Rank 0 tells what is visible, and not durable yet.
};

class PlayedJob {
 public:
  PlayedJob(Faults faults, Without without) : faults_(faults), without_(without) {
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      ranks_[rank].protocol = std::make_unique<SaveProtocol>(rank == 0);
    }
  }

  using Move = std::function<void(PlayedJob&)>;

  /// All that may happen next.
  [[nodiscard]] std::vector<Move> moves() const {
    std::vector<Move> moves;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      if (!is_over(rank)) {
        add_moves_of(rank, moves);
      }
    }
    return moves;
  }

  [[nodiscard]] std::string key() const {
    std::string key;
    for (const Rank& rank : ranks_) {
      key += static_cast<char>(rank.protocol->act());
      key += static_cast<char>(rank.protocol->commit().state());
      for (const bool flag :
           {rank.is_dead, rank.is_cut_off, rank.has_voted, rank.has_failed, rank.has_begun}) {
        key += flag ? '1' : '0';
      }
      key += static_cast<char>(rank.answer ? static_cast<int>(*rank.answer) : 9);
      key += static_cast<char>(rank.ending);
    }
    key += static_cast<char>(disk_);
    key += static_cast<char>(verdict_ ? static_cast<int>(*verdict_) : 9);
    key += is_failure_told_ ? '1' : '0';
    for (const int left : {faults_.crashes, faults_.stops, faults_.failures, faults_.silences}) {
      key += static_cast<char>(left);
    }
    return key;
  }

  /// Returns what is wrong; empty when nothing is.
  [[nodiscard]] std::string contradiction(bool is_last) const {
    bool is_committed = false;
    bool is_aborted = false;
    for (const Rank& rank : ranks_) {
      is_committed = is_committed || rank.answer == Ending::committed;
      is_aborted = is_aborted || rank.answer == Ending::aborted;
    }
    if (is_committed && is_aborted) {
      return "two ranks say the opposite";
    }
    if (is_committed && disk_ != Disk::durable) {
      return "committed, and not durable";
    }
    if (is_aborted && (disk_ == Disk::visible || disk_ == Disk::durable)) {
      return "aborted, and there";
    }
    for (std::size_t rank = 0; is_last && rank < kRanks; ++rank) {
      if (!is_over(rank)) {
        return "rank " + std::to_string(rank) + " waits for ever";
      }
    }
    return {};
  }

 private:
  struct Rank {
    std::unique_ptr<SaveProtocol> protocol;
    bool is_dead = false;
    bool is_cut_off = false;  // From rank 0.
    bool has_voted = false;
    bool has_failed = false;
    bool has_begun = false;  // Rank 0: to publish.
    Ending ending = Ending::aborted;
    std::optional<Ending> answer;
  };

  [[nodiscard]] bool is_over(std::size_t rank) const { return ranks_[rank].is_dead || ranks_[rank].answer; }
  [[nodiscard]] bool hears(std::size_t rank) const { return !ranks_[rank].is_cut_off; }

  /// An act that is done, or fails if one may.
  void add_act(std::vector<Move>& moves, std::size_t rank, std::function<void(PlayedJob&)> done) const {
    moves.push_back(std::move(done));
    if (faults_.failures > 0) {
      moves.push_back([rank](PlayedJob& job) {
        --job.faults_.failures;
        job.fail(rank, Ending::aborted);
      });
    }
  }

  void add_moves_of(std::size_t rank, std::vector<Move>& moves) const {
    const Rank& self = ranks_[rank];
    const State state = self.protocol->commit().state();
    if (faults_.crashes > 0) {
      moves.push_back([rank](PlayedJob& job) {
        --job.faults_.crashes;
        job.ranks_[rank].is_dead = true;
      });
    }
    if (faults_.stops > 0 && state == State::running) {
      moves.push_back([rank](PlayedJob& job) {
        --job.faults_.stops;
        job.ranks_[rank].protocol->commit().stop();
      });
    }
    if (faults_.silences > 0 && rank != 0 && hears(rank)) {
      moves.push_back([rank](PlayedJob& job) {
        --job.faults_.silences;
        job.ranks_[rank].is_cut_off = true;
      });
    }
    if (state == State::running && must_stop(rank)) {
      moves.push_back([rank](PlayedJob& job) { job.ranks_[rank].protocol->commit().stop(); });
    }
    add_acts_of(rank, state, moves);
  }

  /// Another rank has failed, is lost, or cannot be heard.
  [[nodiscard]] bool must_stop(std::size_t rank) const {
    if (!hears(rank) || ranks_[0].is_dead) {
      return true;
    }
    for (std::size_t other = 1; rank == 0 && other < kRanks; ++other) {
      if (!hears(other) || ranks_[other].is_dead) {
        return true;
      }
    }
    return is_failure_told_;
  }

  void add_acts_of(std::size_t rank, State state, std::vector<Move>& moves) const {
    const auto did = [rank](PlayedJob& job) { job.did(rank); };
    const auto gives_up = [rank](PlayedJob& job) { job.fail(rank, Ending::aborted); };
    const bool is_stopped = state == State::stopped;
    switch (ranks_[rank].protocol->act()) {
      case Act::write:
        if (is_stopped) {
          moves.emplace_back(gives_up);
        } else {
          add_act(moves, rank, did);
        }
        break;
      case Act::prepare:
        add_act(moves, rank, did);
        break;
      case Act::collect_votes:
        if (is_stopped) {
          moves.emplace_back(gives_up);
        } else if (ranks_[1].has_voted && ranks_[2].has_voted) {
          add_act(moves, rank, did);
        }
        break;
      case Act::publish:
        moves.emplace_back([](PlayedJob& job) { job.publish(); });
        break;
      case Act::vote:
        moves.emplace_back([rank](PlayedJob& job) {
          job.ranks_[rank].has_voted = job.hears(rank) || job.ranks_[rank].has_voted;
          job.did(rank);
        });
        break;
      case Act::hear_verdict:
        if (verdict_ && hears(rank)) {
          moves.emplace_back([rank](PlayedJob& job) { job.hear(rank, *job.verdict_); });
        } else if (ranks_[0].is_dead || !hears(rank)) {
          moves.emplace_back([rank](PlayedJob& job) { job.ranks_[rank].protocol->silent(); });
        }
        break;
      case Act::ask_disk:
        moves.emplace_back([rank](PlayedJob& job) { job.hear(rank, job.ask_disk()); });
        break;
      case Act::fail:
        moves.emplace_back([rank](PlayedJob& job) { job.fail(rank, job.ranks_[rank].ending); });
        break;
      case Act::tell_failure:
        moves.emplace_back([rank](PlayedJob& job) { job.tell_failure(rank); });
        break;
      case Act::hand_over:
      case Act::take_back:
      case Act::close:
      case Act::abandon:
        moves.emplace_back(did);
        break;
      case Act::end:
        moves.emplace_back([rank](PlayedJob& job) {
          Rank& self = job.ranks_[rank];
          self.answer = self.has_failed ? self.ending : Ending::committed;
        });
        break;
    }
  }

  void did(std::size_t rank) const {
    SaveProtocol& protocol = *ranks_[rank].protocol;
    protocol.did(protocol.act());
  }

  void fail(std::size_t rank, Ending ending) {
    Rank& self = ranks_[rank];
    if (!std::exchange(self.has_failed, true)) {
      self.ending = ending;
    }
    self.protocol->failed();
  }

  void hear(std::size_t rank, Ending ending) {
    ranks_[rank].ending = ending;
    ranks_[rank].protocol->heard(ending);
  }

  /// In three steps: it begins, it is visible, it is durable.
  void publish() {
    Rank& self = ranks_[0];
    if (!self.has_begun) {
      self.has_begun = self.protocol->commit().begin_commit();
      if (!self.has_begun) {
        fail(0, Ending::aborted);
      }
    } else if (disk_ == Disk::moved_away) {
      fail(0, Ending::aborted);
    } else if (disk_ == Disk::unpublished) {
      disk_ = Disk::visible;
      verdict_ = without_.sync ? std::optional(Ending::committed) : std::nullopt;
    } else if (faults_.failures > 0 && disk_ == Disk::visible) {  // The sync fails: nobody knows.
      --faults_.failures;
      fail(0, Ending::unknown);
    } else {
      disk_ = Disk::durable;
      static_cast<void>(self.protocol->commit().end_commit());
      verdict_ = Ending::committed;
      did(0);
    }
  }

  Ending ask_disk() {
    if (disk_ == Disk::unpublished || disk_ == Disk::moved_away) {
      disk_ = without_.moving_away ? disk_ : Disk::moved_away;
      return Ending::aborted;
    }
    disk_ = Disk::durable;  // It syncs the parent itself.
    return Ending::committed;
  }

  void tell_failure(std::size_t rank) {
    is_failure_told_ = is_failure_told_ || hears(rank);
    if (rank == 0 && !verdict_) {
      verdict_ = ranks_[0].ending;
    }
    did(rank);
  }

  std::array<Rank, kRanks> ranks_;
  Faults faults_;
  const Without without_;
  Disk disk_ = Disk::unpublished;
  std::optional<Ending> verdict_;  // As rank 0 has told it.
  bool is_failure_told_ = false;
};

/// Plays a job again as far as a path of moves goes.
std::unique_ptr<PlayedJob> replay(Faults faults, Without without, const std::vector<std::size_t>& path) {
  auto job = std::make_unique<PlayedJob>(faults, without);
  for (const std::size_t move : path) {
    job->moves()[move](*job);
  }
  return job;
}

struct Found {
  std::size_t states = 0;
  std::string contradiction;  ///< The first; empty where there is none.
};

Found explore(Faults faults, Without without = {}) {
  Found found;
  std::set<std::string> seen;
  std::vector<std::vector<std::size_t>> paths{{}};
  while (!paths.empty() && found.contradiction.empty()) {
    const std::vector<std::size_t> path = std::move(paths.back());
    paths.pop_back();
    const std::unique_ptr<PlayedJob> job = replay(faults, without, path);
    if (!seen.insert(job->key()).second) {
      continue;
    }
    const std::size_t moves = job->moves().size();
    found.contradiction = job->contradiction(moves == 0);
    for (std::size_t move = 0; move < moves; ++move) {
      paths.push_back(path);
      paths.back().push_back(move);
    }
  }
  found.states = seen.size();
  return found;
}

Faults faults(int crashes, int stops, int failures, int silences) {
  Faults few;
  few.crashes = crashes;
  few.stops = stops;
  few.failures = failures;
  few.silences = silences;
  return few;
}

TEST(SaveProtocol, GivesRanksVerdictsThatAgreeWhateverHappens) {
  for (const Faults& few : {faults(0, 0, 0, 0), faults(2, 1, 0, 0), faults(0, 1, 1, 1), faults(1, 0, 1, 1)}) {
    if (testing::kHasSanitizer && few.failures > 0) {
      break;  // It is one thread, and takes its time.
    }
    const Found found = explore(few);

    EXPECT_EQ(found.contradiction, "");
    std::cout << "protocol: " << found.states << " states of three ranks" << std::endl;
  }
}

TEST(SaveProtocol, LetsNoRankSayAbortedThatHasOnlyLooked) {
  Without without;
  without.moving_away = true;

  EXPECT_NE(explore(faults(0, 0, 0, 1), without).contradiction, "");
}

TEST(SaveProtocol, LetsNobodyHearOfACommitThatIsNotDurable) {
  Without without;
  without.sync = true;

  EXPECT_NE(explore(faults(0, 0, 0, 0), without).contradiction, "");
}

TEST(SaveProtocol, PublishesNothingThatWasStopped) {
  SaveProtocol protocol(true);
  protocol.did(protocol.act());
  protocol.commit().stop();

  EXPECT_FALSE(protocol.commit().begin_commit());
  protocol.failed();
  EXPECT_EQ(protocol.act(), Act::tell_failure);
}

TEST(SaveProtocol, LetsARankThatWasStoppedNotVote) {
  SaveProtocol protocol(false);
  protocol.did(protocol.act());
  protocol.commit().stop();

  protocol.did(Act::prepare);  // Its files are durable.

  EXPECT_EQ(protocol.act(), Act::fail);
  protocol.failed();
  protocol.failed();  // Nobody could be told.
  EXPECT_EQ(protocol.act(), Act::abandon);
  protocol.failed();
  EXPECT_EQ(protocol.act(), Act::end);
}

TEST(SaveProtocol, KeepsWhatIsBeingCommittedWhenARankFails) {
  SaveProtocol protocol(true);
  protocol.did(protocol.act());
  protocol.did(protocol.act());
  ASSERT_TRUE(protocol.commit().begin_commit());

  protocol.failed();

  EXPECT_EQ(protocol.commit().state(), State::committing);
}

}  // namespace
}  // namespace cairn::joint
