// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cairn/cairn.hpp"

namespace cairn::flash {

/// More than a run of a staging buffer, so that the file is filled where it lies, and by several at once.
inline constexpr std::size_t kValues = (std::size_t{5} << 20) / sizeof(std::uint64_t);

/// The state at a step: every element tells which one it was.
inline Tree state_at(std::uint64_t step, std::size_t values = kValues) {
  Tree tree;
  tree["weights"] = Array::adopt(std::vector<std::uint64_t>(values, step));
  tree["step"] = static_cast<std::int64_t>(step);
  return tree;
}

}  // namespace cairn::flash
