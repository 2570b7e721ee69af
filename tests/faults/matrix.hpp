// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "faults/injector.hpp"
#include "faults/scenes.hpp"

namespace cairn::faults {

/// A request for memory of this many bytes or more is refused with an error: the process goes on.
inline constexpr std::size_t kLargeBytes = 4096;

/// What must come of a fault.
enum class Expect : std::uint8_t {
  retried,  ///< The operation succeeds.
  told,     ///< It fails, or succeeds and reports it.
  borne,    ///< It may succeed, and need not say anything.
};

/// One way to fail.
struct Way {
  Op op;
  int error;
  Effect effect;
  Expect expect;
};

/// What came of many cases.
struct Tally {
  std::uint64_t cases = 0;       ///< Faults that were hit.
  std::uint64_t operations = 0;  ///< Calls that failed, each in at least one way.
  std::uint64_t lost = 0;        ///< Another checkpoint than what was promised is there, or more.
  std::uint64_t mistold = 0;     ///< A wrong error, none where there should be one, or no path in it.
  std::uint64_t leaked = 0;      ///< Descriptors, threads, memory, frames of coroutines.
  std::uint64_t hung = 0;
  std::uint64_t ended = 0;  ///< Small allocations without which the process ended.
  std::vector<std::string> complaints;

  void add(const Tally& other);
  [[nodiscard]] bool is_clean() const { return complaints.empty(); }
};

/// What is taken of the calls of one kind: one in `one_in`, or fewer where that is twice `most` and more.
struct Share {
  std::uint64_t one_in = 1;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  std::string seed = "1";  ///< Says which (testing::Sample).
};

/// Lets each call of `scene` on `machine` fail, one at a time, in each of the ways that `ways` has for it.
Tally fail_each(Scene& scene, const Machine& machine, const std::vector<Way>& ways, const Share& share = {});

/// Every way to fail that the kernel has for these calls.
[[nodiscard]] std::vector<Way> ways_of_calls();
[[nodiscard]] std::vector<Way> ways_of_memory();
/// Every call that may be slow.
[[nodiscard]] std::vector<Way> ways_of_slow_calls();

}  // namespace cairn::faults
