// SPDX-License-Identifier: Apache-2.0
#include "cairn/contract/any_value.hpp"

#include <cstdlib>

#include <cxxabi.h>

namespace cairn {

std::string type_name(std::type_index type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : type.name();
}

OptionSet::OptionSet() = default;
OptionSet::OptionSet(const OptionSet&) = default;
OptionSet::OptionSet(OptionSet&&) noexcept = default;
OptionSet& OptionSet::operator=(const OptionSet&) = default;
OptionSet& OptionSet::operator=(OptionSet&&) noexcept = default;
OptionSet::~OptionSet() = default;

void OptionSet::set_use(std::type_index type, MakeUse make) {
  uses_.insert_or_assign(type, make);
}

void OptionSet::set_say(std::type_index type, Say say) {
  says_.insert_or_assign(type, say);
}

void OptionSet::set_value(AnyValue value) {
  const std::type_index type = value.type();
  options_.insert_or_assign(type, std::move(value));
}

const AnyValue* OptionSet::find(std::type_index type) const {
  const auto found = options_.find(type);
  return found == options_.end() ? nullptr : &found->second;
}

OptionSet::Uses OptionSet::begin_uses() const {
  Uses uses;
  for (const auto& [type, begin] : uses_) {
    uses.emplace(type, begin(options_.at(type).get()));
  }
  return uses;
}

OptionWords OptionSet::same_on_all_ranks() const {
  std::map<std::string, OptionWords> by_type;  // Processes may order types themselves in different ways.
  for (const auto& [type, say] : says_) {
    by_type.emplace(type.name(), say(options_.at(type).get()));
  }
  OptionWords words;
  for (const auto& [type, of_type] : by_type) {
    words.insert(words.end(), of_type.begin(), of_type.end());
  }
  return words;
}

}  // namespace cairn
