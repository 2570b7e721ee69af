// SPDX-License-Identifier: Apache-2.0
#include "cairn/tools/array_reader.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/array/sharded_array.hpp"
#include "cairn/cairn.hpp"

#include "support/fails.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"
#include "tool_library/numbered.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::damage_data;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::numbered;

class ArrayReaderTest : public ::testing::Test {
 protected:
  const testing::TempDir folder_;
  const std::filesystem::path path_ = folder_ / "checkpoint";
};

TEST_F(ArrayReaderTest, KnowsTheNamesAndFormsOfArraysOnly) {
  const Array tied = numbered({2});
  save(path_, Tree{{"params", {{"w", numbered({2, 3})}}}, {"step", 7}, {"a", tied}, {"b", tied}});

  const ArrayReader reader(path_);

  EXPECT_THAT(reader.names(), ElementsAre("a", "b", "params/w"));
  EXPECT_EQ(reader.form("params/w").shape, (Shape{2, 3}));
  EXPECT_EQ(reader.form("b").dtype, DType::int32);
  EXPECT_THAT([&] { static_cast<void>(reader.read("step")); },
              Fails(Errc::not_found, HasSubstr("no array 'step'")));
  EXPECT_THAT([&] { static_cast<void>(reader.form("nobody")); },
              Fails(Errc::not_found, HasSubstr("'nobody'")));
}

TEST_F(ArrayReaderTest, ReadsFilesOfOtherProgramsWhoseElementsLieWhereTheFilesSay) {
  TreeLoadOptions of_tree;
  of_tree.leave_out = true;
  LoadOptions options;
  options.handler_options.set(of_tree);
  for (const char* folder : {"torch/dcp", "torch/state_dict.pt", "megatron/tp2_pp2"}) {
    const std::filesystem::path path = testing::test_data() / folder;
    const Tree loaded = load_checkpointables(path, {}, options).take<Tree>("state");
    const ArrayReader reader(path);

    const std::vector<std::string> names = reader.names();
    EXPECT_GE(names.size(), 5U) << folder;
    for (const std::string& name : names) {
      EXPECT_EQ(Tree(reader.read(name)), Tree(loaded.at(name).as<Array>())) << folder << ": " << name;
    }
  }
}

TEST_F(ArrayReaderTest, ReadsBoxesWhateverBoxesWereSaved) {
  const Array whole = numbered({8, 4});
  std::vector<Shard> shards;
  for (const std::uint64_t row : {0UL, 2UL, 4UL, 6UL}) {
    shards.push_back({Box({row, 0}, {2, 4}), whole.part(Box({row, 0}, {2, 4})).clone()});
  }
  save(path_, Tree{{"w", ShardedArray({8, 4}, DType::int32, std::move(shards))}});
  const ArrayReader reader(path_);
  const Box across({1, 1}, {6, 2});

  EXPECT_EQ(reader.read("w"), whole);
  EXPECT_EQ(reader.read("w", across), whole.part(across).clone());
  EXPECT_THAT(
      [&] {
        static_cast<void>(reader.read("w", Box({7, 0}, {2, 4})));
      },
      Fails(Errc::invalid_argument, HasSubstr("")));
}

TEST_F(ArrayReaderTest, ReadsManyBoxesAtOnceToWhereTheyAreWanted) {
  const Array tied = numbered({6});
  save(path_, Tree{{"a", tied}, {"b", tied}, {"c", numbered({3})}});
  const ArrayReader reader(path_);
  std::vector<double> first(2);
  std::vector<double> last(2);
  WantedBoxes boxes;
  boxes.try_emplace("a", Shape{6}, DType::int32)
      .first->second.place_into(Box({0}, {2}), MutableArrayView(first))
      .place_into(Box({4}, {2}), MutableArrayView(last));
  boxes.try_emplace("b", Shape{6}, DType::int32).first->second.want(Box({1}, {3}));
  boxes.try_emplace("c", Shape{3}, DType::int32).first->second.want(Box::whole({3}));

  const ArrayReading reading = reader.start(boxes);
  const std::vector<Array> read = reading.wait();

  EXPECT_THAT(first, ElementsAre(0, 1));
  EXPECT_THAT(last, ElementsAre(4, 5));
  ASSERT_EQ(read.size(), 4u);
  EXPECT_EQ(read[2], tied.part(Box({1}, {3})));
  EXPECT_EQ(read[3], numbered({3}));
}

TEST_F(ArrayReaderTest, AReadingOutlivesItsReader) {
  const Array large = numbered({1 << 20});
  save(path_, Tree{{"w", large}});
  std::optional<ArrayReader> reader(std::in_place, path_);
  WantedBoxes boxes;
  boxes.try_emplace("w", large.shape(), large.dtype()).first->second.want(Box::whole(large.shape()));

  const ArrayReading reading = reader->start(boxes);
  static_cast<void>(reader->start(boxes));  // Waits when it is dropped.
  reader.reset();

  EXPECT_EQ(reading.wait().front(), large);
}

TEST_F(ArrayReaderTest, VerifiesWhatItReads) {
  save(path_, Tree{{"w", numbered({5000})}});
  damage_data(path_);
  const ArrayReader reader(path_);

  EXPECT_THAT([&] { static_cast<void>(reader.read("w")); },
              Fails(Errc::checksum_mismatch, HasSubstr("data-r00000-000.safetensors")));
}

TEST_F(ArrayReaderTest, NeedsTheNameOfACheckpointableWhereSeveralHaveArrays) {
  save_checkpointables(path_, {{"ema", Tree{{"w", numbered({2})}}}, {"model", Tree{{"w", numbered({3})}}}});

  EXPECT_EQ(ArrayReader(path_, "model").read("w"), numbered({3}));
  EXPECT_EQ(ArrayReader(path_ / "ema").read("w"), numbered({2}));
  EXPECT_THAT([&] { ArrayReader reader(path_); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("choose one"), HasSubstr("ema, model"))));
  EXPECT_THAT([&] { ArrayReader reader(path_, "nobody"); },
              Fails(Errc::not_found, AllOf(HasSubstr("'nobody'"), HasSubstr("ema, model"))));
  EXPECT_THAT([&] { ArrayReader reader(folder_ / "nowhere"); }, Fails(Errc::not_found, HasSubstr("nowhere")));
}

TEST_F(ArrayReaderTest, NeedsNoNameWhereOnlyOneHasArrays) {
  save_checkpointables(path_, {{"counts", Tree{{"step", 7}}}, {"model", Tree{{"w", numbered({3})}}}});

  EXPECT_EQ(ArrayReader(path_).read("w"), numbered({3}));
  EXPECT_TRUE(ArrayReader(path_, "counts").names().empty());
}

TEST_F(ArrayReaderTest, ReadsFilesOfOtherPrograms) {
  const std::filesystem::path file = testing::test_data() / "safetensors" / "tiny.safetensors";
  const Tree loaded = load(file);
  const ArrayReader reader(file);

  ASSERT_FALSE(reader.names().empty());
  for (const std::string& name : reader.names()) {
    EXPECT_EQ(reader.read(name), loaded.at(name).as<Array>()) << name;
  }
}

TEST_F(ArrayReaderTest, TellsStatisticsInTheOrderThatWasAskedFor) {
  save(path_, Tree{{"a", numbered({5})}, {"b", Array::zeros({2, 2}, DType::bfloat16)}});
  const std::vector<std::string> names = {"b", "a"};

  const std::vector<ArrayStatistics> statistics = ArrayReader(path_).statistics(names);

  ASSERT_EQ(statistics.size(), 2u);
  EXPECT_EQ(statistics[0].zeros, 4u);
  EXPECT_EQ(statistics[1].max, ArrayStatistics::Number(4.0));
  EXPECT_EQ(statistics[1].mean, 2.0);
}

TEST_F(ArrayReaderTest, TellsHowFarStatisticsAre) {
  save(path_, Tree{{"a", numbered({5})}, {"b", numbered({6})}});
  const std::vector<std::string> names = {"b", "a"};
  const std::uint64_t bytes =
      ArrayReader(path_).read("a").byte_count() + ArrayReader(path_).read("b").byte_count();
  std::uint64_t done = 0;
  std::uint64_t total = 0;

  static_cast<void>(
      ArrayReader(path_).statistics(names, [&](std::uint64_t done_bytes, std::uint64_t total_bytes) {
        done = done_bytes;
        total = total_bytes;
      }));

  EXPECT_EQ(total, bytes);
  EXPECT_EQ(done, bytes);
}

}  // namespace
}  // namespace cairn
