// SPDX-License-Identifier: Apache-2.0
#include "training/rank_resume.hpp"

#include <system_error>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "coord/internal/borrowed_caller_thread.hpp"
#include "training/rank_talk.hpp"

namespace cairn::training {
namespace {

/// Returns the text of the first rank that has one.
std::string first_said(const std::vector<std::string>& texts) {
  const auto said =
      std::find_if(texts.begin(), texts.end(), [](const std::string& text) { return !text.empty(); });
  return said == texts.end() ? "" : *said;
}

/// Holds what a rank has against a step; nothing where the text is empty.
struct Complaint {
  std::string text;
  std::error_code code = make_error_code(Errc::invalid_argument);
};

/// Returns what rank 0 has loaded and passed over, for the others: texts that end in a zero each.
std::string words_of(const Resumed& resumed) {
  std::string text = std::to_string(resumed.step) + '\0';
  for (const PassedOver& each : resumed.passed_over) {
    const std::string category = each.code.category() == cairn_category() ? "cairn" : "system";
    for (const std::string& word :
         {each.path.filename().string(), category, std::to_string(each.code.value()), each.why}) {
      text += word + '\0';
    }
  }
  return text;
}

/// The same as the others hear it; what it has loaded is theirs to load.
Resumed resumed_of(std::string_view text, const RankResume& rank) {
  const auto take = [&text] {
    std::string word(text.substr(0, text.find('\0')));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    return word;
  };
  Resumed resumed;
  resumed.step = std::strtoull(take().c_str(), nullptr, 10);
  while (!text.empty()) {
    PassedOver& each = resumed.passed_over.emplace_back();
    each.path = rank.path(resumed.step).replace_filename(take());
    const std::error_category& category = take() == "cairn" ? cairn_category() : std::system_category();
    each.code = {static_cast<int>(std::strtol(take().c_str(), nullptr, 10)), category};
    each.why = take();
  }
  return resumed;
}

class Talk {
 public:
  Talk(coord::Coordinator& coordinator, const RankResume& rank)
      : coordinator_(coordinator),
        rank_(rank),
        number_(coordinator.rank()),
        talk_(coordinator, {"resumes", rank.root}, *rank.time),
        channel_(talk_.channel("resume")) {}

  std::optional<Resumed> run() {
    try {
      talk_.await(channel_.agree("ResumeOptions::load.together", rank_.loads_together ? "true" : "false"));
      coord::rest(coordinator_);  // The disk may be slow.
      std::optional<Resumed> resumed = number_ == 0 ? lead() : follow();
      talk_.end();
      return resumed;
    } catch (...) {
      talk_.fail();
      throw;
    }
  }

 private:
  std::optional<Resumed> lead() {
    std::set<std::uint64_t> without;
    std::vector<PassedOver> passed_over;
    while (true) {
      std::optional<Resumed> resumed = rank_.loads_together ? find(without) : rank_.load_newest(without);
      if (!resumed && !passed_over.empty()) {  // To begin anew is a decision, too.
        throw Error(passed_over.front().code, passed_over.front().why);
      }
      if (resumed) {
        resumed->passed_over.insert(resumed->passed_over.begin(), passed_over.begin(), passed_over.end());
      }
      talk_.await(channel_.broadcast(resumed ? words_of(*resumed) : ""));
      if (!resumed) {
        return std::nullopt;
      }
      Complaint own;
      if (rank_.loads_together) {
        own = load(*resumed);
      } else {
        own.text = rank_.refusal(*resumed);
      }
      const std::string complaint = agree(own.text);
      if (complaint.empty()) {
        return resumed;
      }
      passed_over.push_back({rank_.path(resumed->step),
                             own.text.empty() ? make_error_code(Errc::peer_failed) : own.code, complaint});
      without.insert(resumed->step);
    }
  }

  std::optional<Resumed> follow() {
    while (true) {
      const std::string named = talk_.await(channel_.broadcast(""));
      if (named.empty()) {
        return std::nullopt;
      }
      Resumed resumed = resumed_of(named, rank_);
      const Complaint complaint = load(resumed);
      if (agree(complaint.text.empty() ? "" : fmt::format("rank {}: {}", number_, complaint.text)).empty()) {
        return resumed;
      }
    }
  }

  [[nodiscard]] std::optional<Resumed> find(const std::set<std::uint64_t>& without) const {
    const std::optional<std::uint64_t> step = rank_.find_newest(without);
    if (!step) {
      return std::nullopt;
    }
    Resumed found;
    found.step = *step;
    return found;
  }

  /// Loads the step that was chosen. Of a load together that has failed, the rank complains that it has failed on.
  Complaint load(Resumed& resumed) {
    failed_elsewhere_ = nullptr;
    Complaint complaint;
    try {
      resumed.loaded = rank_.load(resumed.step);
    } catch (const std::exception& error) {
      const std::exception_ptr failure = std::current_exception();
      if (rank_.may_fall_back(resumed.step, failure)) {
        complaint.text = error.what();
        complaint.code = code_of(failure).value_or(complaint.code);
      } else if (rank_.loads_together && code_of(failure) == make_error_code(Errc::peer_failed)) {
        failed_elsewhere_ = failure;
      } else {
        throw;
      }
      return complaint;
    }
    complaint.text = rank_.refusal(resumed);  // What the program throws when it is asked is not damage.
    return complaint;
  }

  /// Returns the objection of the first rank that has one. Rethrows a failure of another rank of which that
  /// does not complain.
  std::string agree(const std::string& mine) {
    const std::string merged = talk_.await(channel_.reduce(mine, first_said));
    std::string complaint = talk_.await(channel_.broadcast(merged));
    if (complaint.empty() && failed_elsewhere_) {
      std::rethrow_exception(failed_elsewhere_);
    }
    return complaint;
  }

  coord::Coordinator& coordinator_;
  const RankResume& rank_;
  const std::size_t number_;
  RankTalk talk_;
  coord::Channel channel_;
  std::exception_ptr failed_elsewhere_;  // Of the last load together, on this rank only its consequence.
};

}  // namespace

std::optional<Resumed> resume_together(coord::Coordinator& coordinator, const RankResume& rank) {
  return Talk(coordinator, rank).run();
}

void rewind_together(coord::Coordinator& coordinator, std::uint64_t step, const RankRewind& rank,
                     const CallTime& time) {
  RankTalk talk(coordinator, {"rewinds to", time.what()}, time);
  try {
    coord::rest(coordinator);
    rank.prepare();
    coord::Channel channel = talk.channel("rewind");
    talk.await(channel.agree("the step to go back to", std::to_string(step)));
    // Only now have the saves of all ranks ended.
    const std::string objection = talk.await(channel.reduce(rank.find_objection(), first_said));
    if (!objection.empty()) {
      throw Error(Errc::invalid_argument, objection);
    }
    if (coordinator.rank() == 0) {
      coord::rest(coordinator);  // The disk may be slow.
      rank.work();
    }
    talk.await(channel.broadcast(""));
    talk.end();
  } catch (...) {
    talk.fail();
    throw;
  }
}

}  // namespace cairn::training
