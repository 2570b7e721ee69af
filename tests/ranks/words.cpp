// SPDX-License-Identifier: Apache-2.0
#include "ranks/words.hpp"

#include <algorithm>
#include <regex>
#include <set>

#include <fmt/format.h>

namespace cairn::ranks {
namespace {

using testing::Lie;

constexpr const char* kDisagreement = "the ranks do not save the same: ";
constexpr const char* kDifferentValues = "values that are not sharded";

/// The ranks in "rank 3" or "ranks 0, 1 and 3", with which `text` begins.
std::set<std::size_t> ranks_at(const std::string& text) {
  static const std::regex kList("^ranks? (\\d+)((?:, \\d+)*)(?: and (\\d+))?");
  std::smatch found;
  std::set<std::size_t> ranks;
  if (std::regex_search(text, found, kList)) {
    static const std::regex kNumber("\\d+");
    const std::string list = found.str();
    for (std::sregex_iterator next(list.begin(), list.end(), kNumber); next != std::sregex_iterator();
         ++next) {
      ranks.insert(std::stoul(next->str()));
    }
  }
  return ranks;
}

/// The ranks that are named right behind `words`; none where they are not in the text.
std::set<std::size_t> ranks_behind(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  return at == std::string::npos ? std::set<std::size_t>() : ranks_at(text.substr(at + words.size()));
}

/// The ranks of which a failure says that they are lost.
std::set<std::size_t> lost_in(const std::string& text) {
  static const std::regex kLost("rank (\\d+) is lost");
  std::set<std::size_t> ranks;
  for (std::sregex_iterator next(text.begin(), text.end(), kLost); next != std::sregex_iterator(); ++next) {
    ranks.insert(std::stoul((*next)[1].str()));
  }
  return ranks;
}

/// Those that have another value than rank 0.
std::set<std::size_t> others_than_primary(const Story& story, const Step& step) {
  if (step.odd_rank != 0) {
    return {step.odd_rank};
  }
  std::set<std::size_t> others;
  for (std::size_t rank = 1; rank < story.ranks; ++rank) {
    others.insert(rank);
  }
  return others;
}

void judge_commit(const Story& story, const Told& told, std::vector<Lie>& lies) {
  const Step& step = story.steps[told.step];
  const auto problem = std::find_if(told.problems.begin(), told.problems.end(), [](const std::string& each) {
    return each.find(kDifferentValues) != std::string::npos;
  });
  const bool is_told = problem != told.problems.end();
  const auto blind = [&](const std::string& what) {
    lies.push_back({"blind", fmt::format("save {}: rank {} was told {}", told.step + 1, told.rank, what)});
  };
  if (step.contradiction == Contradiction::value) {
    if (!is_told) {
      blind("nothing of values that differ");
    } else if (ranks_behind(*problem, "'note' on ") != others_than_primary(story, step)) {
      blind(fmt::format("of other ranks' values: {}", *problem));
    }
  } else if (step.contradiction != Contradiction::none) {
    blind("that what ranks contradict is committed");
  } else if (is_told) {
    blind(fmt::format("of values that are the same: {}", *problem));
  }
}

void judge_failure(const Story& story, const Told& told, std::vector<Lie>& lies) {
  const Step& step = story.steps[told.step];
  const auto misnamed = [&](const char* why) {
    lies.push_back({"misnamed", fmt::format("save {}: rank {} was told of {}: {}", told.step + 1, told.rank,
                                            why, told.words)});
  };
  const bool is_cut_off = story.silence && told.rank == story.silence->rank;  // It hears nobody.
  const bool contradicts = step.contradiction != Contradiction::none;
  if (const std::string difference = disagreement_in(told.words); !difference.empty()) {
    if (!contradicts || difference.find(fmt::format("rank {} ", step.odd_rank)) == std::string::npos) {
      misnamed("a contradiction of others");
    }
  }
  const bool is_heard_by_all = !story.silence || told.step < story.silence->step;
  const std::set<std::size_t> missing = ranks_behind(told.words, "still waiting for ");
  // Rank 0 may have called and not have come to its part: its disk is slow, or its saves before this one are.
  const bool is_primary_behind = told.rank != 0 && missing == std::set<std::size_t>{0};
  if (is_heard_by_all && !missing.empty() && !is_primary_behind &&
      std::includes(told.present.begin(), told.present.end(), missing.begin(), missing.end())) {
    misnamed("ranks that are there");
  }
  for (const std::size_t lost : lost_in(told.words)) {
    if (!is_cut_off && (!story.silence || lost != story.silence->rank)) {
      misnamed("the loss of one that lives");
    }
  }
}

}  // namespace

std::vector<Lie> lies_in(const Story& story, const Told& told) {
  std::vector<Lie> lies;
  if (told.is_committed) {
    judge_commit(story, told, lies);
  } else {
    judge_failure(story, told, lies);
  }
  return lies;
}

std::string disagreement_in(const std::string& words) {
  const std::size_t begin = words.find(kDisagreement);
  if (begin == std::string::npos) {
    return {};
  }
  // Behind the last value, which is in quotes, or a shape, comes what became of this rank's save.
  const std::size_t end = words.find_last_of("']");
  return words.substr(begin, end == std::string::npos ? end : end - begin + 1);
}

}  // namespace cairn::ranks
