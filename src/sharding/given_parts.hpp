// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

namespace cairn::sharding_detail {

/// Keeps which rank writes which part of arrays that several ranks hold. A rank's parts are found without a
/// look at what others write.
class GivenParts {
 public:
  static constexpr std::uint32_t kWhole = UINT32_MAX;

  struct Given {
    std::uint32_t rank = 0;
    std::uint32_t array = 0;
    std::uint32_t part = 0;
    std::uint32_t piece = kWhole;  ///< Its number among the pieces of all parts that are cut.
  };

  void add(Given given) { given_.push_back(given); }

  /// Sorts by rank, array, part and piece: once, after the last was added.
  void finish() {
    std::sort(given_.begin(), given_.end(), [](const Given& a, const Given& b) {
      return std::tie(a.rank, a.array, a.part, a.piece) < std::tie(b.rank, b.array, b.part, b.piece);
    });
  }

  [[nodiscard]] std::span<const Given> of(std::uint32_t rank) const {
    const auto begin =
        std::lower_bound(given_.begin(), given_.end(), rank,
                         [](const Given& one, std::uint32_t value) { return one.rank < value; });
    const auto end = std::upper_bound(begin, given_.end(), rank,
                                      [](std::uint32_t value, const Given& one) { return value < one.rank; });
    return {begin, end};
  }

 private:
  std::vector<Given> given_;
};

}  // namespace cairn::sharding_detail
