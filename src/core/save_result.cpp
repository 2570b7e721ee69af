// SPDX-License-Identifier: Apache-2.0
// What a save tells of itself: its result, with the problems that did not keep it from its end.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "core/save_job.hpp"

namespace cairn::core {

void SaveJob::record_id(const std::string& directory, std::string_view id) {
  const auto item = std::find_if(items_.begin(), items_.end(),
                                 [&](const SaveItem& each) { return each.directory == directory; });
  if (!item->registration.handler->has_id(id)) {
    throw Error(Errc::invalid_argument, fmt::format("'{}' (handler {}) does not have the id '{}'",
                                                    item->checkpointable.name(), item->handler_id, id));
  }
  item->handler_id = id;
}

void SaveJob::measure_result() noexcept {
  const MutexLock lock(mutex_);
  stats().fill_numbers(result_);
  result_.durable_time = meter().last() - meter().begin();
}

void SaveJob::prepare_result(std::span<const io::FileDigest> digests) {
  const MutexLock lock(mutex_);
  stats().fill_words(result_);
  result_.path = path_;
  result_.files = digests.size() + others_.size();
  for (const io::FileDigest& digest : digests) {
    result_.bytes += digest.size_bytes;
  }
  for (const store::FileEntry& file : others_) {
    result_.bytes += file.size_bytes;
  }
  if (std::string problem = alone_problem(result_.bytes); !problem.empty()) {
    result_.problems.push_back(std::move(problem));
  }
}

void SaveJob::add_problem(const std::string& problem) noexcept {
  const MutexLock lock(mutex_);
  if (!problem.empty()) {
    result_.problems.push_back(problem);
  }
}

void SaveJob::count_problem(const std::string& words, std::uint64_t count) noexcept {
  const MutexLock lock(mutex_);
  const auto [known, is_new] = counted_problems_.try_emplace(words);
  CountedProblem& problem = known->second;
  if (is_new) {
    problem.place = result_.problems.size();
    result_.problems.emplace_back();
  }
  problem.count += count;
  result_.problems[problem.place] = fmt::format("{}: {}", words, problem.count);
}

void SaveJob::add_policy(const std::string& description, const WorkFigures& figures) noexcept {
  const MutexLock lock(mutex_);
  std::vector<PolicyFigures>& policies = result_.policies;
  auto policy = std::find_if(policies.begin(), policies.end(), [&description](const PolicyFigures& known) {
    return known.description == description;
  });
  if (policy == policies.end()) {
    policy = policies.insert(policy, {description, WorkFigures()});
  }
  policy->work.count += figures.count;
  policy->work.bytes += figures.bytes;
  policy->work.time += figures.time;
}

void SaveJob::add_unremoved(const std::string& problem) noexcept {
  add_problem(problem);
  const MutexLock lock(mutex_);
  unremoved_ += (unremoved_.empty() || problem.empty() ? "" : "; ") + problem;
}

std::exception_ptr SaveJob::unremoved() const {
  const MutexLock lock(mutex_);
  return unremoved_.empty() ? nullptr : std::make_exception_ptr(Error(Errc::io_failure, unremoved_));
}

SaveResult SaveJob::result() const noexcept {
  const MutexLock lock(mutex_);
  return result_;
}

}  // namespace cairn::core
