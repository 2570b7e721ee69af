// SPDX-License-Identifier: Apache-2.0
// Trees whose arrays a policy divides among files.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/array/stored_slices.hpp"

#include "handlers/sharded_tree.hpp"

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

TEST_F(ShardedTreeTest, HasTheFilesOfAPolicy) {
  save(Tree{{"a", whole_}, {"b", {{"x", whole_}, {"y", divided(whole_, rows_of(2))}}}},
       with(std::make_shared<ByPrefix>(std::vector<std::string>{"item/b/"})));

  const ItemMetadata item = item_metadata();

  EXPECT_EQ(data_files(item).size(), 2u);
  EXPECT_EQ(load<Tree>(), (Tree{{"a", whole_}, {"b", {{"x", whole_}, {"y", whole_}}}}));
}

TEST_F(ShardedTreeTest, SaysInItsDescriptionHowItWasDivided) {
  save(Tree{{"a", whole_}, {"w", divided(whole_, rows_of(2))}}, with(std::make_shared<AllInOne>()));

  const Description description = item_metadata().description();

  ASSERT_EQ(description.policies.size(), 1u);
  EXPECT_EQ(description.policies[0].policy, AllInOne().description());
  EXPECT_TRUE(description.policies[0].files.empty());
  std::vector<std::uint64_t> parts;
  std::vector<std::string> layouts;
  for (const ArrayEntry& array : description.arrays) {
    parts.push_back(array.parts);
    layouts.emplace_back(array.layout);
  }
  EXPECT_THAT(parts, ElementsAre(1, 2));
  EXPECT_THAT(layouts, ElementsAre("", rows_of(2).to_json()));
  AbstractTree built = metadata<AbstractTree>();
  built.materialise();
  EXPECT_EQ(built["w"].policy(), AllInOne().description());
}

TEST_F(ShardedTreeTest, IsCutByAPolicy) {
  const Array large = counted({64, 1024});
  save(Tree{{"large", large}, {"sharded", divided(large, columns_of(2))}, {"step", 1}},
       with(std::make_shared<MaxShardSize>(100'000)));

  const ItemMetadata item = item_metadata();

  EXPECT_GE(data_files(item).size(), 5u);
  for (const FileMetadata& file : item.files) {
    EXPECT_LE(file.bytes, 100'000u + 4096u) << file.name;
  }
  EXPECT_EQ(load<Tree>(), (Tree{{"large", large}, {"sharded", large}, {"step", 1}}));
  EXPECT_GT(metadata<AbstractTree>()["large"].as_array().stored->size(), 2u);
}

/// Gives each tensor the same values.
class Sevens final : public ShardingPolicy {
 public:
  std::string description() const override { return "Writes sevens."; }
  std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override {
    std::vector<FilePlan> files(1);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      Array values(tensors[i].region().extents(), tensors[i].dtype);
      std::ranges::fill(values.data<std::int32_t>(), 7);
      files[0].push_back({i, {}, std::make_shared<const Array>(std::move(values))});
    }
    return files;
  }
};

TEST_F(ShardedTreeTest, HasTheValuesOfAPolicy) {
  save(Tree{{"w", whole_}, {"sharded", divided(whole_, rows_of(2))}}, with(std::make_shared<Sevens>()));

  const Tree loaded = load<Tree>();

  EXPECT_THAT(loaded.get<std::vector<std::int32_t>>("w"), ::testing::Each(7));
  EXPECT_THAT(loaded.get<std::vector<std::int32_t>>("sharded"), ::testing::Each(7));
}

/// Writes floats as they lie between 0 and 20, as docs/sharding.md has it.
class Normalised final : public ShardingPolicy {
 public:
  std::string description() const override { return "Normalises float values."; }
  std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override {
    std::vector<FilePlan> files(1);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      std::shared_ptr<const Array> normalised;
      if (tensors[i].dtype == DType::float32) {
        Array values = Array::copy_of(*tensors[i].view);
        for (float& value : values.data<float>()) {
          value /= 20;
        }
        normalised = std::make_shared<const Array>(std::move(values));
      }
      files[0].push_back({i, {}, std::move(normalised)});
    }
    return files;
  }
};

Array tens(const Shape& shape) {
  Array array(shape, DType::float32);
  std::ranges::fill(array.data<float>(), 10.0F);
  return array;
}

TEST_F(ShardedTreeTest, CastsTheValuesOfAPolicyToTheDtypeOfTheOptions) {
  SaveOptions options = with(std::make_shared<Normalised>());
  options.handler_options.set(ArrayOptions(DType::bfloat16, Narrowing::allowed));
  save(Tree{{"w", tens({3})}, {"sharded", divided(tens({4, 2}), rows_of(2))}}, options);

  AbstractTree wanted = metadata<AbstractTree>();
  EXPECT_EQ(wanted["w"].as_array().dtype, DType::bfloat16);
  wanted.set_dtype(DType::float32);
  const Tree loaded = load<Tree>(wanting(wanted));

  EXPECT_THAT(loaded.get<std::vector<float>>("w"), ::testing::Each(0.5F));
  EXPECT_THAT(loaded.get<std::vector<float>>("sharded"), ::testing::Each(0.5F));
}

TEST_F(ShardedTreeTest, CutsByTheBytesOnDisk) {
  SaveOptions options = with(std::make_shared<MaxFileSize>(400));
  options.handler_options.set(ArrayOptions(DType::float32, Narrowing::allowed));

  save(Tree{{"w", Array::zeros({10, 10}, DType::float64)}}, options);

  EXPECT_EQ(data_files(item_metadata()).size(), 1u);
}

/// A policy that does what a test wants of it.
class Any final : public ShardingPolicy {
 public:
  using Make = std::vector<FilePlan> (*)(std::span<const ShardableTensor>);
  explicit Any(Make make) : make_(make) {}
  std::string description() const override { return "Any."; }
  std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override {
    return make_(tensors);
  }

 private:
  Make make_;
};

/// Has something to say of everything.
class Worried final : public ShardingPolicy {
 public:
  std::string description() const override { return "Worries."; }
  std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override {
    return AllInOne()(tensors);
  }
  std::vector<std::string> warnings(std::span<const ShardableTensor>,
                                    std::span<const FilePlan>) const override {
    return std::vector<std::string>(1000, "Oh.");
  }
};

TEST_F(ShardedTreeTest, TellsTheFirstWarningsOfAPolicyAndCountsTheOthers) {
  const SaveResult result = start(Tree{{"w", whole_}}, with(std::make_shared<Worried>())).wait();

  ASSERT_EQ(result.problems.size(), 21u);
  EXPECT_EQ(result.problems[19], "'item': sharding policy \"Worries.\": Oh.");
  EXPECT_EQ(result.problems[20], "'item': sharding policy \"Worries.\": 980 more warnings");
}

TEST_F(ShardedTreeTest, RefusesWhatAPolicyLoses) {
  const auto lose = [](std::span<const ShardableTensor>) -> std::vector<FilePlan> { return {}; };

  EXPECT_THAT(
      [&] {
        save(Tree{{"w", whole_}}, with(std::make_shared<Any>(lose)));
      },
      Fails(Errc::incomplete_shards, AllOf(HasSubstr("\"Any.\""), HasSubstr("'item/w'"))));
}

TEST_F(ShardedTreeTest, TellsWhatAPolicyThrows) {
  const auto fail = [](std::span<const ShardableTensor>) -> std::vector<FilePlan> {
    throw std::runtime_error("no idea");
  };

  EXPECT_THAT(
      [&] {
        save(Tree{{"w", whole_}}, with(std::make_shared<Any>(fail)));
      },
      Fails(Errc::handler_failed, AllOf(HasSubstr("\"Any.\""), HasSubstr("no idea"))));
}

TEST_F(ShardedTreeTest, NamesAPolicyThatThrowsWhatIsNoException) {
  const auto fail = [](std::span<const ShardableTensor>) -> std::vector<FilePlan> { throw 7; };

  EXPECT_THAT(
      [&] {
        save(Tree{{"w", whole_}}, with(std::make_shared<Any>(fail)));
      },
      Fails(Errc::handler_failed, HasSubstr("sharding policy \"Any.\": an exception of an unknown type")));
}

TEST_F(ShardedTreeTest, ShowsAPolicyWhatIsWritten) {
  const auto look = [](std::span<const ShardableTensor> tensors) {
    EXPECT_EQ(tensors.size(), 3u);
    EXPECT_EQ(tensors[0].key, "item/a/w");
    EXPECT_EQ(tensors[0].name, "w");
    EXPECT_EQ(tensors[0].owner, "item/a");
    EXPECT_FALSE(tensors[0].slice.has_value());
    EXPECT_EQ(tensors[1].key, "item/b");
    EXPECT_EQ(tensors[1].name, "b");
    EXPECT_EQ(tensors[1].owner, "item");
    EXPECT_EQ(tensors[2].full, Shape({7, 10}));
    EXPECT_EQ(tensors[2].slice, Box({4, 0}, {3, 10}));
    EXPECT_EQ(tensors[2].size_bytes, 120u);
    EXPECT_EQ(tensors[2].view->shape(), Shape({3, 10}));
    return AllInOne()(tensors);
  };

  save(Tree{{"a", {{"w", whole_}}}, {"b", divided(whole_, rows_of(2))}}, with(std::make_shared<Any>(look)));
}

TEST_F(ShardedTreeTest, ShowsAPolicyTheDtypesInMemoryAndOnDisk) {
  const auto look = [](std::span<const ShardableTensor> tensors) {
    EXPECT_EQ(tensors[0].dtype, DType::float32);
    EXPECT_EQ(tensors[0].view->dtype(), DType::float32);
    EXPECT_EQ(tensors[0].stored(), DType::float16);
    EXPECT_EQ(tensors[0].size_bytes, 6u);
    EXPECT_EQ(tensors[1].dtype, DType::int32);
    EXPECT_EQ(tensors[1].stored(), DType::int32);  // A floating dtype leaves integers as they are.
    return AllInOne()(tensors);
  };
  SaveOptions options = with(std::make_shared<Any>(look));
  options.handler_options.set(ArrayOptions(DType::float16, Narrowing::allowed));

  save(Tree{{"a", tens({3})}, {"b", whole_}}, options);
}

}  // namespace
}  // namespace cairn
