// SPDX-License-Identifier: Apache-2.0
#include "kill/training_diary.hpp"

#include <algorithm>
#include <exception>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/training/step_directory.hpp"

#include "kill/training.hpp"

namespace cairn::kill {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPins = ".cairn-pins";

}  // namespace

void TrainingDiary::read(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    std::string word;
    std::istringstream text(line);
    text >> word;
    enter(word, line.size() > word.size() ? line.substr(word.size() + 1) : "");
  }
}

void TrainingDiary::enter(const std::string& word, const std::string& rest) {
  std::istringstream text(rest);
  std::uint64_t step = 0;
  text >> step;
  if (word == "step") {
    begun_.insert(step);
  } else if (word == "resumed") {
    ++resumed_;
    if (rest != "none") {
      know(step);
    }
  } else if (word == "committed") {
    know(step);
  } else if (word == "retained" || word == "closed") {
    closed_ += word == "closed" ? 1 : 0;
    if (rest != "none") {
      retain(step);
    }
  } else if (word == "pin") {
    perhaps_.insert(step);
    unpinned_.erase(step);
  } else if (word == "pinned") {
    pinned_.insert(step);
    ++pins_;
  } else if (word == "unpin") {
    pinned_.erase(step);
  } else if (word == "unpinned") {
    unpinned_[step] = highest();
  } else {
    failures_ += fmt::format("{} {}\n", word, rest);
  }
}

void TrainingDiary::know(std::uint64_t committed) {
  newest_ = std::max(newest_.value_or(0), committed);
  if (committed % kEvery == 0) {
    for_ever_.insert(committed);
  }
}

void TrainingDiary::retain(std::uint64_t committed) {
  know(committed);
  retained_ = committed;
  for (const auto& [step, before] : unpinned_) {
    if (before < committed) {
      perhaps_.erase(step);
    }
  }
}

std::string TrainingDiary::complaint(const fs::path& root, const Context& context) {
  const StepDirectory directory(root, {}, context);
  const std::vector<std::uint64_t> steps = *directory.steps();
  std::set<std::uint64_t> pinned;
  for (const StepInfo& each : directory.infos(false)) {
    if (each.is_pinned) {
      pinned.insert(each.step);
    }
  }
  std::string text = failures_ + complaint_about(steps, pinned);
  for (const std::uint64_t step : steps) {
    if (step == steps.back() || verified_.count(step) == 0) {
      text += verify(root, step, context);
    }
    if (step % kEvery == 0) {
      for_ever_.insert(step);
    }
  }
  return text;
}

std::string TrainingDiary::complaint_about(const std::vector<std::uint64_t>& steps,
                                           const std::set<std::uint64_t>& pinned) const {
  std::string text;
  if (newest_ && (steps.empty() || steps.back() < *newest_)) {
    text += fmt::format("lost: step {}, the newest\n", *newest_);
  }
  const auto require = [&](const std::set<std::uint64_t>& wanted, const char* why) {
    for (const std::uint64_t step : wanted) {
      if (!std::binary_search(steps.begin(), steps.end(), step)) {
        text += fmt::format("lost: step {}, {}\n", step, why);
      }
    }
  };
  require(for_ever_, "which the policy keeps");
  require(pinned_, "which is pinned");
  for (const std::uint64_t step : pinned_) {
    text += pinned.count(step) == 1 ? "" : fmt::format("lost: the pin of step {}\n", step);
  }
  for (const std::uint64_t step : steps) {
    text += begun_.count(step) == 1 ? "" : fmt::format("foreign: step {}\n", step);
  }
  if (!are_others_expected_ && surplus(steps) > kLatest) {
    text += fmt::format("excess: of {} steps up to {} the policy keeps {}; there are {}\n", surplus(steps),
                        *retained_, kLatest, fmt::join(steps, ", "));
  }
  return text;
}

/// How many of the steps that the last retention has seen are there for no other reason than to be the latest.
std::uint64_t TrainingDiary::surplus(const std::vector<std::uint64_t>& steps) const {
  return static_cast<std::uint64_t>(std::count_if(steps.begin(), steps.end(), [&](std::uint64_t step) {
    return retained_ && step <= *retained_ && step % kEvery != 0 && perhaps_.count(step) == 0;
  }));
}

std::string TrainingDiary::verify(const fs::path& root, std::uint64_t step, const Context& context) {
  try {
    if (load(root / std::to_string(step), {}, context) != trained(step)) {
      return fmt::format("damage: step {} is another\n", step);
    }
    verified_.insert(step);
    return "";
  } catch (const std::exception& error) {
    return fmt::format("damage: {}\n", error.what());
  }
}

std::string TrainingDiary::complaint_once_recovered(const fs::path& root, const Context& context) {
  recover(root, {}, context);
  std::string text = complaint(root, context);
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    if (name != kPins && !StepFormat().parse(name)) {
      text += fmt::format("excess: {}\n", name);
    }
  }
  return text;
}

}  // namespace cairn::kill
