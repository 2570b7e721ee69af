// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace digits {

/// The state of a random generator: four words, so that a checkpoint stores it as an array.
using RandomState = std::array<std::uint64_t, 4>;

/// Returns the state that `seed` stands for.
///
/// Source: splitmix64, S. Vigna, as the authors of xoshiro256** advise for seeding.
RandomState seeded(std::uint64_t seed);

/// Returns 64 random bits.
///
/// Source: xoshiro256**, D. Blackman and S. Vigna, "Scrambled linear pseudorandom number generators".
std::uint64_t next_bits(RandomState& random);

/// Returns a number of [0, 1) with 24 random bits, which is what a float holds.
float next_uniform(RandomState& random);

/// Returns the numbers 0 to count - 1 in random order.
std::vector<std::uint32_t> shuffled(std::size_t count, RandomState& random);

}  // namespace digits
