// SPDX-License-Identifier: Apache-2.0
// What Megatron-Core's own tests check of layouts, with their numbers: docs in README.md of this folder.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/megatron/factory.hpp"
#include "cairn/megatron/sharded_tensor.hpp"

#include "memory_checkpoint.hpp"
#include "support/fails.hpp"

namespace cairn::megatron {
namespace {

using testing::counted;
using testing::cut;
using testing::Fails;
using testing::flat;
using testing::MemoryCheckpoint;
using testing::numbers;

/// A rank's place, with tensor parallelism fastest, then data, then pipeline.
struct Place {
  std::uint32_t tp = 0;
  std::uint32_t dp = 0;
  std::uint32_t pp = 0;
};

struct Layout {
  std::uint32_t tp = 1;
  std::uint32_t pp = 1;
  std::uint32_t dp = 1;

  [[nodiscard]] std::vector<Place> places() const {
    std::vector<Place> all;
    for (std::uint32_t rank = 0; rank < tp * pp * dp; ++rank) {
      all.push_back({rank % tp, rank / tp % dp, rank / tp / dp});
    }
    return all;
  }
};

/// The elements of a part that a rank of data parallelism has, as Megatron's test cuts it.
FlatRange range_of(std::uint64_t elements, std::uint32_t dp, std::uint32_t of) {
  const std::uint64_t block = elements / of;
  const auto begin = [&](std::uint64_t number) { return block * number + number; };
  return {begin(dp), dp + 1 < of ? begin(dp + 1) : elements};
}

/// The array [8, 5, 40], cut over axis 0 by TP and over axis 2 by PP, whole ("unflat") and flattened ("flat").
StateDict flattened_state(const Layout& layout, const Place& place, std::int32_t first) {
  const Array global = counted({8, 5, 40}, first);
  const Shape extents = {8 / layout.tp, 5, 40 / layout.pp};
  const Array local = cut(global, Box({place.tp * extents[0], 0, place.pp * extents[2]}, extents));
  const std::vector<RankOffset> offsets = {{0, place.tp, layout.tp}, {2, place.pp, layout.pp}};
  const FlatRange range = range_of(local.element_count(), place.dp, layout.dp);
  return {
      {"unflat", ShardedTensor::from_rank_offsets("unflat", local, offsets, {place.dp, 0, false})},
      {"flat", ShardedTensor::from_rank_offsets_flat(
                   "flat", cut(flat(local), Box({range.begin}, {range.size()})), extents, offsets, range)}};
}

std::vector<StateDict> flattened_states(const Layout& layout, std::int32_t first = 0) {
  std::vector<StateDict> states;
  for (const Place& place : layout.places()) {
    states.push_back(flattened_state(layout, place, first));
  }
  return states;
}

TEST(FlattenedLayouts, CutTheRangesOfMegatronsTest) {
  const auto ranges = [](const Layout& layout) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
    for (const Place& place : layout.places()) {
      if (place.tp == 0 && place.pp == 0) {
        const StateDict state = flattened_state(layout, place, 0);
        const FlatRange range = *state.at("flat").leaf_if<ShardedTensor>()->flattened_range;
        all.emplace_back(range.begin, range.end);
      }
    }
    return all;
  };
  using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

  EXPECT_EQ(ranges({2, 4, 1}), (Ranges{{0, 200}}));
  EXPECT_EQ(ranges({2, 2, 2}), (Ranges{{0, 201}, {201, 400}}));
  EXPECT_EQ(ranges({4, 2, 1}), (Ranges{{0, 200}}));
  EXPECT_EQ(ranges({8, 1, 1}), (Ranges{{0, 200}}));
  EXPECT_EQ(ranges({1, 2, 4}), (Ranges{{0, 201}, {201, 402}, {402, 603}, {603, 800}}));
  EXPECT_EQ(ranges({1, 1, 8}).at(6), (std::pair<std::uint64_t, std::uint64_t>{1206, 1407}));
  EXPECT_EQ(ranges({1, 1, 8}).at(7), (std::pair<std::uint64_t, std::uint64_t>{1407, 1600}));
  EXPECT_EQ(ranges({1, 4, 2}), (Ranges{{0, 201}, {201, 400}}));
}

TEST(FlattenedLayouts, LoadInEachOther) {
  const Layout layouts[] = {{2, 4, 1}, {2, 2, 2}, {4, 2, 1}, {8, 1, 1}, {1, 2, 4}, {1, 1, 8}, {1, 4, 2}};
  for (const Layout& from : layouts) {
    const MemoryCheckpoint checkpoint(flattened_states(from));
    ASSERT_EQ(checkpoint.tensors.at("flat"), counted({8, 5, 40}));
    ASSERT_EQ(checkpoint.tensors.at("unflat"), counted({8, 5, 40}));
    for (const Layout& to : layouts) {
      for (const Place& place : to.places()) {
        const StateDict right = flattened_state(to, place, 0);

        const Tree loaded = checkpoint.load(flattened_state(to, place, 5000));

        for (const char* key : {"flat", "unflat"}) {
          ASSERT_EQ(loaded[key].as<Array>(), *right.at(key).leaf_if<ShardedTensor>()->data)
              << key << " of TP " << from.tp << " PP " << from.pp << " to TP " << to.tp << " PP " << to.pp;
        }
      }
    }
  }
}

TEST(FlattenedLayouts, MustCoverEachPart) {
  // Chunk 0 of [6, 6] is held by three ranks, with 1, 2 and 3 elements; the others are whole.
  std::vector<StateDict> ranks(8);
  const std::uint64_t starts[] = {0, 1, 3};
  for (std::uint64_t rank = 0; rank < 8; ++rank) {
    const std::uint64_t chunk = rank < 3 ? 0 : rank - 2;
    const FlatRange range = rank < 3 ? FlatRange{starts[rank], starts[rank] + rank + 1} : FlatRange{0, 6};
    ranks[rank]["w"] =
        ShardedTensor::from_rank_offsets_flat("w", counted({range.size()}), {1, 6}, {{0, chunk, 6}}, range);
  }
  const auto without = [&ranks](std::size_t rank) {
    return [left = ranks, rank] {
      std::vector<StateDict> others = left;
      others[rank] = StateDict();
      return MemoryCheckpoint(others);
    };
  };

  EXPECT_NO_THROW(MemoryCheckpoint{ranks});
  EXPECT_THAT(without(1), Fails(Errc::incomplete_shards));
  EXPECT_THAT(without(4), Fails(Errc::incomplete_shards));
}

TEST(FlattenedLayouts, AreThoseOfTheGuide) {
  const Array global = numbers({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}).reshaped({2, 6});
  const auto state = [](std::uint32_t tp, std::uint32_t of_tp, std::uint32_t dp, std::uint32_t of_dp,
                        Array data) {
    const std::uint64_t elements = 12 / of_tp / of_dp;
    return StateDict{
        {"w", ShardedTensor::from_rank_offsets_flat("w", std::move(data), {2, 6 / of_tp}, {{1, tp, of_tp}},
                                                    {dp * elements, (dp + 1) * elements})}};
  };
  const std::vector<StateDict> ranks = {
      state(0, 2, 0, 3, numbers({0, 1})), state(1, 2, 0, 3, numbers({3, 4})),
      state(0, 2, 1, 3, numbers({2, 6})), state(1, 2, 1, 3, numbers({5, 9})),
      state(0, 2, 2, 3, numbers({7, 8})), state(1, 2, 2, 3, numbers({10, 11}))};

  const MemoryCheckpoint checkpoint(ranks);

  EXPECT_EQ(checkpoint.tensors.at("w"), global);
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    const auto first = static_cast<std::int32_t>(rank);
    EXPECT_EQ(checkpoint.load(state(rank, 6, 0, 1, counted({2})))["w"].as<Array>(),
              numbers({first, first + 6}));
  }
}

/// Uneven parts along one axis: those of each rank, by size. Each element is the number of its rank.
using UnevenParts = std::vector<std::vector<std::uint64_t>>;

StateDict uneven_state(const UnevenParts& parts, std::size_t rank, bool is_filled) {
  std::uint64_t total = 0;
  std::uint64_t offset = 0;
  for (std::size_t other = 0; other < parts.size(); ++other) {
    for (const std::uint64_t size : parts[other]) {
      total += size;
      offset += other < rank ? size : 0;
    }
  }
  StateDict::List tensors;
  for (const std::uint64_t size : parts[rank]) {
    Array data = Array::zeros({size}, DType::int32);
    for (std::uint64_t i = 0; is_filled && i < size; ++i) {
      data.data<std::int32_t>()[i] = static_cast<std::int32_t>(offset + i);
    }
    tensors.emplace_back(ShardedTensor{"uneven", data, DType::int32, {size}, {total}, {offset}});
    offset += size;
  }
  return {{"parts", StateDict::list(std::move(tensors))}};
}

TEST(UnevenParts, LoadInEachOther) {
  const auto one_each = [](const std::vector<std::uint64_t>& sizes) {
    UnevenParts parts;
    for (const std::uint64_t size : sizes) {
      parts.push_back({size});
    }
    return parts;
  };
  const UnevenParts several = {{4}, {7, 8}, {1}, {1}, {1}, {1}, {1}, {3, 3}};
  const std::pair<UnevenParts, UnevenParts> cases[] = {
      {one_each({3, 3, 3, 3, 3, 3, 3, 3}), one_each({3, 3, 3, 3, 3, 3, 3, 3})},
      {one_each({1, 2, 3, 4, 5, 6, 7, 8}), one_each({1, 2, 3, 4, 5, 6, 7, 8})},
      {one_each({1, 5, 7, 3, 6, 2, 5, 4}), one_each({1, 5, 7, 3, 6, 2, 5, 4})},
      {one_each({2, 2, 2, 2, 2, 2, 2, 1}), one_each({2, 2, 2, 2, 2, 2, 2, 1})},
      {one_each({2, 2, 2, 2, 2, 2, 2, 10}), one_each({2, 2, 2, 2, 2, 2, 2, 10})},
      {one_each({3, 3, 3, 3, 3, 3, 3, 3}), one_each({1, 1, 1, 1, 1, 1, 2, 16})},
      {one_each({1, 5, 7, 3, 6, 2, 5, 4}), one_each({14, 3, 6, 3, 1, 1, 2, 3})},
      {one_each({5, 5, 5, 5, 5, 5, 0, 0}), one_each({5, 0, 5, 0, 5, 5, 3, 7})},
      {one_each({15, 0, 0, 0, 0, 0, 0, 0}), one_each({0, 0, 0, 3, 3, 3, 3, 3})},
      {UnevenParts(8, {3}), UnevenParts(8, {3})},
      {{{}, {}, {}, {}, {}, {}, {}, {3, 3}}, {{}, {}, {}, {}, {}, {}, {}, {3, 3}}},
      {several, several},
      {{{2}, {2}, {2}, {2}, {2}, {10}, {10}, {10}}, {{10}, {10}, {10}, {2}, {2}, {2}, {2}, {2}}},
      {several, {{2, 4}, {}, {5}, {}, {5, 9}, {}, {1, 1, 1, 1, 1}, {}}},
      {UnevenParts(8, {3}), {{2, 4}, {2, 4}, {2, 4}, {2, 4}, {}, {}, {}, {}}},
  };
  for (const auto& [from, to] : cases) {
    std::vector<StateDict> ranks;
    for (std::size_t rank = 0; rank < from.size(); ++rank) {
      ranks.push_back(uneven_state(from, rank, true));
    }
    const MemoryCheckpoint checkpoint(ranks);
    for (std::size_t rank = 0; rank < to.size(); ++rank) {
      const Tree loaded = checkpoint.load(uneven_state(to, rank, false));

      const StateDict right = uneven_state(to, rank, true);
      for (std::size_t i = 0; i < to[rank].size(); ++i) {
        ASSERT_EQ(loaded["parts"][i].as<Array>(), *right.at("parts")[i].leaf_if<ShardedTensor>()->data);
      }
    }
  }
}

TEST(Partitions, ChangeBetweenASaveAndALoad) {
  // TP 2, PP 4: ten_a [[0, 1, 2, 3], [10, 11, 12, 13]]; ten_b [4, 5, 80] with 100 x + z.
  std::vector<StateDict> ranks;
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    const std::uint32_t tp = rank % 2;
    const std::uint32_t pp = rank / 2;
    const auto b_first = static_cast<std::int32_t>(10 * rank);
    Array b({4, 5, 10}, DType::int32);
    for (std::size_t i = 0; i < 200; ++i) {
      b.data<std::int32_t>()[i] = static_cast<std::int32_t>(100 * (i / 50) + i % 10) + b_first;
    }
    ranks.push_back({{"a", ShardedTensor::from_rank_offsets(
                               "ten_a", numbers({static_cast<std::int32_t>(10 * tp + pp)}).reshaped({1, 1}),
                               {{0, tp, 2}, {1, pp, 4}})},
                     {"b", ShardedTensor::from_rank_offsets("ten_b", b, {{2, rank, 8}})}});
  }
  const MemoryCheckpoint checkpoint(ranks);

  for (std::uint32_t rank = 0; rank < 8; ++rank) {  // TP 1, PP 2, DP 4.
    const std::uint32_t dp = rank % 4;
    const auto column = static_cast<std::int32_t>(dp);
    const Tree whole = checkpoint.load(
        {{"a", ShardedTensor::from_rank_offsets("ten_a", counted({2, 4}), {}, {rank, 0, false})},
         {"b", ShardedTensor::from_rank_offsets("ten_b", counted({4, 5, 80}), {}, {rank, 0, false})}});
    const Tree parts =
        checkpoint.load({{"a", ShardedTensor::from_rank_offsets("ten_a", counted({2, 1}), {{1, dp, 4}},
                                                                {rank / 4, 0, false})},
                         {"b", ShardedTensor::from_rank_offsets("ten_b", counted({5, 80}), {{0, rank / 2, 4}},
                                                                {rank % 2, 1, false})}});

    EXPECT_EQ(flat(whole["a"].as<Array>()), numbers({0, 1, 2, 3, 10, 11, 12, 13}));
    EXPECT_EQ(flat(parts["a"].as<Array>()), numbers({column, column + 10}));
    for (std::uint64_t y = 0; y < 5; ++y) {
      EXPECT_EQ(flat(parts["b"].as<Array>().part(Box({y, 0}, {1, 80})).clone()),
                counted({80}, static_cast<std::int32_t>(100 * (rank / 2))));
    }
  }
}

TEST(Loads, BringWhatIsAskedForUnderThePathsOfTheRequest) {
  std::vector<StateDict> ranks;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ranks.push_back(
        {{"sd_keyA", ShardedTensor::from_rank_offsets("keyA", counted({2, 4}), {}, {rank, 0, false})},
         {"sd_keyB", ShardedTensor::from_rank_offsets("keyB", counted({3, 5, 7}), {}, {rank, 0, false})}});
  }

  const Tree loaded = MemoryCheckpoint(ranks).load(
      {{"load_sd_keyA", ShardedTensor::from_rank_offsets("keyA", Array::zeros({2, 4}, DType::int32))}});

  EXPECT_EQ(loaded, (Tree{{"load_sd_keyA", counted({2, 4})}}));
}

TEST(Loads, MixTensorsAndFactoriesInAList) {
  const auto list = [](std::int32_t difference) {
    const ShardedTensorFactory factory{
        "D", counted({5}, difference),
        [](const std::string& key, const Array& data, const ReplicaId&, const auto&) {
          StateDict::List parts;
          for (const char* part : {"part_a", "part_b", "part_c"}) {
            parts.emplace_back(ShardedTensor::from_rank_offsets(key + part, data.clone()));
          }
          return StateDict::list(std::move(parts));
        },
        [](Tree parts) {
          const Array sum = Array::zeros({5}, DType::int32);
          for (std::size_t i = 0; i < 15; ++i) {
            sum.data<std::int32_t>()[i % 5] += parts[i / 5].as<Array>().data<const std::int32_t>()[i % 5];
          }
          return sum;
        }};
    return StateDict{
        {"list",
         StateDict::list({ShardedTensor::from_rank_offsets("A", counted({2}, difference)),
                          ShardedTensor::from_rank_offsets("B", counted({3}, difference)),
                          ShardedTensor::from_rank_offsets("C", counted({4}, difference)), factory})}};
  };

  const Tree loaded = MemoryCheckpoint::of(list(0)).load(list(10));

  EXPECT_EQ(loaded["list"], Tree::list({Tree(counted({2})), Tree(counted({3})), Tree(counted({4})),
                                        Tree(numbers({0, 3, 6, 9, 12}))}));
}

TEST(Loads, TakeObjectsByTheirKeys) {
  const Tree payload = Bytes{std::byte{1}, std::byte{2}};
  const MemoryCheckpoint checkpoint =
      MemoryCheckpoint::of({{"some_key", ShardedObject{"sh_obj_A", payload}}});

  const Tree loaded = checkpoint.load({{"other_key", ShardedObject{"sh_obj_A", Tree("replaced")}}});

  EXPECT_EQ(loaded, (Tree{{"other_key", payload}}));
}

TEST(Loads, OfRanksThatAskForNothingBringThePlainValuesOfRank0) {
  std::vector<StateDict> ranks(6);
  ranks[0]["common"] = "common-value";
  ranks[1]["a"] = 3;
  ranks[2]["b"] = 3;
  for (std::uint32_t rank = 3; rank < 6; ++rank) {
    const auto value = static_cast<std::int32_t>(rank);
    ranks[rank]["x"] =
        ShardedTensor::from_rank_offsets("x", numbers({value, value}), {}, {rank - 3, 0, false});
  }

  const MemoryCheckpoint checkpoint(ranks);

  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(checkpoint.load(ranks[rank]), (Tree{{"common", "common-value"}}));
  }
  for (std::uint32_t rank = 3; rank < 6; ++rank) {
    EXPECT_EQ(checkpoint.load(ranks[rank]), (Tree{{"common", "common-value"}, {"x", numbers({3, 3})}}));
  }
}

}  // namespace
}  // namespace cairn::megatron
