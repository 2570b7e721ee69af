// SPDX-License-Identifier: Apache-2.0
#include "core/save_report.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"

namespace cairn::core {

void SaveReport::add_problem(const std::string& problem) noexcept {
  const MutexLock lock(mutex_);
  if (!problem.empty()) {
    result_.problems.push_back(problem);
  }
}

void SaveReport::count_problem(const std::string& words, std::uint64_t count) noexcept {
  const MutexLock lock(mutex_);
  const auto [known, is_new] = counted_problems_.try_emplace(words);
  CountedProblem& problem = known->second;
  if (is_new) {
    problem.place = result_.problems.size();
    result_.problems.emplace_back();
  }
  CAIRN_ASSERT(problem.place < result_.problems.size(), "a problem that is counted keeps its place");
  problem.count += count;
  result_.problems[problem.place] = fmt::format("{}: {}", words, problem.count);
}

void SaveReport::add_unremoved(const std::string& problem) noexcept {
  add_problem(problem);
  const MutexLock lock(mutex_);
  unremoved_ += (unremoved_.empty() || problem.empty() ? "" : "; ") + problem;
}

std::exception_ptr SaveReport::unremoved() const {
  const MutexLock lock(mutex_);
  return unremoved_.empty() ? nullptr : std::make_exception_ptr(Error(Errc::io_failure, unremoved_));
}

void SaveReport::add_policy(const std::string& description, const WorkFigures& figures) noexcept {
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

void SaveReport::end_blocking_phase() noexcept {
  const MutexLock lock(mutex_);
  result_.blocking_time = stats_.meter().last() - stats_.meter().begin();
}

void SaveReport::prepare(const std::filesystem::path& path, std::span<const io::FileDigest> digests,
                         std::span<const store::FileEntry> others) {
  const MutexLock lock(mutex_);
  stats_.fill_words(result_);
  result_.path = path;
  result_.files = digests.size() + others.size();
  for (const io::FileDigest& digest : digests) {
    result_.bytes += digest.size_bytes;
  }
  for (const store::FileEntry& file : others) {
    result_.bytes += file.size_bytes;
  }
}

void SaveReport::measure() noexcept {
  const MutexLock lock(mutex_);
  stats_.fill_numbers(result_);
  result_.durable_time = stats_.meter().last() - stats_.meter().begin();
}

void SaveReport::set_path(const std::filesystem::path& path) {
  const MutexLock lock(mutex_);
  result_.path = path;
}

void SaveReport::set_totals(Totals totals) noexcept {
  const MutexLock lock(mutex_);
  result_.files = totals.files;
  result_.bytes = totals.bytes;
}

SaveReport::Totals SaveReport::totals() const noexcept {
  const MutexLock lock(mutex_);
  return {result_.files, result_.bytes};
}

SaveResult SaveReport::result() const noexcept {
  const MutexLock lock(mutex_);
  return result_;
}

}  // namespace cairn::core
