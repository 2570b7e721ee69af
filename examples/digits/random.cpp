// SPDX-License-Identifier: Apache-2.0
#include "digits/random.hpp"

#include <bit>
#include <numeric>
#include <utility>

namespace digits {

RandomState seeded(std::uint64_t seed) {
  RandomState random{};
  for (std::uint64_t& word : random) {
    seed += 0x9e3779b97f4a7c15u;
    std::uint64_t mixed = seed;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    word = mixed ^ (mixed >> 31);
  }
  return random;
}

std::uint64_t next_bits(RandomState& random) {
  const std::uint64_t bits = std::rotl(random[1] * 5, 7) * 9;
  const std::uint64_t shifted = random[1] << 17;
  random[2] ^= random[0];
  random[3] ^= random[1];
  random[1] ^= random[2];
  random[0] ^= random[3];
  random[2] ^= shifted;
  random[3] = std::rotl(random[3], 45);
  return bits;
}

float next_uniform(RandomState& random) {
  return static_cast<float>(next_bits(random) >> 40) * 0x1p-24f;
}

std::vector<std::uint32_t> shuffled(std::size_t count, RandomState& random) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (std::size_t left = count; left > 1; --left) {
    // The remainder favours small numbers by less than one in 2^50 here.
    std::swap(order[left - 1], order[next_bits(random) % left]);
  }
  return order;
}

}  // namespace digits
