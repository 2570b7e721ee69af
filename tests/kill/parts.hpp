// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/handlers/tree.hpp"

namespace cairn::kill {

/// What part `number` of a checkpoint holds.
inline Tree part(std::uint64_t number) {
  constexpr std::size_t kValues = 5000;
  const auto value = static_cast<float>(number);
  return {{"part" + std::to_string(number), {{"w", std::vector<float>(kValues, value)}, {"number", number}}}};
}

}  // namespace cairn::kill
