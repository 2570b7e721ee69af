// SPDX-License-Identifier: Apache-2.0
#include "ranks/job_history.hpp"

#include <system_error>

#include <chrono>
#include <cstdio>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"

namespace cairn::ranks {
namespace {

using testing::Answer;

/// Of a word from one rank to another, on a machine that is busy.
constexpr std::chrono::milliseconds kLongestWay{1800};

std::string words(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "something else";
  }
}

std::string code_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::system_error& error) {
    return error.code().message();
  } catch (...) {
    return "no error of the library's";
  }
}

}  // namespace

JobHistory::JobHistory(const Story& story, bool is_told) : story_(story), is_told_(is_told) {
  for (std::size_t i = 0; i < kTargets; ++i) {
    targets_.emplace_back(fmt::format("t{}", i));
  }
  note(story.describe());
}

void JobHistory::begin(std::size_t rank, Number number) {
  const std::lock_guard lock(mutex_);
  note(fmt::format("rank {} calls save {}", rank, number));
  if (saves_.try_emplace(number).second) {
    target_of(number).begin_save(number, story_.steps[number - 1].overwrites);
    target_of(number).place(number);
  }
  saves_.at(number).calls.emplace(rank, std::chrono::steady_clock::now());
}

void JobHistory::commit(std::size_t rank, Number number, const std::vector<std::string>& problems) {
  const std::lock_guard lock(mutex_);
  note(fmt::format("rank {}: save {}: committed{}{}", rank, number, problems.empty() ? "" : ": ",
                   fmt::join(problems, "; ")));
  ++ends_["committed"];
  judge({rank, number - 1, true, {}, problems});
  take(rank, number, testing::answer_of_save(nullptr));
}

void JobHistory::fail(std::size_t rank, Number number, const std::exception_ptr& failure) {
  const std::lock_guard lock(mutex_);
  note(fmt::format("rank {}: save {}: {}", rank, number, words(failure)));
  ++ends_[code_of(failure)];
  Told told{rank, number - 1, false, words(failure)};
  if (story_.steps[number - 1].is_late && testing::answer_of_save(failure) == Answer::failed &&
      code_of(failure) == make_error_code(Errc::timed_out).message()) {
    told.present = present_at_deadline(rank, number);
  }
  judge(told);
  take(rank, number, testing::answer_of_save(failure));
}

std::set<std::size_t> JobHistory::present_at_deadline(std::size_t rank, Number number) const {
  const auto& calls = saves_.at(number).calls;
  std::set<std::size_t> present;
  for (const auto& [other, moment] : calls) {
    if (moment + kLongestWay < calls.at(rank) + kPatienceWithLate) {
      present.insert(other);
    }
  }
  return present;
}

void JobHistory::judge(const Told& told) {
  for (const testing::Lie& lie : lies_in(story_, told)) {
    tell(lie);
  }
  std::string& first = saves_.at(told.step + 1).disagreement;
  const std::string disagreement = disagreement_in(told.words);
  if (!first.empty() && !disagreement.empty() && first != disagreement) {
    lies_.push_back(fmt::format("babel: save {}: rank {} was told '{}', another one '{}'", told.step + 1,
                                told.rank, disagreement, first));
  }
  first = first.empty() ? disagreement : first;
}

void JobHistory::forget(std::size_t rank, Number number) {
  const std::lock_guard lock(mutex_);
  note(fmt::format("rank {} forgets save {}", rank, number));
  take(rank, number, Answer::none);
}

void JobHistory::take(std::size_t rank, Number number, Answer answer) {
  Save& save = saves_.at(number);
  const bool is_definite = answer == Answer::done || answer == Answer::failed;
  if (is_definite && save.definite == Answer::none) {
    save.definite = answer;
    tell(target_of(number).answer(number, answer));
  } else if (is_definite && save.definite != answer) {
    lies_.push_back(
        fmt::format("split: save {}: rank {} was told otherwise than one before it", number, rank));
  }
  save.may_be_done = save.may_be_done || answer == Answer::unknown;
  ++save.ended;
  has_ended_.notify_all();
}

void JobHistory::await_others(std::size_t rank, Number number) {
  std::unique_lock lock(mutex_);
  has_ended_.wait(lock, [&] {
    const auto save = saves_.find(number);
    return save != saves_.end() && save->second.ended + 1 == story_.ranks;
  });
  note(fmt::format("rank {} is late for save {}", rank, number));
}

void JobHistory::settle() {
  const std::lock_guard lock(mutex_);
  note("all ranks have ended");
  for (const auto& [number, save] : saves_) {
    if (save.definite == Answer::none) {
      tell(target_of(number).answer(number, save.may_be_done ? Answer::unknown : Answer::none));
    }
  }
  for (testing::TargetHistory& target : targets_) {
    target.settle();
  }
}

JobHistory::Tick JobHistory::now(std::size_t target) {
  const std::lock_guard lock(mutex_);
  return targets_[target].now();
}

void JobHistory::see(std::size_t target, std::optional<Number> holder, Tick since) {
  const std::lock_guard lock(mutex_);
  note(fmt::format("{} holds {}", targets_[target].name(),
                   holder ? fmt::format("save {}", *holder) : "nothing"));
  tell(targets_[target].see(holder, since));
}

void JobHistory::lie(const std::string& kind, const std::string& what) {
  const std::lock_guard lock(mutex_);
  note(fmt::format("{}: {}", kind, what));
  lies_.push_back(fmt::format("{}: {}", kind, what));
}

std::string JobHistory::lies() const {
  const std::lock_guard lock(mutex_);
  return fmt::format("{}", fmt::join(lies_, "\n"));
}

std::string JobHistory::text() const {
  const std::lock_guard lock(mutex_);
  return fmt::format("{}\n", fmt::join(lines_, "\n"));
}

void JobHistory::note(const std::string& line) {
  lines_.push_back(line);
  if (is_told_) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }
}

void JobHistory::tell(const std::optional<testing::Lie>& lie) {
  if (lie) {
    lies_.push_back(fmt::format("{}: {}", lie->kind, lie->what));
  }
}

}  // namespace cairn::ranks
