// SPDX-License-Identifier: Apache-2.0
// Arrays that are wanted in another shape than they are stored in.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/array/sharded_array.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/sharding/policy.hpp"
#include "cairn/sharding/shards.hpp"

#include "handlers/store.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::StoreTest;

Array ascending(const Shape& shape) {
  Array array(shape, DType::int32);
  std::int32_t next = 1;
  for (std::int32_t& element : array.data<std::int32_t>()) {
    element = next++;
  }
  return array;
}

/// Element by element: what `stored` has at the coordinates of `box`, zeros where it has none.
Array padded(const Array& stored, const Box& box) {
  Array result(box.extents(), DType::int32);
  const std::span<std::int32_t> out = result.data<std::int32_t>();
  const std::span<const std::int32_t> in = stored.data<std::int32_t>();
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::size_t rest = i;
    std::size_t from = 0;
    std::size_t stride = 1;
    bool is_there = true;
    for (std::size_t axis = box.rank(); axis-- > 0;) {
      const std::size_t at = rest % box.extents()[axis] + box.begin(axis);
      rest /= box.extents()[axis];
      is_there = is_there && at < stored.shape()[axis];
      from += at * stride;
      stride *= stored.shape()[axis];
    }
    out[i] = is_there ? in[from] : 0;
  }
  return result;
}

class PadAndCrop : public StoreTest {
 protected:
  AbstractTree as(const Shape& shape) {
    AbstractTree wanted = metadata<AbstractTree>();
    wanted["w"].as_array().pad_and_crop(shape);
    return wanted;
  }
};

TEST_F(PadAndCrop, GivesRowsThatWereNotThereAsZeros) {
  save(Tree{{"w", ascending({3, 2})}});

  const Tree loaded = load<Tree>({"item", as({4, 2})});

  EXPECT_THAT(loaded.at("w").as<Array>().data<std::int32_t>(), ElementsAre(1, 2, 3, 4, 5, 6, 0, 0));
}

TEST_F(PadAndCrop, CropsOneAxisAndPadsTheOther) {
  save(Tree{{"w", ascending({3, 2})}});

  const Tree loaded = load<Tree>({"item", as({2, 3})});

  EXPECT_THAT(loaded.at("w").as<Array>().data<std::int32_t>(), ElementsAre(1, 2, 0, 3, 4, 0));
}

TEST_F(PadAndCrop, IsAskedForByLeafOrForAll) {
  save(Tree{{"w", ascending({3})}, {"v", ascending({3})}});
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["w"].as_array().shape = {4};
  wanted["v"].as_array().shape = {2};

  EXPECT_THAT(
      [&] {
        load<Tree>({"item", wanted});
      },
      Fails(Errc::shape_mismatch, AllOf(HasSubstr("stored shape [3]"), HasSubstr("wanted [2]"))));
  wanted["v"].as_array().on_mismatch = ShapeMismatch::pad_and_crop;
  EXPECT_THAT([&] { load<Tree>({"item", wanted}); }, Fails(Errc::shape_mismatch, HasSubstr("'w'")));
  TreeLoadOptions all;
  all.on_mismatch = ShapeMismatch::pad_and_crop;
  wanted["v"].as_array().on_mismatch = ShapeMismatch::refuse;
  const Tree loaded = load<Tree>({"item", wanted}, all);
  EXPECT_EQ(loaded.get<std::vector<std::int32_t>>("w"), (std::vector<std::int32_t>{1, 2, 3, 0}));
  EXPECT_EQ(loaded.get<std::vector<std::int32_t>>("v"), (std::vector<std::int32_t>{1, 2}));
}

TEST_F(PadAndCrop, KeepsTheNumberOfAxes) {
  save(Tree{{"w", ascending({3})}});

  EXPECT_THAT(
      [&] {
        load<Tree>({"item", as({3, 1})});
      },
      Fails(Errc::shape_mismatch, AllOf(HasSubstr("'w'"), HasSubstr("[3]"), HasSubstr("[3, 1]"))));
}

TEST_F(PadAndCrop, GoesToMemoryThatHasOtherValues) {
  save(Tree{{"w", ascending({2, 2})}});
  Array memory({3, 3}, DType::float64);
  std::ranges::fill(memory.data<double>(), 7.0);
  AbstractTree wanted = as({3, 3});
  wanted["w"].as_array().place_into(memory);

  static_cast<void>(load<Tree>({"item", wanted}));

  EXPECT_THAT(memory.data<double>(), ElementsAre(1, 2, 0, 3, 4, 0, 0, 0, 0));
}

TEST_F(PadAndCrop, LeavesTheGapsOfStridedMemory) {
  save(Tree{{"w", ascending({2, 2})}});
  Array around({4, 4}, DType::int32);
  std::ranges::fill(around.data<std::int32_t>(), 7);
  AbstractTree wanted = as({3, 3});
  wanted["w"].as_array().place_into(around.mutable_view().part(Box({0, 0}, {3, 3})));

  static_cast<void>(load<Tree>({"item", wanted}));

  EXPECT_THAT(around.data<std::int32_t>(), ElementsAre(1, 2, 0, 7, 3, 4, 0, 7, 0, 0, 0, 7, 7, 7, 7, 7));
}

TEST_F(PadAndCrop, RefusesAShapeThatContradictsWhatElseIsWanted) {
  AbstractArray boxed({4, 4}, DType::int32);
  boxed.want(Box({2, 0}, {2, 4}));
  EXPECT_THAT([&] { boxed.pad_and_crop({3, 4}); }, Fails(Errc::invalid_argument, HasSubstr("[2:4, 0:4]")));
  AbstractArray placed({2}, DType::int32);
  placed.place_into(Array({2}, DType::int32));
  EXPECT_THAT([&] { placed.pad_and_crop({3}); }, Fails(Errc::shape_mismatch, HasSubstr("[3]")));
}

TEST_F(PadAndCrop, RefusesZerosOfPackedTypes) {
  save(Tree{{"w", Array::zeros({8}, DType::float4)}});

  EXPECT_THAT(
      [&] {
        load<Tree>({"item", as({10})});
      },
      Fails(Errc::invalid_argument, AllOf(HasSubstr("'w'"), HasSubstr("beyond the stored shape [8]"))));
  EXPECT_EQ(load<Tree>({"item", as({4})}).at("w"), Tree(Array::zeros({4}, DType::float4)));
}

TEST_F(PadAndCrop, WorksForAnArrayThatIsNoLeaf) {
  save(ascending({3}));
  AbstractArray wanted = metadata<AbstractArray>();
  wanted.pad_and_crop({5});

  EXPECT_EQ(load<Array>({"item", wanted}), padded(ascending({3}), Box::whole({5})));
}

TEST_F(PadAndCrop, IsWhatAnObviousLoopMakes) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&random](std::uint64_t bound) {
      return std::uniform_int_distribution<std::uint64_t>(0, bound - 1)(random);
    };
    Shape stored(seed % 6, 0);
    Shape shape(stored.size(), 0);
    for (std::size_t axis = 0; axis < stored.size(); ++axis) {
      stored[axis] = seed % 10 == 9 ? below(4) : 1 + below(7);
      shape[axis] = seed % 11 == 10 ? below(4) : 1 + below(8);
    }
    const Array whole = ascending(stored);
    SaveOptions options;
    options.overwrite = true;
    if (seed % 2 == 0) {
      options.handler_options.set(ShardingOptions(std::make_shared<Tiles>(4 + below(60))));
    }
    save(Tree{{"w", whole}}, options);

    EXPECT_EQ(load<Tree>({"item", as(shape)}).at("w"), Tree(padded(whole, Box::whole(shape))))
        << stored << shape;

    std::vector<std::vector<std::string>> spec(shape.size());
    if (!shape.empty()) {
      spec[below(shape.size())].push_back("x");
    }
    const Sharding sharding = Sharding::of_spec(Mesh({3}, {"x"}), spec);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      AbstractTree wanted = as(shape);
      wanted["w"].shard(sharding, rank);
      const auto sharded = load<Tree>({"item", wanted}).get<ShardedArray>("w");
      for (const Shard& shard : sharded.shards()) {
        EXPECT_EQ(shard.data, padded(whole, shard.box)) << stored << shape << shard.box;
      }
    }
  }
}

}  // namespace
}  // namespace cairn
