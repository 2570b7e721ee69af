// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"

namespace cairn::verdicts {

/// The i-th element that the save of that number saves.
[[nodiscard]] constexpr std::uint64_t element(std::uint64_t number, std::size_t i) {
  return (number + 1) * 0x9E3779B97F4A7C15 + i;
}

/// Looks at targets past the harness: with the system's own calls, and in real time.
///
/// Threads: every method may be called from any thread.
class Observer {
 public:
  Observer();

  /// What a target holds.
  struct Holder {
    std::optional<std::uint64_t> number;  ///< Nothing: there is no checkpoint.
    std::string problem;                  ///< What is wrong with it; empty when it is whole.
  };

  /// `count`: how many elements its array has.
  [[nodiscard]] Holder look_at(const std::filesystem::path& path, std::size_t count, bool thoroughly);

  /// The state that the save of that number gave, or why it is none.
  [[nodiscard]] static std::string check_state(const Tree& state, std::uint64_t number, std::size_t count);

 private:
  Context context_;
};

}  // namespace cairn::verdicts
