// SPDX-License-Identifier: Apache-2.0
// Trees whose arrays are divided: among ranks, and by policies among files.

#include "handlers/sharded_tree.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/array/sharded_array.hpp"
#include "cairn/array/stored_slices.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/sharding/policy.hpp"
#include "cairn/sharding/shards.hpp"

#include "formats/internal/safetensors.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::columns_of;
using testing::counted;
using testing::data_files;
using testing::divided;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::rows_of;
using testing::ShardedTreeTest;

TEST_F(ShardedTreeTest, LoadsAsWholeArrays) {
  const ShardedArray rows = divided(whole_, rows_of(4));
  save(Tree{{"w", rows}, {"plain", whole_}, {"step", 3}});

  const Tree loaded = load<Tree>();

  EXPECT_EQ(loaded, (Tree{{"w", whole_}, {"plain", whole_}, {"step", 3}}));
}

TEST_F(ShardedTreeTest, HasAFileForEachBoxOfAnArrayWhichOthersReadWhole) {
  const Tree whole = {{"w", whole_}, {"x", whole_}, {"plain", whole_}};
  const SaveResult result =
      start(
          Tree{{"w", divided(whole_, rows_of(3))}, {"x", divided(whole_, columns_of(2))}, {"plain", whole_}})
          .wait();

  EXPECT_EQ(data_files(item_metadata()).size(), 3u);
  EXPECT_THAT(result.problems, ::testing::IsEmpty());
  EXPECT_EQ(load_from<Tree>(without_index(), "state"), whole);
}

TEST_F(ShardedTreeTest, LiesInOneMarkedFileWhereAnArrayHasVeryManyBoxes) {
  const Array many = counted({17, 2});
  const Array most = counted({16, 2});
  const SaveResult result =
      start(Tree{{"w", divided(many, rows_of(17))}, {"x", divided(most, rows_of(16))}}).wait();

  EXPECT_EQ(data_files(item_metadata()).size(), 16u);
  EXPECT_THAT(result.problems, ElementsAre(AllOf(HasSubstr("torch refuses"), HasSubstr("arrays: 1"))));
  EXPECT_EQ(load<Tree>(), (Tree{{"w", many}, {"x", most}}));
  EXPECT_THAT([&] { static_cast<void>(load_from<Tree>(without_index(), "state")); },
              Fails(Errc::malformed_metadata, HasSubstr("'w~s1': is missing from DCP_SHARDING_INFO")));
}

TEST_F(ShardedTreeTest, SaysOnceInAProblemHowManyArraysAPolicyHasMarked) {
  const Array large = counted({7, 11, 13});
  const Tree tree = {{"a", large}, {"b", large.clone()}, {"small", counted({3})}};
  const SaveResult result = core::start_save(path(), Checkpointables{{"item", tree}, {"other", tree}},
                                             handlers_, with(std::make_shared<MaxShardSize>(1000)), context_)
                                .wait();

  EXPECT_THAT(result.problems, ElementsAre(AllOf(HasSubstr("torch refuses"), HasSubstr("arrays: 4"))));
  EXPECT_THAT([&] { static_cast<void>(load_from<Tree>(without_index(), "state")); },
              Fails(Errc::malformed_metadata, HasSubstr("is missing from DCP_SHARDING_INFO")));
}

TEST_F(ShardedTreeTest, IsReadByOthersInFilesOfAtMostSoManyBytes) {
  const Array large = counted({7, 11, 13});
  const Tree whole = {{"a", large}, {"b", large}, {"small", counted({3})}, {"sharded", large}};
  const SaveResult result = start(Tree{{"a", large},
                                       {"b", large.clone()},
                                       {"small", counted({3})},
                                       {"sharded", divided(large, columns_of(4))}},
                                  with(std::make_shared<MaxFileSize>(1000)))
                                .wait();

  EXPECT_THAT(result.problems, ::testing::IsEmpty());
  EXPECT_EQ(load_from<Tree>(without_index(), "state"), whole);
  EXPECT_EQ(load<Tree>(), whole);
}

TEST_F(ShardedTreeTest, LoadsInAnyBoxes) {
  save(Tree{{"w", divided(whole_, rows_of(4))}, {"plain", whole_}});
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["w"].shard(columns_of(3), 1);
  wanted["plain"].shard(columns_of(3), 2);

  const Tree loaded = load<Tree>(wanting(wanted));

  const ShardedArray& w = *loaded.at("w").sharded_array_if();
  ASSERT_EQ(w.shards().size(), 1u);
  EXPECT_EQ(w.shards()[0].box, Box({0, 4}, {7, 4}));
  EXPECT_EQ(w.shards()[0].data, whole_.part(w.shards()[0].box).clone());
  EXPECT_EQ(w.layout()->hash(), columns_of(3).hash());
  EXPECT_EQ(loaded.at("plain").as<ShardedArray>().shards()[0].box, Box({0, 8}, {7, 2}));
}

TEST_F(ShardedTreeTest, IsSavedAsItWasLoaded) {
  save(Tree{{"w", divided(whole_, rows_of(4))}});
  AbstractTree wanted;
  wanted["w"] = AbstractShardedArray(divided(whole_, columns_of(5)));
  const Tree loaded = load<Tree>(wanting(wanted));
  SaveOptions options;
  options.overwrite = true;

  save(loaded, options);

  EXPECT_EQ(load<Tree>(), (Tree{{"w", whole_}}));
}

TEST_F(ShardedTreeTest, PlacesBoxesInMemoryOfTheCaller) {
  save(Tree{{"w", divided(whole_, rows_of(4))}});
  std::vector<double> column(7);
  AbstractTree wanted = metadata<AbstractTree>();
  AbstractShardedArray boxes({7, 10}, DType::int32);
  boxes.place_into(Box({0, 3}, {7, 1}), MutableArrayView(column.data(), {7, 1}, DType::float64));
  wanted["w"] = boxes;

  static_cast<void>(load<Tree>(wanting(wanted)));

  EXPECT_THAT(column, ElementsAre(3, 13, 23, 33, 43, 53, 63));
}

TEST_F(ShardedTreeTest, MayHaveThousandsOfShards) {
  const Array tall = counted({3000, 2});
  std::vector<Shard> shards;
  for (std::uint64_t row = 0; row < 3000; ++row) {
    const Box box({row, 0}, {1, 2});
    shards.push_back({box, tall.part(box)});
  }
  save(Tree{{"w", ShardedArray({3000, 2}, DType::int32, std::move(shards))}});

  EXPECT_EQ(load<Tree>(), (Tree{{"w", tall}}));
  const std::string file = testing::read_text(item("data-r00000-000.safetensors"));
  const auto header =
      formats::parse_safetensors(std::as_bytes(std::span(file)), file.size(), "the file, for other readers");
  EXPECT_EQ(header.tensors.size(), 3000u);
}

TEST_F(ShardedTreeTest, IsToldByMetadata) {
  save(Tree{{"w", divided(whole_, rows_of(4))}, {"plain", whole_}});

  AbstractTree stored = metadata<AbstractTree>();

  const AbstractArray& w = stored["w"].as_array();
  ASSERT_NE(w.stored, nullptr);
  ASSERT_EQ(w.stored->size(), 4u);
  EXPECT_EQ(w.stored->box(3), Box({6, 0}, {1, 10}));
  EXPECT_EQ(Sharding::from_json(w.stored->layout(), "w"), rows_of(4));
  EXPECT_THAT([&] { static_cast<void>(w.stored->box(4)); }, Fails(Errc::invalid_argument, HasSubstr("'w'")));
  EXPECT_EQ(stored["plain"].as_array().stored, nullptr);
  EXPECT_EQ(stored.arrays().size(), 2u);
}

TEST_F(ShardedTreeTest, WritesReplicasOnce) {
  const Array large = counted({512, 1024});

  save(Tree{{"w", divided(large, Sharding::replicated(4))}});

  EXPECT_LT(item_metadata().bytes, large.byte_count() + (64 << 10));
  EXPECT_EQ(load<Tree>().at("w").as<Array>(), large);
}

TEST_F(ShardedTreeTest, RefusesAReplicaThatIsThereTwice) {
  const Box box = Box::whole(whole_.shape());

  EXPECT_THAT(
      [&] {
        save(Tree{{"w", ShardedArray({7, 10}, DType::int32, {{box, whole_}, {box, whole_}})}});
      },
      Fails(Errc::invalid_argument, AllOf(HasSubstr("'w'"), HasSubstr("replica 0"))));
}

TEST_F(ShardedTreeTest, RefusesShardsThatLeaveAGap) {
  const Box upper({0, 0}, {5, 10});

  EXPECT_THAT(
      [&] {
        save(Tree{{"w", ShardedArray({7, 10}, DType::int32, {{upper, whole_.part(upper)}})}});
      },
      Fails(Errc::incomplete_shards, HasSubstr("'w': 50 of the 70 elements of [0:7, 0:10] are there; [5:7, "
                                               "0:10] is not; next to it: [0:5, 0:10] of rank 0")));
  EXPECT_THAT(
      [&] {
        save(Tree{{"w", ShardedArray({7, 10}, DType::int32)}});
      },
      Fails(Errc::incomplete_shards, HasSubstr("'w'")));
}

TEST_F(ShardedTreeTest, RefusesShardsThatOverlap) {
  const Box upper({0, 0}, {5, 10});
  const Box lower({4, 0}, {3, 10});

  EXPECT_THAT(
      [&] {
        save(Tree{{"w", ShardedArray({7, 10}, DType::int32,
                                     {{upper, whole_.part(upper)}, {lower, whole_.part(lower)}})}});
      },
      Fails(Errc::overlapping_shards,
            AllOf(HasSubstr("'w'"), HasSubstr("[0:5, 0:10]"), HasSubstr("[4:7, 0:10]"))));
}

TEST_F(ShardedTreeTest, KeepsArraysOfNoElementsAndScalars) {
  const Array scalar = counted({});
  save(Tree{{"none", ShardedArray({0, 4}, DType::float16)},
            {"scalar", divided(scalar, Sharding::replicated(2))},
            {"few", divided(counted({2, 3}), rows_of(4))}});

  const Tree loaded = load<Tree>();

  EXPECT_EQ(loaded.at("none").as<Array>(), Array({0, 4}, DType::float16));
  EXPECT_EQ(loaded.at("scalar").as<Array>(), scalar);
  EXPECT_EQ(loaded.at("few").as<Array>(), counted({2, 3}));
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["none"].shard(rows_of(4), 1);
  wanted["scalar"].shard(Sharding::replicated(2), 1);
  wanted["few"].shard(rows_of(4), 3);
  const Tree again = load<Tree>(wanting(wanted));
  EXPECT_EQ(again.at("scalar").as<ShardedArray>().shards()[0].data, scalar);
  for (const Shard& shard : again.at("few").as<ShardedArray>().shards()) {
    EXPECT_EQ(shard.data.element_count(), 0u);
  }
}

TEST_F(ShardedTreeTest, IsStoredInTheDtypeOfTheOptions) {
  const Array floats = Array::zeros({4, 4}, DType::float32);
  SaveOptions options;
  options.handler_options.set(ArrayOptions(DType::bfloat16, Narrowing::allowed));

  save(Tree{{"w", divided(floats, rows_of(2))}}, options);

  EXPECT_EQ(metadata<AbstractTree>()["w"].as_array().dtype, DType::bfloat16);
}

TEST_F(ShardedTreeTest, IsCopiedBorrowedAndShared) {
  for (const Snapshot snapshot : {Snapshot::copy, Snapshot::borrow, Snapshot::share}) {
    SaveOptions options;
    options.overwrite = true;
    options.snapshot = snapshot;
    const Array large = counted({300, 1000});
    save(Tree{{"w", divided(large, columns_of(3))}}, options);
    EXPECT_EQ(load<Tree>().at("w").as<Array>(), large);
  }
  std::vector<std::int32_t> borrowed(70);
  SaveOptions options;
  options.overwrite = true;
  options.snapshot = Snapshot::share;
  const ShardedArray array({70}, DType::int32, {{Box({0}, {70}), borrowed}});
  EXPECT_THAT([&] { save(Tree{{"w", array}}, options); }, Fails(Errc::invalid_argument, HasSubstr("'w'")));
}

TEST_F(ShardedTreeTest, RefusesBoxesOfAnArrayOfAnotherShape) {
  save(Tree{{"w", whole_}});
  AbstractTree wanted;
  wanted["w"] = AbstractShardedArray({8, 10}, DType::int32);

  EXPECT_THAT([&] { static_cast<void>(load<Tree>(wanting(wanted))); },
              Fails(Errc::shape_mismatch, HasSubstr("'w'")));
}

TEST_F(ShardedTreeTest, RefusesBoxesOfWhatIsNoArray) {
  save(Tree{{"w", 1}});
  AbstractTree wanted;
  wanted["w"] = AbstractShardedArray({8, 10}, DType::int32);

  EXPECT_THAT([&] { static_cast<void>(load<Tree>(wanting(wanted))); },
              Fails(Errc::type_mismatch, AllOf(HasSubstr("'w'"), HasSubstr("sharded array"))));
}

TEST_F(ShardedTreeTest, RefusesToLoadItsShardsOverEachOther) {
  save(Tree{{"w", divided(whole_, rows_of(2))}, {"v", whole_}});
  const Array memory = Array::zeros({7, 10}, DType::int32);
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["v"].place_into(memory);
  AbstractShardedArray rows({7, 10}, DType::int32);
  rows.place_into(Box({2, 0}, {1, 10}), memory.part(Box({2, 0}, {1, 10})));
  wanted["w"] = rows;

  EXPECT_THAT([&] { static_cast<void>(load<Tree>(wanting(wanted))); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("'v'"), HasSubstr("'w' [2:3, 0:10]"))));
}

// Every kind of sharding in and out, against the whole array.

std::vector<Sharding> shardings_of(const Shape& shape, std::mt19937& random) {
  const auto below = [&random](std::uint32_t end) {
    return std::uniform_int_distribution<std::uint32_t>(0, end - 1)(random);
  };
  const std::uint32_t ranks = 1 + below(9);
  std::vector<Sharding> shardings = {Sharding::replicated(ranks)};
  const Mesh mesh({1 + below(3), 2 + below(2)}, {"x", "y"});
  std::vector<std::vector<std::string>> spec(shape.size());
  for (const char* axis : {"x", "y"}) {
    if (!shape.empty() && below(4) > 0) {
      spec[below(static_cast<std::uint32_t>(shape.size()))].push_back(axis);
    }
  }
  shardings.push_back(Sharding::of_spec(mesh, spec));
  std::vector<Placement> placements;
  for (int axis = 0; axis < 2; ++axis) {
    const bool is_cut = !shape.empty() && below(4) > 0;
    placements.push_back(is_cut
                             ? Placement::shard(below(static_cast<std::uint32_t>(shape.size())), 1 + below(2))
                             : Placement::replicate());
  }
  shardings.push_back(Sharding::of_placements(mesh, placements));
  shardings.push_back(shardings[1 + below(2)].as_boxes(shape));
  return shardings;
}

TEST_F(ShardedTreeTest, ComesBackInAnySharding) {
  constexpr std::uint64_t kExtents[] = {1, 2, 3, 5, 7, 11, 13, 4, 6, 0};
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Shape shape(seed % 6, 0);
    for (std::uint64_t& extent : shape) {
      extent = kExtents[std::uniform_int_distribution<std::size_t>(0, seed % 8 == 0 ? 9 : 8)(random)];
    }
    const Array whole = counted(shape);
    Tree tree;
    for (const Sharding& in : shardings_of(shape, random)) {
      tree[std::to_string(tree.size())] = divided(whole, in);
    }
    SaveOptions options;
    if (seed % 3 == 0) {
      options = with(std::make_shared<MaxShardSize>(256));
    } else if (seed % 3 == 1) {
      options = with(std::make_shared<Tiles>(64));
    }
    options.overwrite = true;
    save(tree, options);

    AbstractTree wanted = metadata<AbstractTree>();
    std::vector<Sharding> outs = shardings_of(shape, random);
    std::vector<std::uint32_t> readers;
    for (std::size_t i = 0; i < tree.size(); ++i) {
      const Sharding& out = outs[(i + seed) % outs.size()];
      readers.push_back(std::uniform_int_distribution<std::uint32_t>(0, out.ranks() - 1)(random));
      wanted[std::to_string(i)].shard(out, readers.back());
    }
    const Tree loaded = load<Tree>(wanting(wanted));

    for (std::size_t i = 0; i < tree.size(); ++i) {
      const auto array = loaded.get<ShardedArray>(std::to_string(i));
      const auto boxes = outs[(i + seed) % outs.size()].boxes(readers[i], shape);
      ASSERT_EQ(array.shards().size(), boxes.size());
      for (std::size_t b = 0; b < boxes.size(); ++b) {
        ASSERT_EQ(array.shards()[b].box, boxes[b].box);
        ASSERT_EQ(array.shards()[b].data, whole.part(boxes[b].box).clone()) << shape << boxes[b].box;
      }
    }
  }
}

}  // namespace
}  // namespace cairn
