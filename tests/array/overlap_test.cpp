// SPDX-License-Identifier: Apache-2.0
#include "array/internal/overlap.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/fails.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::Not;

ArrayView view_of(const std::vector<float>& memory, Shape shape, Strides strides, std::size_t first = 0) {
  for (std::int64_t& stride : strides) {
    stride *= 4;
  }
  return {memory.data() + first, std::move(shape), DType::float32, std::move(strides)};
}

TEST(CheckDisjoint, AcceptsArraysSideBySide) {
  const std::vector<float> memory(8);

  const std::vector<Destination> arrays = {{"a", view_of(memory, {4}, {1}, 4)},
                                           {"b", view_of(memory, {4}, {1})},
                                           {"none", view_of(memory, {0}, {1})}};

  EXPECT_NO_THROW(check_disjoint(arrays));
}

TEST(CheckDisjoint, NamesTwoThatShareAByte) {
  const std::vector<float> memory(8);
  const std::vector<Destination> arrays = {{"'a'", view_of(memory, {4}, {1}, 3)},
                                           {"'b'", view_of(memory, {1}, {1}, 7)},
                                           {"'c'", view_of(memory, {4}, {1})}};

  EXPECT_THAT([&] { check_disjoint(arrays); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("'c' and 'a' "), Not(HasSubstr("'b'")))));
}

TEST(CheckDisjoint, AcceptsTheVerySameMemoryOfOneOrigin) {
  const std::vector<float> memory(8);
  const ArrayView view = view_of(memory, {2, 2}, {4, 1});
  std::vector<Destination> arrays = {
      {"'a'", view, 1}, {"'b'", view, 1}, {"'c'", view_of(memory, {2}, {1}, 2), 2}};
  EXPECT_NO_THROW(check_disjoint(arrays));

  arrays[1].origin = 2;
  EXPECT_THAT([&] { check_disjoint(arrays); }, Fails(Errc::invalid_argument, HasSubstr("overlap")));
  arrays[1] = {"'b'", view_of(memory, {2, 2}, {1, 4}), 1};
  EXPECT_THAT([&] { check_disjoint(arrays); }, Fails(Errc::invalid_argument, HasSubstr("overlap")));
  arrays[0].origin = arrays[1].origin = 0;
  arrays[1].view = view;
  EXPECT_THAT([&] { check_disjoint(arrays); }, Fails(Errc::invalid_argument, HasSubstr("overlap")));
}

TEST(CheckDisjoint, RefusesAStrideOfZero) {
  const std::vector<float> memory(8);
  const std::vector<Destination> arrays = {{"'w'", view_of(memory, {2, 4}, {0, 1})}};

  EXPECT_THAT([&] { check_disjoint(arrays); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("'w'"), HasSubstr("strides [0, 4]"))));
}

TEST(CheckDisjoint, RefusesWindowsThatSlideOverOneArray) {
  const std::vector<float> memory(8);

  EXPECT_THAT(
      [&] {
        check_disjoint(std::vector<Destination>{{"w", view_of(memory, {4, 3}, {1, 1})}});
      },
      Fails(Errc::invalid_argument));
  check_disjoint(std::vector<Destination>{{"one", view_of(memory, {1, 3}, {0, 1})}});
}

TEST(CheckDisjoint, AcceptsColumnsThatInterleave) {
  const std::vector<float> memory(12);
  std::vector<Destination> columns;
  for (std::size_t i = 0; i < 4; ++i) {
    columns.emplace_back(std::to_string(i), view_of(memory, {3}, {4}, i));
  }

  check_disjoint(columns);

  columns.emplace_back("row", view_of(memory, {4}, {1}, 4));
  EXPECT_THAT([&] { check_disjoint(columns); }, Fails(Errc::invalid_argument, HasSubstr("row")));
}

TEST(CheckDisjoint, TakesComponentsOfALargeField) {
  const std::vector<float> memory(std::size_t{1000} * 1100 * 2 * 3);
  std::vector<Destination> components;
  for (std::size_t i = 0; i < 3; ++i) {
    components.emplace_back(std::to_string(i), view_of(memory, {1000, 1100, 2}, {6600, 6, 3}, i));
  }

  EXPECT_NO_THROW(check_disjoint(components));

  components.emplace_back("again", view_of(memory, {1000, 1100, 2}, {6600, 6, 3}, 1));
  EXPECT_THAT([&] { check_disjoint(components); }, Fails(Errc::invalid_argument, HasSubstr("again")));
}

TEST(CheckDisjoint, KnowsPackedTypesAndDevices) {
  const std::vector<std::uint8_t> memory(8);
  const ArrayView packed(memory.data(), {16}, DType::float4);
  const ArrayView elsewhere(memory.data(), {16}, DType::float4, Device{Device::Kind::cuda, 1});

  check_disjoint(std::vector<Destination>{{"a", packed}, {"b", elsewhere}});
  EXPECT_THAT(
      [&] {
        check_disjoint(std::vector<Destination>{{"a", packed}, {"b", packed}});
      },
      Fails(Errc::invalid_argument));
}

TEST(CheckDisjoint, SaysWhenItCannotTell) {
  const std::vector<float> memory(std::size_t{16} << 20);
  const std::uint64_t half = memory.size() / 2;
  const std::vector<Destination> arrays = {{"a", view_of(memory, {half}, {2})},
                                           {"b", view_of(memory, {half / 2}, {3}, 1)}};

  EXPECT_THAT([&] { check_disjoint(arrays); },
              Fails(Errc::invalid_argument, HasSubstr("use separate memory")));
}

TEST(CheckDisjoint, TakesManyPartsOfOneArray) {
  const std::vector<float> memory(100'000 * 8);
  std::vector<Destination> parts;
  for (std::size_t i = 0; i < 100'000; ++i) {  // Pairs of them would be five thousand million.
    parts.emplace_back("part", view_of(memory, {4, 2}, {200'000, 1}, 2 * i));
  }

  EXPECT_NO_THROW(check_disjoint(parts));
}

/// A part of an array, cut, turned and mirrored at random.
ArrayView random_part(std::mt19937_64& random, const std::vector<std::byte>& memory) {
  const auto below = [&random](std::uint64_t limit) { return random() % limit; };
  const DType dtype = below(2) == 0 ? DType::uint8 : DType::uint16;
  auto pitch = static_cast<std::int64_t>(bits(dtype) / 8);
  Shape shape(3, 1);
  Strides strides(3, 0);
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto step = static_cast<std::int64_t>(1 + below(3));
    shape[i] = 1 + below(4);
    strides[i] = below(2) == 0 ? pitch * step : -pitch * step;
    const std::int64_t reach = strides[i] * static_cast<std::int64_t>(shape[i] - 1);
    lowest += std::min<std::int64_t>(reach, 0);
    highest += std::max<std::int64_t>(reach, 0);
    pitch *= static_cast<std::int64_t>(step * static_cast<std::int64_t>(shape[i]) +
                                       static_cast<std::int64_t>(below(2)));
  }
  const std::uint64_t size = static_cast<std::uint64_t>(highest - lowest) + 2;
  if (size > memory.size()) {
    return random_part(random, memory);
  }
  const std::size_t turn = below(3);
  std::swap(shape[0], shape[turn]);
  std::swap(strides[0], strides[turn]);
  const std::byte* first = memory.data() + below(memory.size() - size + 1) - lowest;
  return {first, shape, dtype, strides};
}

/// How many times each byte of the memory is an element's.
std::vector<int> uses(const std::vector<std::byte>& memory, const std::vector<Destination>& arrays) {
  std::vector<int> counts(memory.size());
  for (const Destination& array : arrays) {
    const ArrayView& view = array.view;
    for (std::uint64_t i = 0; i < view.shape()[0]; ++i) {
      for (std::uint64_t j = 0; j < view.shape()[1]; ++j) {
        for (std::uint64_t k = 0; k < view.shape()[2]; ++k) {
          const std::int64_t offset = static_cast<std::int64_t>(i) * view.strides()[0] +
                                      static_cast<std::int64_t>(j) * view.strides()[1] +
                                      static_cast<std::int64_t>(k) * view.strides()[2];
          for (unsigned byte = 0; byte < bits(view.dtype()) / 8; ++byte) {
            ++counts[static_cast<std::size_t>(view.data() + offset - memory.data()) + byte];
          }
        }
      }
    }
  }
  return counts;
}

TEST(CheckDisjoint, AgreesWithCountingEveryByte) {
  std::mt19937_64 random(7);  // NOLINT: the same cases in every run.
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    const std::vector<std::byte> memory(40 + random() % 200);
    std::vector<Destination> arrays;
    for (std::size_t i = 1 + random() % 4; i > 0; --i) {
      arrays.emplace_back(std::to_string(i), random_part(random, memory));
    }
    const std::vector<int> counts = uses(memory, arrays);
    const bool overlaps = std::any_of(counts.begin(), counts.end(), [](int count) { return count > 1; });
    if (overlaps) {
      ++refused;
      ASSERT_THAT([&] { check_disjoint(arrays); }, Fails(Errc::invalid_argument)) << round;
    } else {
      ++accepted;
      ASSERT_NO_THROW(check_disjoint(arrays)) << round;
    }
  }
  EXPECT_GT(accepted, 2000);
  EXPECT_GT(refused, 2000);
}

TEST(OverlapsItself, NeverSaysSoWithoutReasonAndFindsMostOfIt) {
  std::mt19937 random(7);
  const std::vector<float> memory(4096);
  int found = 0;
  int missed = 0;
  int none = 0;
  for (int round = 0; round < 20'000; ++round) {
    Shape shape(1 + random() % 3, 1);
    Strides strides(shape.size(), 0);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      shape[d] = 1 + random() % 4;
      strides[d] = static_cast<std::int64_t>(1 + random() % 12) * (random() % 4 == 0 ? -1 : 1);
    }
    std::vector<std::int64_t> places = {2048};
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::vector<std::int64_t> more;
      for (const std::int64_t place : places) {
        for (std::uint64_t i = 0; i < shape[d]; ++i) {
          more.push_back(place + static_cast<std::int64_t>(i) * strides[d]);
        }
      }
      places = std::move(more);
    }
    std::sort(places.begin(), places.end());
    const bool overlaps = std::adjacent_find(places.begin(), places.end()) != places.end();

    const bool says = overlaps_itself(view_of(memory, shape, strides, 2048));

    ASSERT_TRUE(overlaps || !says) << to_string(shape) << to_string(strides);
    found += says ? 1 : 0;
    missed += overlaps && !says ? 1 : 0;
    none += overlaps ? 0 : 1;
  }
  EXPECT_GT(none, 2000);
  EXPECT_GT(found, 3 * missed) << missed;
}

TEST(OverlapsItself, LeavesBroadcastsAlone) {
  const std::vector<float> memory(8);

  EXPECT_FALSE(overlaps_itself(view_of(memory, {100, 8}, {0, 1})));
  EXPECT_FALSE(overlaps_itself(view_of(memory, {2, 0}, {1, 1})));
  EXPECT_FALSE(overlaps_itself(view_of(memory, {2, 4}, {1, 2})));
  EXPECT_TRUE(overlaps_itself(view_of(memory, {3, 6}, {1, 1})));
}

}  // namespace
}  // namespace cairn
