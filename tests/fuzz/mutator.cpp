// SPDX-License-Identifier: Apache-2.0
#include "fuzz/mutator.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace cairn::fuzz {
namespace {

constexpr std::size_t kMostBytes = 16384;
constexpr std::size_t kMostMutations = 4;

// Where readers miscount: around zero, around powers of two, and the largest of each size.
constexpr std::array<std::uint64_t, 16> kIntegers = {
    0,      1,       2,        7,          0x7f,       0x80,       0xff,       0x100,
    0xffff, 0x10000, 1U << 30, 0x7fffffff, 0x80000000, 0xffffffff, 1ULL << 32, 1ULL << 62};

constexpr std::array<const char*, 12> kNumbers = {"0",
                                                  "-1",
                                                  "-0",
                                                  "1.0",
                                                  "1e3",
                                                  "01",
                                                  "4294967295",
                                                  "4294967296",
                                                  "9223372036854775807",
                                                  "9223372036854775808",
                                                  "18446744073709551615",
                                                  "18446744073709551616"};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

Mutator::Mutator(std::uint64_t seed, std::vector<std::string> corpus, std::vector<std::string> words)
    : random_(seed), corpus_(std::move(corpus)), words_(std::move(words)) {}

std::size_t Mutator::below(std::size_t end) {
  return end == 0 ? 0 : static_cast<std::size_t>(random_() % end);
}

std::size_t Mutator::place(const std::string& text) {
  // Half of the changes go to the first bytes: headers have padding behind them.
  return below(random_() % 2 == 0 ? text.size() : std::min<std::size_t>(text.size(), 256));
}

std::string Mutator::next() {
  std::string text = corpus_[below(corpus_.size())];
  for (std::size_t left = 1 + below(kMostMutations); left > 0; --left) {
    mutate(text);
  }
  text.resize(std::min(text.size(), kMostBytes));
  return text;
}

void Mutator::mutate(std::string& text) {
  switch (below(8)) {
    case 0:
      return change_integer(text);
    case 1:
      return change_digits(text);
    case 2:
      return insert_word(text);
    case 3:
      return erase_range(text);
    case 4:
      return copy_range(text);
    case 5:
      return splice(text);
    default:
      return change_byte(text);
  }
}

void Mutator::change_byte(std::string& text) {
  if (text.empty()) {
    text += static_cast<char>(random_() % 256);
    return;
  }
  char& byte = text[place(text)];
  byte = random_() % 2 == 0 ? static_cast<char>(byte ^ (1 << below(8))) : static_cast<char>(random_() % 256);
}

void Mutator::change_integer(std::string& text) {
  const std::size_t bytes = std::size_t{1} << below(4);
  if (text.size() < bytes) {
    return;
  }
  std::uint64_t value = kIntegers[below(kIntegers.size())];
  value = random_() % 2 == 0 ? ~value : value;
  const std::size_t at = std::min(place(text), text.size() - bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    text[at + i] = static_cast<char>(value >> (8 * i));
  }
}

void Mutator::change_digits(std::string& text) {
  const std::size_t from = place(text);
  const auto begin = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(), is_digit);
  const auto end = std::find_if_not(begin, text.end(), is_digit);
  if (begin != end) {
    text.replace(begin, end, kNumbers[below(kNumbers.size())]);
  }
}

void Mutator::insert_word(std::string& text) {
  if (words_.empty()) {
    return;
  }
  const std::string& word = words_[below(words_.size())];
  const std::size_t at = place(text);
  text.replace(at, random_() % 2 == 0 ? 0 : word.size(), word);
}

void Mutator::erase_range(std::string& text) {
  const std::size_t at = place(text);
  text.erase(at, 1 + below(random_() % 2 == 0 ? 8 : text.size()));
}

void Mutator::copy_range(std::string& text) {
  const std::size_t at = place(text);
  const std::string range = text.substr(at, 1 + below(64));
  text.insert(place(text), range);
}

void Mutator::splice(std::string& text) {
  const std::string& other = corpus_[below(corpus_.size())];
  const std::size_t at = below(other.size());
  text.replace(place(text), below(64), other, at, below(128));
}

}  // namespace cairn::fuzz
