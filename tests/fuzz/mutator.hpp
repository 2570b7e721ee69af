// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace cairn::fuzz {

/// Makes inputs out of a corpus: each is one of its files with a few bytes, numbers, words or parts changed.
///
/// The same seed, corpus and words give the same inputs on every machine.
class Mutator {
 public:
  /// `corpus` must not be empty.
  Mutator(std::uint64_t seed, std::vector<std::string> corpus, std::vector<std::string> words);

  [[nodiscard]] std::string next();

 private:
  [[nodiscard]] std::size_t below(std::size_t end);
  [[nodiscard]] std::size_t place(const std::string& text);
  void mutate(std::string& text);
  void change_byte(std::string& text);
  void change_integer(std::string& text);
  void change_digits(std::string& text);
  void insert_word(std::string& text);
  void erase_range(std::string& text);
  void copy_range(std::string& text);
  void splice(std::string& text);

  std::mt19937_64 random_;
  std::vector<std::string> corpus_;
  std::vector<std::string> words_;
};

}  // namespace cairn::fuzz
