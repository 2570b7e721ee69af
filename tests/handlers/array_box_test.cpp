// SPDX-License-Identifier: Apache-2.0
// Parts of arrays: AbstractArray::box.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/array/stored_slices.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/handlers/tree_handler.hpp"
#include "cairn/sharding/policy.hpp"

#include "handlers/store.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

/// 0, 1, 2, … in rows.
Array counting(std::uint64_t rows, std::uint64_t columns) {
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  std::iota(values.begin(), values.end(), 0.0F);
  return Array::adopt(std::move(values)).reshaped({rows, columns});
}

class ArrayBox : public testing::StoreTest {
 protected:
  /// The box of the leaf 'w'.
  Tree load_box(Box box, DType dtype = DType::float32) {
    AbstractTree wanted = metadata<AbstractTree>();
    wanted["w"].as_array().want(std::move(box));
    wanted["w"].as_array().dtype = dtype;
    return load<Tree>({"item", std::move(wanted)});
  }
};

TEST_F(ArrayBox, BringsRowsAndTheOtherLeaves) {
  const Array w = counting(10, 4);
  save(Tree({{"w", w}, {"step", 3}}));

  const Tree loaded = load_box(Box({2, 0}, {3, 4}));

  EXPECT_EQ(loaded["w"].as<Array>(), w.part(Box({2, 0}, {3, 4})).clone());
  EXPECT_EQ(loaded.get<int>("step"), 3);
}

TEST_F(ArrayBox, BringsColumnsAndCasts) {
  const Array w = counting(10, 4);
  save(Tree({{"w", w}}));

  const Tree loaded = load_box(Box({1, 3}, {2, 1}), DType::float64);

  EXPECT_EQ(loaded["w"].as<Array>(), Array::adopt(std::vector<double>{7, 11}).reshaped({2, 1}));
}

TEST_F(ArrayBox, BringsAllAndNothing) {
  const Array w = counting(10, 4);
  save(Tree({{"w", w}}));

  EXPECT_EQ(load_box(Box::whole({10, 4}))["w"].as<Array>(), w);
  EXPECT_EQ(load_box(Box({10, 0}, {0, 4}))["w"].as<Array>().shape(), Shape({0, 4}));
}

TEST_F(ArrayBox, GoesToMemoryOfItsExtents) {
  save(Tree({{"w", counting(10, 4)}}));
  std::vector<double> mine(4);
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["w"].as_array().want(Box({9, 0}, {1, 4}));
  wanted["w"].place_into(MutableArrayView(mine.data(), {1, 4}, DType::float64));

  load<Tree>({"item", std::move(wanted)});

  EXPECT_EQ(mine, (std::vector<double>{36, 37, 38, 39}));
}

TEST_F(ArrayBox, IsPutTogetherFromSlices) {
  SaveOptions options;
  options.handler_options.set(ShardingOptions(std::make_shared<MaxShardSize>(64)));
  const Array w = counting(10, 4);
  save(Tree({{"w", w}}), options);
  ASSERT_GT(metadata<AbstractTree>().at("w").as_array().stored->size(), 1U);

  EXPECT_EQ(load_box(Box({3, 1}, {4, 2}))["w"].as<Array>(), w.part(Box({3, 1}, {4, 2})).clone());
}

TEST_F(ArrayBox, ReadsLittleMoreThanItsBytes) {
  const Array w = counting(20'000, 1024);
  save(Tree({{"w", w}}));
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["w"].as_array().want(Box({10'000, 0}, {100, 1024}));

  Loaded loaded = core::start_load(path(), {{"item", wanted}}, handlers_, LoadOptions(), context_).wait();

  EXPECT_LE(loaded.result().bytes, std::uint64_t{2} << 20);
  EXPECT_EQ(loaded.take<Tree>("item").at("w").as<Array>(), w.part(Box({10'000, 0}, {100, 1024})).clone());
}

TEST_F(ArrayBox, OfAnArrayAloneIsLoadedToo) {
  const Array w = counting(10, 4);
  save(w);
  AbstractArray wanted = metadata<AbstractArray>();
  wanted.want(Box({5, 0}, {1, 4}));

  EXPECT_EQ(load<Array>({"item", wanted}), w.part(Box({5, 0}, {1, 4})).clone());
}

TEST_F(ArrayBox, IsLoadedWhenTheRestIsMapped) {
  const Array w = counting(10, 4);
  save(Tree({{"w", w}, {"v", w}}));
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["w"].as_array().want(Box({5, 0}, {1, 4}));
  TreeLoadOptions mapped;
  mapped.map = true;

  const Tree loaded = load<Tree>({"item", wanted}, mapped);

  EXPECT_EQ(loaded["w"].as<Array>(), w.part(Box({5, 0}, {1, 4})).clone());
  EXPECT_EQ(loaded["v"].as<Array>(), w);
}

TEST_F(ArrayBox, BeyondTheArrayIsRefusedByName) {
  save(Tree({{"w", counting(10, 4)}}));
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["w"].as_array().box = Box({8, 0}, {3, 4});

  EXPECT_THAT(
      [&] {
        load<Tree>({"item", wanted});
      },
      Fails(Errc::invalid_argument,
            HasSubstr("'w': requested box [8:11, 0:4] is not within the shape [10, 4]")));
  EXPECT_THAT(
      [&] {
        wanted["w"].as_array().want(Box({0, 4}, {10, 1}));
      },
      Fails(Errc::invalid_argument, HasSubstr("[0:10, 4:5]")));
  EXPECT_THAT([&] { wanted["w"].as_array().want(Box({0}, {10})); },
              Fails(Errc::invalid_argument, HasSubstr("the box has rank 1, the array 2")));
}

TEST_F(ArrayBox, RefusesMemoryOfAnotherShape) {
  save(Tree({{"w", counting(10, 4)}}));
  std::vector<float> mine(8);
  AbstractTree wanted = metadata<AbstractTree>();
  AbstractArray& w = wanted["w"].as_array().want(Box({0, 0}, {1, 4}));

  EXPECT_THAT(
      [&] {
        w.place_into(MutableArrayView(mine.data(), {2, 4}, DType::float32));
      },
      Fails(Errc::shape_mismatch, HasSubstr("a box of shape [1, 4] placed into an array of shape [2, 4]")));
  w.place_into(MutableArrayView(mine.data(), {1, 4}, DType::float32));
  EXPECT_THAT(
      [&] {
        w.want(Box({0, 0}, {2, 4}));
      },
      Fails(Errc::invalid_argument, HasSubstr("destination has shape [1, 4]")));
  w.box = Box({0, 0}, {2, 4});
  EXPECT_THAT([&] { load<Tree>({"item", wanted}); }, Fails(Errc::shape_mismatch, HasSubstr("'w'")));
}

TEST_F(ArrayBox, OfElementsThatShareBytesIsRefusedWhereItCutsThem) {
  save(Tree({{"w", Array::zeros({4, 3}, DType::float4)}}));

  EXPECT_EQ(load_box(Box({2, 0}, {2, 3}), DType::float4)["w"].as<Array>().shape(), Shape({2, 3}));
  EXPECT_THAT(
      [&] {
        load_box(Box({1, 0}, {1, 3}), DType::float4);
      },
      Fails(Errc::invalid_argument, HasSubstr("'w'")));
}

TEST_F(ArrayBox, CannotBeDividedToo) {
  AbstractTree wanted = AbstractArray({4}, DType::float32).want(Box({0}, {2}));

  EXPECT_THAT([&] { wanted.shard(Sharding::of_spec(Mesh({1}, {"x"}), {{}}), 0); },
              Fails(Errc::invalid_argument, HasSubstr("[0:2]")));
}

TEST(AbstractArrayBox, CountsWhenWishesAreCompared) {
  const AbstractArray whole({4}, DType::float32);
  AbstractArray part = whole;
  part.want(Box({0}, {2}));

  EXPECT_NE(part, whole);
  EXPECT_EQ(part.loaded_shape(), Shape({2}));
  EXPECT_EQ(part.shape, whole.shape);
}

}  // namespace
}  // namespace cairn
