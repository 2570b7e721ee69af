// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "crash/simulated_disk.hpp"

namespace cairn::crash {

/// Every sector has the same fate.
class UniformFate final : public Fate {
 public:
  enum class Kind : std::uint8_t { lost, kept, hollow, garbage };

  explicit UniformFate(Kind kind) : kind_(kind) {}

  std::size_t size(std::size_t sizes) override { return kind_ == Kind::lost ? 0 : sizes - 1; }

  std::size_t sector(std::size_t versions, bool can_be_garbage) override {
    switch (kind_) {
      case Kind::kept:
        return versions - 1;
      case Kind::garbage:
        return can_be_garbage ? versions : 0;
      case Kind::lost:
      case Kind::hollow:
        break;
    }
    return 0;
  }

 private:
  Kind kind_;
};

/// Goes through all combinations, one after the other.
class CountingFate final : public Fate {
 public:
  std::size_t size(std::size_t sizes) override { return pick(sizes); }
  std::size_t sector(std::size_t versions, bool can_be_garbage) override {
    return pick(versions + (can_be_garbage ? 1 : 0));
  }

  /// Prepares the next combination; false when there is none.
  bool advance() {
    digits_.resize(std::exchange(position_, 0));
    while (!digits_.empty() && digits_.back().value + 1 == digits_.back().base) {
      digits_.pop_back();
    }
    if (digits_.empty()) {
      return false;
    }
    ++digits_.back().value;
    return true;
  }

 private:
  struct Digit {
    std::size_t value;
    std::size_t base;
  };

  std::size_t pick(std::size_t options) {
    if (position_ == digits_.size()) {
      digits_.push_back({0, options});
    }
    return digits_[position_++].value;
  }

  std::vector<Digit> digits_;
  std::size_t position_ = 0;
};

/// Sectors are lost at random: torn writes.
class RandomFate final : public Fate {
 public:
  explicit RandomFate(std::mt19937_64& random) : random_(random), kept_of_8_(random() % 9) {}

  std::size_t size(std::size_t sizes) override { return random_() % 4 == 0 ? random_() % sizes : sizes - 1; }
  std::size_t sector(std::size_t versions, bool can_be_garbage) override {
    if (random_() % 8 < kept_of_8_) {
      return versions - 1;
    }
    return random_() % (versions + (can_be_garbage ? 1 : 0));
  }

 private:
  std::mt19937_64& random_;
  std::uint64_t kept_of_8_;
};

}  // namespace cairn::crash
