// SPDX-License-Identifier: Apache-2.0
#include "formats/json_reader.hpp"

#include <system_error>

#include <bitset>
#include <charconv>
#include <cstdint>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/base/utf8.hpp"

namespace cairn::formats {
namespace {

constexpr int kEnd = -1;

bool is_digit(int c) noexcept {
  return c >= '0' && c <= '9';
}

void append_utf8(std::string& out, unsigned code_point) {
  const auto put = [&out](unsigned byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

}  // namespace

JsonReader::JsonReader(std::string_view text, std::string_view name) : text_(text), name_(name) {
  if (!is_valid_utf8(text)) {
    throw Error(Errc::malformed_metadata, fmt::format("{}: the JSON text is not valid UTF-8", name));
  }
}

void JsonReader::fail(std::string_view why) const {
  throw Error(Errc::malformed_metadata, fmt::format("{}: byte {} of the JSON text: {}", name_, at_, why));
}

void JsonReader::skip_white_space() noexcept {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
      return;
    }
    ++at_;
  }
}

int JsonReader::peek() {
  skip_white_space();
  return at_ < text_.size() ? static_cast<unsigned char>(text_[at_]) : kEnd;
}

void JsonReader::expect(char c) {
  if (peek() != c) {
    fail(fmt::format("expected '{}'", c));
  }
  ++at_;
}

void JsonReader::begin_object() {
  expect('{');
  is_first_ = true;
}

void JsonReader::begin_array() {
  expect('[');
  is_first_ = true;
}

bool JsonReader::next_key(std::string_view& key, std::string& scratch) {
  if (peek() == '}') {
    ++at_;
    is_first_ = false;
    return false;
  }
  if (!is_first_) {
    expect(',');
  }
  key = read_string(scratch);
  expect(':');
  return true;
}

bool JsonReader::next_element() {
  if (peek() == ']') {
    ++at_;
    is_first_ = false;
    return false;
  }
  if (!is_first_) {
    expect(',');
  }
  is_first_ = false;
  return true;
}

std::uint64_t JsonReader::read_unsigned() {
  is_first_ = false;
  if (!is_unsigned_next()) {
    fail("expected an unsigned integer");
  }
  std::uint64_t value = 0;
  const char* begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error != std::errc()) {
    fail("the integer does not fit in 64 bits");
  }
  if (*begin == '0' && end - begin > 1) {
    fail("an integer must not start with 0");
  }
  at_ += static_cast<std::size_t>(end - begin);
  return value;
}

bool JsonReader::is_unsigned_next() {
  if (!is_digit(peek())) {
    return false;
  }
  std::size_t end = at_;
  while (end < text_.size() && is_digit(static_cast<unsigned char>(text_[end]))) {
    ++end;
  }
  return end == text_.size() || (text_[end] != '.' && text_[end] != 'e' && text_[end] != 'E');
}

std::string_view JsonReader::read_string(std::string& scratch) {
  is_first_ = false;
  expect('"');
  const std::size_t begin = at_;
  std::size_t unflushed = at_;
  bool has_escapes = false;
  while (at_ < text_.size()) {
    const auto c = static_cast<unsigned char>(text_[at_]);
    if (c == '"') {
      const std::size_t end = at_++;
      if (!has_escapes) {
        return text_.substr(begin, end - begin);
      }
      scratch.append(text_.substr(unflushed, end - unflushed));
      return scratch;
    }
    if (c < 0x20) {
      fail("a control character in a string must be escaped");
    }
    if (c != '\\') {
      ++at_;
      continue;
    }
    if (!has_escapes) {
      scratch.clear();
      has_escapes = true;
    }
    scratch.append(text_.substr(unflushed, at_ - unflushed));
    read_escape(scratch);
    unflushed = at_;
  }
  fail("the string has no end");
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
    if (text_.substr(at_, 2) != "\\u") {
      fail("a high surrogate without a low one");
    }
    at_ += 2;
    const unsigned low = read_hex4();
    if (low < 0xDC00 || low >= 0xE000) {
      fail("a high surrogate without a low one");
    }
    code_point = 0x10000 + ((code_point - 0xD800) << 10) + (low - 0xDC00);
  }
  append_utf8(out, code_point);
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

bool JsonReader::skip_null() {
  if (peek() != 'n') {
    return false;
  }
  is_first_ = false;
  skip_literal("null");
  return true;
}

void JsonReader::skip_literal(std::string_view literal) {
  if (text_.substr(at_, literal.size()) != literal) {
    fail("expected a value");
  }
  at_ += literal.size();
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

void JsonReader::skip_number() {
  const std::size_t begin = at_;
  const auto is_next = [this](std::string_view any_of) {
    return at_ < text_.size() && any_of.find(text_[at_]) != std::string_view::npos;
  };
  if (is_next("-")) {
    ++at_;
  }
  const bool has_zero_first = is_next("0");
  const std::size_t digits = at_;
  skip_digits();
  if (has_zero_first && at_ - digits > 1) {
    fail("a number must not start with 0");
  }
  if (is_next(".")) {
    ++at_;
    skip_digits();
  }
  bool is_tiny = false;
  if (is_next("eE")) {
    ++at_;
    is_tiny = is_next("-");
    if (is_next("+-")) {
      ++at_;
    }
    skip_digits();
  }
  double value = 0;
  const auto result = std::from_chars(text_.data() + begin, text_.data() + at_, value);
  if (result.ec == std::errc::result_out_of_range && !is_tiny) {
    fail("the number is too large");
  }
}

void JsonReader::skip_scalar() {
  const int c = peek();
  if (c == '"') {
    std::string scratch;
    static_cast<void>(read_string(scratch));
  } else if (c == '-' || is_digit(c)) {
    skip_number();
  } else if (c == 't') {
    skip_literal("true");
  } else if (c == 'f') {
    skip_literal("false");
  } else {
    skip_literal("null");
  }
  is_first_ = false;
}

void JsonReader::skip_value() {
  std::bitset<kMaxDepth> is_object;  // One bit for each open container instead of one stack frame.
  std::size_t depth = 0;
  std::string_view key;
  std::string scratch;
  do {
    const int c = peek();
    if (c == '{' || c == '[') {
      if (depth == kMaxDepth) {
        fail("values nest too deeply");
      }
      is_object[depth++] = c == '{';
      ++at_;
      is_first_ = true;
    } else {
      skip_scalar();
    }
    while (depth > 0 && !(is_object[depth - 1] ? next_key(key, scratch) : next_element())) {
      --depth;
    }
  } while (depth > 0);
}

void JsonReader::finish() {
  if (peek() != kEnd) {
    fail("something follows the end of the JSON value");
  }
}

}  // namespace cairn::formats
