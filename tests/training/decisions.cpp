// SPDX-License-Identifier: Apache-2.0
// Says what policies decide: cairn_training_decisions < questions A question is a line of JSON, {"policy": name, "n":
// its number, "steps": [[step, nanoseconds of its commit, metric or null], …], "now": nanoseconds} and what the
// policy asks for besides; the answer is a line of 0 and 1, one for each step, or one for the save that is asked
// about.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cairn/base/error.hpp"
#include "cairn/training/keep_policy.hpp"
#include "cairn/training/save_policy.hpp"

namespace cairn {
namespace {

using nlohmann::json;
using std::chrono::nanoseconds;

CommitTime time_of(const json& value) {
  return CommitTime(nanoseconds(value.get<std::int64_t>()));
}

/// The steps of a question and of others that have the same form.
std::vector<StepInfo> steps_of(const json& question) {
  std::vector<StepInfo> steps;
  for (const json& each : question.at("steps")) {
    StepInfo info;
    info.step = each.at(0).get<std::uint64_t>();
    info.committed = time_of(each.at(1));
    if (!each.at(2).is_null()) {
      info.metrics["metric"] = each.at(2).get<double>();
    }
    steps.push_back(std::move(info));
  }
  return steps;
}

KeepPolicy keep_policy(const json& question) {
  const std::string name = question.at("policy").get<std::string>();
  const auto number = question.value("n", std::uint64_t{0});
  const auto steps = question.value("wanted", std::vector<std::uint64_t>());
  if (name == "any_of") {
    std::vector<KeepPolicy> parts;
    for (const json& part : question.at("parts")) {
      parts.push_back(keep_policy(part));
    }
    return keep::any_of(std::move(parts));
  }
  const std::map<std::string, std::function<KeepPolicy()>> others = {
      {"all", [&] { return keep::all(); }},
      {"latest", [&] { return keep::latest(number); }},
      {"every_steps", [&] { return keep::every_steps(number); }},
      {"steps_apart", [&] { return keep::steps_apart(number); }},
      {"nearest_to_every", [&] { return keep::nearest_to_every(number); }},
      {"time_apart", [&] { return keep::time_apart(std::chrono::seconds(number)); }},
      {"at_steps", [&] { return keep::at_steps(steps); }},
      {"younger_than", [&] { return keep::younger_than(std::chrono::seconds(number)); }},
      {"best",
       [&] {
         return keep::best("metric", number, question.at("lower") ? Prefer::lower : Prefer::higher,
                           question.at("keep_unmeasured") ? Unmeasured::keep : Unmeasured::drop);
       }},
  };
  return others.at(name)();
}

SavePolicy save_policy(const json& question) {
  const std::string name = question.at("policy").get<std::string>();
  const auto number = question.value("n", std::uint64_t{0});
  if (name == "any_of") {
    std::vector<SavePolicy> parts;
    for (const json& part : question.at("parts")) {
      parts.push_back(save_policy(part));
    }
    return save_when::any_of(std::move(parts));
  }
  const std::map<std::string, std::function<SavePolicy()>> others = {
      {"every_steps", [&] { return save_when::every_steps(number); }},
      {"continuously", [&] { return save_when::continuously(std::chrono::seconds(number)); }},
      {"at_steps",
       [&] { return save_when::at_steps(question.at("wanted").get<std::vector<std::uint64_t>>()); }},
      {"first", [&] { return save_when::first(); }},
      {"preempted", [&] { return save_when::preempted(); }},
  };
  return others.at(name)();
}

std::string decide_save(const json& question) {
  const std::vector<StepInfo> saved = steps_of(question);
  std::vector<std::uint64_t> steps;
  for (const StepInfo& each : saved) {
    steps.push_back(each.step);
  }
  SaveMoment moment;
  moment.step = question.at("step").get<std::uint64_t>();
  moment.now = time_of(question.at("now"));
  moment.steps = steps;
  moment.is_saving = question.at("is_saving").get<bool>();
  moment.is_preempted = question.at("is_preempted").get<bool>();
  if (!saved.empty()) {
    moment.since_last_save = moment.now - *saved.back().committed;
  }
  return save_policy(question)(moment) ? "1" : "0";
}

std::string decide_keep(const json& question) {
  std::string answer;
  try {
    for (const bool is_kept : keep_policy(question)(steps_of(question), time_of(question.at("now")))) {
      answer += is_kept ? '1' : '0';
    }
  } catch (const Error& error) {
    answer = error.code() == Errc::not_found ? "not_found" : error.what();
  }
  return answer;
}

}  // namespace
}  // namespace cairn

int main() {
  std::ios::sync_with_stdio(false);
  std::string line;
  while (std::getline(std::cin, line)) {
    const nlohmann::json question = nlohmann::json::parse(line);
    const bool is_save = question.contains("step");
    std::cout << (is_save ? cairn::decide_save(question) : cairn::decide_keep(question)) << '\n';
  }
}
