// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cairn/cairn.hpp"

namespace cairn::kill {

/// More than one chunk, so that a save has several requests in flight.
inline constexpr std::size_t kValues = 400'000;

/// What save number `number` saves: every element tells which one it was.
inline Tree state(std::int64_t number, std::size_t values = kValues) {
  Tree tree;
  tree["weights"] = Array::adopt(std::vector<std::int32_t>(values, static_cast<std::int32_t>(number)));
  tree["number"] = number;
  return tree;
}

}  // namespace cairn::kill
