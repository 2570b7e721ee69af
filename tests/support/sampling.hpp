// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::testing {

/// The text in CAIRN_SEED, such as the hash of a commit; "1" where it is not set. A program that samples prints it in
/// its line of figures, so that a failure can be repeated.
[[nodiscard]] std::string seed();

/// The seed with which every sample is the whole.
inline constexpr std::string_view kAll = "all";
[[nodiscard]] inline bool takes_all() {
  return seed() == kAll;
}

/// Where the random programs of a run begin: the seed as a number, so that other commits play others. 1 where no seed
/// is set, and where everything is taken.
[[nodiscard]] std::uint64_t first_number();

/// How many of `most` random programs a run plays: all, or where CAIRN_ONE_IN is set so many times fewer, at least
/// one.
[[nodiscard]] std::uint64_t share_of(std::uint64_t most);

/// What is taken of many elements: of each `one_in` that follow one another a single one, and the seed says which. When
/// seeds change each element is taken sooner or later; and as it is not every `one_in`-th, one seed takes bytes at all
/// alignments.
class Sample {
 public:
  explicit Sample(std::uint64_t one_in, std::string_view seed = testing::seed());

  [[nodiscard]] bool takes(std::uint64_t index) const;

 private:
  std::uint64_t one_in_;
  std::uint64_t number_;  ///< Of the seed.
};

/// Of calls that a test has fail, or be attacked, each in a scene of its own: one in three, and in four where a
/// sanitizer watches, which takes many times as long. `tests/run --long faults` takes all of them.
[[nodiscard]] Sample sample_of_calls();

}  // namespace cairn::testing
