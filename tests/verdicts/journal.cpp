// SPDX-License-Identifier: Apache-2.0
#include "verdicts/journal.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cairn::verdicts {

std::string Journal::stamped(const std::string& line) const {
  const std::chrono::duration<double> since = clock_->steady_now().time_since_epoch();
  return fmt::format("{:10.3f}  {}", since.count(), line);
}

void Journal::note(const std::string& line) {
  std::string text = stamped(line);
  const std::lock_guard lock(mutex_);
  lines_.push_back(std::move(text));
  if (lines_.size() > kMostLines) {
    lines_.pop_front();
  }
}

void Journal::lie(const std::string& kind, const std::string& what) {
  note("LIE: " + kind + ": " + what);
  const std::lock_guard lock(mutex_);
  ++kinds_[kind];
  if (lies_.size() < kMostLies) {
    lies_.push_back(kind + ": " + what);
  }
}

void Journal::count(const std::string& what) {
  const std::lock_guard lock(mutex_);
  ++counts_[what];
}

std::map<std::string, std::uint64_t> Journal::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::map<std::string, std::uint64_t> Journal::lies() const {
  const std::lock_guard lock(mutex_);
  return kinds_;
}

std::string Journal::describe() const {
  const std::lock_guard lock(mutex_);
  return fmt::format(
      "program {}: {} lies\n{}\n{}\nCAIRN_VERDICTS_SEED={} CAIRN_VERDICTS_PROGRAMS=1 repeats it\n", seed_,
      lies_.size(), fmt::join(lies_, "\n"), fmt::join(lines_, "\n"), seed_);
}

}  // namespace cairn::verdicts
