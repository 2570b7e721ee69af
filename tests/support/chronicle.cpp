// SPDX-License-Identifier: Apache-2.0
#include "support/chronicle.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cairn::testing {

Chronicle::Number Chronicle::begin(const std::string& target) {
  by_number_.push_back(&histories_.try_emplace(target, target).first->second);
  return by_number_.size();
}

TargetHistory& Chronicle::history_of(Number number) {
  return *by_number_.at(number - 1);
}

Chronicle::Number Chronicle::begin_save(const std::string& target, bool overwrites) {
  const std::lock_guard lock(mutex_);
  const Number number = begin(target);
  history_of(number).begin_save(number, overwrites);
  return number;
}

Chronicle::Number Chronicle::begin_removal(const std::string& target) {
  const std::lock_guard lock(mutex_);
  const Number number = begin(target);
  history_of(number).begin_removal(number);
  return number;
}

void Chronicle::place(Number number) {
  const std::lock_guard lock(mutex_);
  history_of(number).place(number);
}

void Chronicle::answer_save(Number number, const std::exception_ptr& failure) {
  const std::lock_guard lock(mutex_);
  check(history_of(number).answer(number, answer_of_save(failure)));
}

void Chronicle::answer_removal(Number number, const std::exception_ptr& failure) {
  const std::lock_guard lock(mutex_);
  check(history_of(number).answer(number, answer_of_removal(failure)));
}

void Chronicle::settle() {
  const std::lock_guard lock(mutex_);
  for (auto& [name, history] : histories_) {
    history.settle();
  }
}

Chronicle::Tick Chronicle::now(const std::string& target) {
  const std::lock_guard lock(mutex_);
  return histories_.try_emplace(target, target).first->second.now();
}

void Chronicle::see(const std::string& target, std::optional<Number> holder, Tick since) {
  const std::lock_guard lock(mutex_);
  check(histories_.try_emplace(target, target).first->second.see(holder, since));
}

void Chronicle::lie(const std::string& kind, const std::string& what) {
  const std::lock_guard lock(mutex_);
  check(Lie{kind, what});
}

void Chronicle::check(const std::optional<Lie>& lie) {
  if (!lie) {
    return;
  }
  ++kinds_[lie->kind];
  if (first_.size() < kMostLies) {
    first_.push_back(fmt::format("{}: {}\n", lie->kind, lie->what));
  }
}

std::vector<std::string> Chronicle::targets() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, history] : histories_) {
    names.push_back(name);
  }
  return names;
}

std::map<std::string, std::uint64_t> Chronicle::lies() const {
  const std::lock_guard lock(mutex_);
  return kinds_;
}

std::string Chronicle::first_lies() const {
  const std::lock_guard lock(mutex_);
  return fmt::format("{}", fmt::join(first_, ""));
}

}  // namespace cairn::testing
