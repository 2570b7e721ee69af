// SPDX-License-Identifier: Apache-2.0
// The public calls for arrays carry a second handler of arrays.
#include "handlers/array_map.hpp"

#include "cairn/contract/registry.hpp"

#include "handlers/store.hpp"

namespace cairn {
namespace {

using testing::AbstractArrayMap;
using testing::ArrayMap;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

class ArrayMapTest : public testing::StoreTest {
 protected:
  ArrayMapTest() { handlers_ = HandlerRegistry().add<testing::ArrayMapHandler>().snapshot(); }

  std::vector<float> floats_ = {1.5F, 2.5F};
  std::vector<std::int64_t> integers_ = {1, 2, 3};
  ArrayMap map_ = {{"floats", floats_}, {"a/b", integers_}};
};

TEST_F(ArrayMapTest, ComesBack) {
  save(map_);

  EXPECT_EQ(load<ArrayMap>(), map_);
}

TEST_F(ArrayMapTest, IsASnapshot) {
  auto saving = start(map_);
  floats_[0] = 9;
  saving.wait();

  EXPECT_THAT(load<ArrayMap>().at("floats").data<const float>(), ElementsAre(1.5F, 2.5F));
}

TEST_F(ArrayMapTest, DescribesItself) {
  save(map_);

  const AbstractArrayMap expected = {{"floats", AbstractArray({2}, DType::float32)},
                                     {"a/b", AbstractArray({3}, DType::int64)}};
  EXPECT_EQ(metadata<AbstractArrayMap>(), expected);
}

TEST_F(ArrayMapTest, TellsToolsItsArrays) {
  save(map_);
  std::vector<std::string> names;

  for (const ArrayEntry& array : arrays(item_metadata())) {
    names.emplace_back(array.name);
  }

  EXPECT_THAT(names, ElementsAre("a/b", "floats"));
  EXPECT_EQ(item_metadata().description().kind, "array map");
}

TEST_F(ArrayMapTest, LoadsAPartAndCasts) {
  save(map_);
  AbstractArrayMap wanted = {{"floats", AbstractArray({2}, DType::float64)}};

  const ArrayMap loaded = load<ArrayMap>({"item", wanted});

  ASSERT_EQ(loaded.size(), 1u);
  EXPECT_THAT(loaded.at("floats").data<const double>(), ElementsAre(1.5, 2.5));
}

TEST_F(ArrayMapTest, FollowsTheOptionsOfArrays) {
  SaveOptions options;
  options.handler_options.set(ArrayOptions(DType::float64));
  save(map_, options);
  EXPECT_EQ(metadata<AbstractArrayMap>().at("floats").dtype, DType::float64);

  options.overwrite = true;
  options.snapshot = Snapshot::share;
  EXPECT_THAT([&] { save(map_, options); }, Fails(Errc::invalid_argument, HasSubstr("has no owner")));
}

}  // namespace
}  // namespace cairn
