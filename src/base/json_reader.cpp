// SPDX-License-Identifier: Apache-2.0
#include "base/internal/json_reader.hpp"

#include <system_error>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <locale.h>

#include "cairn/base/ieee_arithmetic.hpp"

#include "base/internal/json_string.hpp"
#include "base/internal/utf8.hpp"

namespace cairn {
namespace {

bool is_digit(int c) noexcept {
  return c >= '0' && c <= '9';
}

class Ignore final : public JsonEvents {
 public:
  void on_begin(char /*bracket*/) override {}
  void on_end() override {}
  void on_key(std::string_view /*key*/) override {}
  void on_scalar(const JsonScalar& /*value*/) override {}
};

/// The nearest double, in whatever mode the thread rounds: zero for what is too small, infinity for what is too large.
double nearest_double(std::string_view number) {
  const IeeeArithmetic arithmetic;
  double value = 0;
  const auto result = std::from_chars(number.data(), number.data() + number.size(), value);
  if (result.ec == std::errc::result_out_of_range) {  // Does not say at which end.
    static const locale_t plain = ::newlocale(LC_ALL_MASK, "C", nullptr);
    value = ::strtod_l(std::string(number).c_str(), nullptr, plain);
  }
  return value;
}

}  // namespace

JsonReader::JsonReader(std::string_view text, std::string_view name, JsonRules rules)
    : text_(text), name_(name), rules_(rules), at_(valid_utf8_bytes(text)) {
  if (at_ != text.size()) {
    fail("not valid UTF-8");
  }
  at_ = 0;
}

void JsonReader::fail(std::string_view why) const {
  throw Error(rules_.code, fmt::format("{}: byte {} of the JSON text: {}", name_, at_, why));
}

int JsonReader::peek() noexcept {
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
      return static_cast<unsigned char>(c);
    }
  }
  return -1;
}

void JsonReader::expect(char c) {
  if (peek() != c) {
    fail(fmt::format("expected '{}'", c));
  }
  ++at_;
}

bool JsonReader::take(std::string_view literal) noexcept {
  if (!text_.substr(at_).starts_with(literal)) {
    return false;
  }
  at_ += literal.size();
  return true;
}

void JsonReader::begin(char bracket) {
  expect(bracket);
  if (open_.size() == rules_.max_depth) {
    fail(fmt::format("nested deeper than {} levels", rules_.max_depth));
  }
  open_.push_back(bracket);
  is_first_ = true;
  if (rules_.has_unique_keys && bracket == '{') {
    keys_.emplace_back();
  }
}

bool JsonReader::next_member(char closing) {
  const bool is_end = peek() == closing;
  if (is_end) {
    ++at_;
    open_.pop_back();
  } else if (!is_first_) {
    expect(',');
  }
  is_first_ = false;  // One flag is enough: when an inner container ends, the outer one has had a member.
  return !is_end;
}

std::optional<std::string_view> JsonReader::next_key() {
  if (!next_member('}')) {
    if (rules_.has_unique_keys) {
      keys_.pop_back();
    }
    return std::nullopt;
  }
  const std::string_view key = read_string(key_scratch_);
  if (rules_.has_unique_keys && !keys_.back().emplace(key).second) {
    fail(fmt::format("the key '{}' is given twice", key));
  }
  expect(':');
  return key;
}

std::uint64_t JsonReader::read_unsigned() {
  if (!is_digit(peek())) {
    fail("expected an unsigned integer");
  }
  std::uint64_t value = 0;
  const char* begin = text_.data() + at_;
  const char* text_end = text_.data() + text_.size();
  const auto [end, error] = std::from_chars(begin, text_end, value);
  if (error != std::errc()) {
    fail("the integer does not fit in 64 bits");
  }
  if (*begin == '0' && end - begin > 1) {
    fail("an integer must not start with 0");
  }
  if (end != text_end && (*end == '.' || *end == 'e' || *end == 'E')) {
    fail("expected an unsigned integer");
  }
  at_ += static_cast<std::size_t>(end - begin);
  return value;
}

std::string_view JsonReader::read_string() {
  return read_string(text_scratch_);
}

std::string_view JsonReader::read_string(std::string& scratch) {
  expect('"');
  scratch.clear();
  while (true) {
    const std::string_view plain = text_.substr(at_, plain_json_bytes(text_.substr(at_)));
    at_ += plain.size();
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (c == '"') {
      ++at_;
      return scratch.empty() ? plain : scratch.append(plain);
    }
    if (c != '\\') {
      fail(at_ < text_.size() ? "a control character in a string must be escaped" : "the string has no end");
    }
    scratch.append(plain);
    read_escape(scratch);
  }
}

void JsonReader::read_escape(std::string& out) {
  ++at_;
  const char c = at_ < text_.size() ? text_[at_] : '\0';
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kCharacters = "\"\\/\b\f\n\r\t";
  const std::size_t simple = kNames.find(c);
  if (simple != std::string_view::npos) {
    ++at_;
    out.push_back(kCharacters[simple]);
    return;
  }
  if (c != 'u') {
    fail("unknown escape in a string");
  }
  ++at_;
  unsigned code_point = read_hex4();
  if (code_point >= 0xDC00 && code_point < 0xE000) {
    fail("a low surrogate without a high one");
  }
  if (code_point >= 0xD800 && code_point < 0xDC00) {
    const unsigned low = take("\\u") ? read_hex4() : 0;
    if (low < 0xDC00 || low >= 0xE000) {
      fail("a high surrogate without a low one");
    }
    code_point = 0x10000 + ((code_point - 0xD800) << 10) + (low - 0xDC00);
  }
  append_code_point(out, code_point);
}

unsigned JsonReader::read_hex4() {
  unsigned value = 0;
  const std::string_view digits = text_.substr(at_, 4);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  // from_chars takes a sign for signed types only, so four characters used are four hexadecimal digits.
  if (error != std::errc() || end - digits.data() != 4) {
    fail("expected four hexadecimal digits");
  }
  at_ += 4;
  return value;
}

JsonScalar JsonReader::read_scalar() {
  const int c = peek();
  if (c == '"') {
    return read_string();
  }
  if (c == '-' || is_digit(c)) {
    return read_number();
  }
  if (take("true")) {
    return true;
  }
  if (take("false")) {
    return false;
  }
  if (take("null")) {
    return nullptr;
  }
  fail("expected a value");
}

void JsonReader::skip_digits() {
  const std::size_t begin = at_;
  while (at_ < text_.size() && is_digit(static_cast<unsigned char>(text_[at_]))) {
    ++at_;
  }
  if (at_ == begin) {
    fail("expected a digit");
  }
}

JsonScalar JsonReader::read_number() {
  const char* begin = text_.data() + at_;
  const bool is_negative = take("-");
  if (take("0")) {
    if (at_ < text_.size() && is_digit(static_cast<unsigned char>(text_[at_]))) {
      fail("a number must not start with 0");
    }
  } else {
    skip_digits();
  }
  const char* digits_end = text_.data() + at_;
  if (take(".")) {
    skip_digits();
  }
  if (take("e") || take("E")) {
    static_cast<void>(take("-") || take("+"));
    skip_digits();
  }
  const char* end = text_.data() + at_;
  std::uint64_t natural = 0;
  std::int64_t integer = 0;
  if (end == digits_end && !is_negative && std::from_chars(begin, end, natural).ec == std::errc()) {
    return natural;
  }
  if (end == digits_end && is_negative && std::from_chars(begin, end, integer).ec == std::errc()) {
    return integer;
  }
  const std::string_view number(begin, static_cast<std::size_t>(end - begin));
  const double value = nearest_double(number);
  if (!std::isfinite(value)) {
    constexpr std::size_t kMostShown = 40;
    fail(fmt::format("the number {} is too large", number.substr(0, kMostShown)));
  }
  return value;
}

bool JsonReader::next_of_any(JsonEvents& events) {
  if (open_.back() == '[') {
    return next_element();
  }
  const std::optional<std::string_view> key = next_key();
  if (key) {
    events.on_key(*key);
  }
  return key.has_value();
}

void JsonReader::read_value(JsonEvents& events) {
  const std::size_t outside = open_.size();
  do {
    const int c = peek();
    if (c == '{' || c == '[') {
      begin(static_cast<char>(c));
      events.on_begin(static_cast<char>(c));
    } else {
      events.on_scalar(read_scalar());
    }
    while (open_.size() > outside && !next_of_any(events)) {
      events.on_end();
    }
  } while (open_.size() > outside);
}

void JsonReader::skip_value() {
  Ignore ignore;
  read_value(ignore);
}

bool JsonReader::skip_null() {
  return peek() == 'n' && take("null");
}

void JsonReader::finish() {
  if (peek() != -1) {
    fail("something follows the end of the JSON value");
  }
}

}  // namespace cairn
