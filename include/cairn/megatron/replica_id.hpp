// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "cairn/array/shape.hpp"

namespace cairn::megatron {

/// Numbers a copy of what several ranks hold, by one number or one for each kind of parallelism: (PP, TP, DP).
///
/// Threads: a value.
class ReplicaId {
 public:
  /// The main replica.
  ReplicaId() = default;

  ReplicaId(std::uint32_t number)
      : numbers_{number} {}  // NOLINT(google-explicit-constructor): as in Megatron.

  ReplicaId(std::initializer_list<std::uint32_t> numbers) : numbers_(numbers) {}

  explicit ReplicaId(std::span<const std::uint32_t> numbers) : numbers_(numbers) {}

  [[nodiscard]] std::span<const std::uint32_t> numbers() const noexcept {
    return {numbers_.begin(), numbers_.size()};
  }

  /// Returns whether this is the copy that is saved: all numbers are 0.
  [[nodiscard]] bool is_main() const noexcept {
    return std::all_of(numbers_.begin(), numbers_.end(), [](std::uint32_t number) { return number == 0; });
  }

  bool operator==(const ReplicaId&) const = default;

 private:
  Dimensions<std::uint32_t> numbers_;  // Few, without an allocation.
};

}  // namespace cairn::megatron
