// SPDX-License-Identifier: Apache-2.0
#include "cairn/proto/path.hpp"

#include <system_error>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "proto/tags.hpp"

namespace cairn::proto {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name_character(char c) {
  return is_letter(c) || is_digit(c);
}

template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

class PathReader {
 public:
  explicit PathReader(std::string_view text) : text_(text) {}

  Path read() {
    Path path;
    while (at_ < text_.size()) {
      if (text_[at_] == '[') {
        ++at_;
        path.push_back(text_.substr(at_).starts_with('"') ? PathElement(text_in_quotes()) : in_brackets());
        expect(']');
      } else {
        if (!path.empty()) {
          expect('.');
        }
        path.push_back(outside_brackets());
      }
    }
    return path;
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(Errc::invalid_argument, fmt::format("path '{}': {} at character {}", text_, what, at_));
  }

  void expect(char c) {
    if (at_ >= text_.size() || text_[at_] != c) {
      refuse(fmt::format("'{}' is missing", c));
    }
    ++at_;
  }

  std::string_view take_while(bool (*belongs)(char)) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && belongs(text_[at_])) {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  PathElement outside_brackets() {
    const std::string_view word = take_while(is_name_character);
    if (word.empty()) {
      refuse("a name is missing");
    }
    return is_letter(word.front()) ? PathElement(word) : number(word);
  }

  /// A number, `true`, `false`, or the name of an extension.
  PathElement in_brackets() {
    const std::string_view word =
        take_while([](char c) { return is_name_character(c) || c == '.' || c == '-'; });
    if (word == "true" || word == "false") {
      return {word == "true"};
    }
    if (word.empty()) {
      refuse("an index, a key or the name of an extension is missing");
    }
    return is_letter(word.front()) ? PathElement(word) : number(word);
  }

  [[nodiscard]] PathElement number(std::string_view word) const {
    if (const auto number = whole_number<std::uint64_t>(word)) {
      return {*number};
    }
    if (const auto number = whole_number<std::int64_t>(word)) {
      return {*number};
    }
    refuse(fmt::format("'{}' is not a whole number of 64 bits", word));
  }

  char escaped() {
    const char c = at_ < text_.size() ? text_[at_++] : '\0';
    if (c == 'n') {
      return '\n';
    }
    if (c == '"' || c == '\\') {
      return c;
    }
    unsigned code = 0;
    const std::string_view digits = c == 'x' ? text_.substr(at_).substr(0, 2) : std::string_view();
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc() || digits.size() != 2 || end != digits.data() + 2) {
      refuse("an unknown escape ends");
    }
    at_ += 2;
    return static_cast<char>(code);
  }

  std::string text_in_quotes() {
    expect('"');
    std::string result;
    while (at_ < text_.size() && text_[at_] != '"') {
      const char c = text_[at_++];
      result += c == '\\' ? escaped() : c;
    }
    expect('"');
    return result;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

Path parse_path(std::string_view text) {
  return PathReader(text).read();
}

std::string to_text(const Path& path) {
  std::string text;
  for (const PathElement& element : path) {
    const auto* name = std::get_if<std::string>(&element.value());
    if (name == nullptr) {
      std::visit([&text](const auto& value) { text += fmt::format("[{}]", value); }, element.value());
    } else if (!name->empty() && is_letter(name->front()) &&
               std::all_of(name->begin(), name->end(), is_name_character)) {
      text += text.empty() ? *name : '.' + *name;
    } else {
      text += fmt::format("[{}]", in_quotes(*name));
    }
  }
  return text;
}

}  // namespace cairn::proto
