// SPDX-License-Identifier: Apache-2.0
#include "cairn/contract/any_value.hpp"

#include <cstddef>
#include <cstdlib>
#include <string_view>

#include <cxxabi.h>

namespace cairn {
namespace {

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
}

/// Takes out an argument of templates that people leave out, up to the bracket that closes it.
void erase_default(std::string& text, std::string_view begin) {
  for (std::size_t at = 0; (at = text.find(begin, at)) != std::string::npos;) {
    std::size_t end = at + begin.size();
    if (text.compare(end, 4, "void") == 0) {  // std::less<>, which nobody leaves out.
      at = end;
      continue;
    }
    for (int depth = 1; depth > 0 && end < text.size(); ++end) {
      depth += text[end] == '<' ? 1 : text[end] == '>' ? -1 : 0;
    }
    text.erase(at, end - at);
  }
}

}  // namespace

std::string type_name(std::type_index type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  std::string text = status == 0 ? name.get() : type.name();
  replace_all(text, "(anonymous namespace)::", "");
  replace_all(text, "std::__cxx11::", "std::");
  replace_all(text, " >", ">");
  for (const char* const begin : {", std::allocator<", ", std::char_traits<", ", std::default_delete<",
                                  ", std::equal_to<", ", std::hash<", ", std::less<"}) {
    erase_default(text, begin);
  }
  replace_all(text, "std::basic_string<char>", "std::string");
  replace_all(text, "std::basic_string_view<char>", "std::string_view");
  return text;
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
