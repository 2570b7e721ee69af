// SPDX-License-Identifier: Apache-2.0
#include "stress/state.hpp"

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace cairn::stress {
namespace {

constexpr std::array<std::size_t, 3> kElements = {3, 2'000, 90'000};

std::uint64_t value_of(std::uint64_t number, std::size_t i) {
  return (number + 1) * 0x9E3779B97F4A7C15 + i;
}

}  // namespace

Shape large_shape() {
  return {kElements[2]};
}

Tree make_state(std::uint64_t number) {
  Tree state;
  state["number"] = static_cast<std::int64_t>(number);
  for (std::size_t k = 0; k < kElements.size(); ++k) {
    std::vector<std::uint64_t> values(kElements[k]);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = value_of(number, i + k);
    }
    state["arrays"][fmt::format("{}", k)] = Array::adopt(std::move(values));
  }
  return state;
}

std::uint64_t number_in(const Tree& state) {
  const auto number = static_cast<std::uint64_t>(state.at("number").as<std::int64_t>());
  if (state != make_state(number)) {
    throw Error(Errc::checksum_mismatch, fmt::format("the state of save {} is not whole", number));
  }
  return number;
}

}  // namespace cairn::stress
