// SPDX-License-Identifier: Apache-2.0
#include "training/rank_resume.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "coord/internal/lent_thread.hpp"
#include "training/await_here.hpp"

namespace cairn::training {
namespace {

/// What the first rank says that has something to say.
std::string first_said(const std::vector<std::string>& texts) {
  const auto said =
      std::find_if(texts.begin(), texts.end(), [](const std::string& text) { return !text.empty(); });
  return said == texts.end() ? "" : *said;
}

class Talk {
 public:
  Talk(Coordinator& coordinator, const RankResume& rank)
      : coordinator_(coordinator),
        rank_(rank),
        number_(coordinator.rank()),
        conversation_(coordinator.join()),
        subject_(conversation_.about("resume")) {}

  std::optional<Resumed> run() {
    try {
      coord::rest(coordinator_);  // The disk may be slow.
      std::optional<Resumed> resumed = number_ == 0 ? lead() : follow();
      conversation_.leave_later();
      return resumed;
    } catch (...) {
      conversation_.fail(std::current_exception());
      throw;
    }
  }

 private:
  std::optional<Resumed> lead() {
    std::set<std::uint64_t> without;
    std::vector<PassedOver> passed_over;
    while (true) {
      std::optional<Resumed> resumed = rank_.load_newest(without);
      if (!resumed && !passed_over.empty()) {  // To begin anew is a decision, too.
        throw Error(passed_over.front().code, passed_over.front().why);
      }
      await_here(coordinator_, subject_.broadcast(resumed ? std::to_string(resumed->step) : ""));
      if (!resumed) {
        return std::nullopt;
      }
      const std::string own = rank_.refusal(*resumed);
      const std::string complaint = agree(own);
      if (complaint.empty()) {
        passed_over.insert(passed_over.end(), resumed->passed_over.begin(), resumed->passed_over.end());
        resumed->passed_over = std::move(passed_over);
        return resumed;
      }
      passed_over.push_back({rank_.path(resumed->step),
                             make_error_code(own.empty() ? Errc::peer_failed : Errc::invalid_argument),
                             complaint});
      without.insert(resumed->step);
    }
  }

  std::optional<Resumed> follow() {
    while (true) {
      const std::string named = await_here(coordinator_, subject_.broadcast(""));
      if (named.empty()) {
        return std::nullopt;
      }
      Resumed resumed;
      resumed.step = std::strtoull(named.c_str(), nullptr, 10);
      std::string complaint;
      try {
        resumed.loaded = rank_.load(resumed.step);
        complaint = rank_.refusal(resumed);
        complaint = complaint.empty() ? "" : fmt::format("rank {}: {}", number_, complaint);
      } catch (const std::exception& error) {
        if (!rank_.may_fall_back(resumed.step, std::current_exception())) {
          throw;
        }
        complaint = fmt::format("rank {}: {}", number_, error.what());
      }
      if (agree(complaint).empty()) {
        return resumed;
      }
    }
  }

  /// What the first rank has to complain of, of all.
  std::string agree(const std::string& mine) {
    const std::string merged = await_here(coordinator_, subject_.reduce(mine, first_said));
    return await_here(coordinator_, subject_.broadcast(merged));
  }

  Coordinator& coordinator_;
  const RankResume& rank_;
  const std::size_t number_;
  Conversation conversation_;
  Subject subject_;
};

/// For `await_here`, which returns what a task has.
Awaitable<bool> agreed(Awaitable<> agreement) {
  co_await std::move(agreement);
  co_return true;
}

}  // namespace

std::optional<Resumed> resume_together(Coordinator& coordinator, const RankResume& rank) {
  return Talk(coordinator, rank).run();
}

void rewind_together(Coordinator& coordinator, std::uint64_t step,
                     const std::function<std::string()>& find_objection, const std::function<void()>& work) {
  Conversation conversation = coordinator.join();
  try {
    coord::rest(coordinator);
    Subject subject = conversation.about("rewind");
    await_here(coordinator, agreed(subject.agree("the step to go back to", std::to_string(step))));
    // Only now have the saves of all ranks ended.
    const std::string objection = await_here(coordinator, subject.reduce(find_objection(), first_said));
    if (!objection.empty()) {
      throw Error(Errc::invalid_argument, objection);
    }
    if (coordinator.rank() == 0) {
      coord::rest(coordinator);  // The disk may be slow.
      work();
    }
    await_here(coordinator, subject.broadcast(""));
    conversation.leave_later();
  } catch (...) {
    conversation.fail(std::current_exception());
    throw;
  }
}

}  // namespace cairn::training
