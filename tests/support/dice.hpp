// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cairn::testing {

using Moment = std::chrono::steady_clock::time_point;
using Duration = std::chrono::nanoseconds;

/// Random numbers that depend on their seed only, on every machine (SplitMix64).
class Dice {
 public:
  explicit Dice(std::uint64_t seed, std::uint64_t stream = 0) : state_(seed) {
    state_ = next() ^ (stream * 0xD1342543DE82EF95);
  }

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

  /// One of 0 … count - 1.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(next() % count); }

  bool one_in(std::size_t count) { return below(count) == 0; }

  template <class T, std::size_t N>
  const T& pick(const std::array<T, N>& from) {
    return from[below(N)];
  }

  /// 1 ms to `longest`, in whole milliseconds: moments that meet are as interesting as moments that do not.
  Duration up_to(Duration longest) {
    const auto most = std::chrono::duration_cast<std::chrono::milliseconds>(longest).count();
    return std::chrono::milliseconds(1 + below(static_cast<std::size_t>(most)));
  }

 private:
  std::uint64_t state_;
};

}  // namespace cairn::testing
