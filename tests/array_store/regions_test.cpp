// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "array_store/index_of.hpp"
#include "array_store/memory_files.hpp"
#include "array_store/read_steps.hpp"
#include "support/fails.hpp"

namespace cairn::array_store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::index_of;

using Dims = std::vector<std::uint64_t>;

/// An index of uint8 arrays in files of 4096 bytes.
class RegionsTest : public ::testing::Test {
 protected:
  RegionsTest() { files_.texts = {{"one", std::string(4096, '\0')}, {"two", std::string(4096, '\0')}}; }

  void add_whole(std::string_view name, const Dims& dims, std::uint32_t file, std::uint64_t offset) {
    builder_.add_array(name, DType::uint8, dims);
    builder_.add_whole(file, offset);
  }

  void add_slice(std::uint32_t file, std::uint64_t offset, const Dims& offsets, const Dims& extents) {
    builder_.add_slice(file, offset, offsets, extents);
  }

  /// Where the regions of all arrays begin, by file; checks them.
  std::map<std::string, std::vector<std::uint64_t>> regions_of_all() {
    const formats::Index index = index_of(builder_);
    LocatedArrays located = locate(index, testing::all_of(index), {});
    std::map<std::string, std::vector<std::uint64_t>> begins;
    for (const auto& [file, regions] :
         check_regions(index, located.arrays, std::move(located.regions), files_)) {
      for (const Region& region : regions) {
        begins[file].push_back(region.begin);
      }
    }
    return begins;
  }

  /// Locates the only array, in another form.
  ReadArray located_as(const AbstractArray& form, const ReadOptions& options = {}) {
    if (!index_) {
      index_.emplace(index_of(builder_));
    }
    auto wanted = testing::all_of(*index_);
    wanted.at(0).form = &form;
    return locate(*index_, wanted, options).arrays.at(0);
  }

  formats::IndexBuilder builder_;
  std::uint32_t one_ = builder_.add_file("one");
  std::uint32_t two_ = builder_.add_file("two");
  std::optional<formats::Index> index_;
  testing::MemoryFiles files_;
};

TEST_F(RegionsTest, AreSortedByFileAndPlace) {
  add_whole("a", {10}, one_, 100);
  add_whole("b", {10}, two_, 0);
  add_whole("c", {10}, one_, 0);
  add_whole("empty", {0}, two_, 0);

  const auto regions = regions_of_all();

  ASSERT_EQ(regions.size(), 2u);
  EXPECT_THAT(regions.at("one"), ElementsAre(0, 100));
  EXPECT_THAT(regions.at("two"), ElementsAre(0));
}

TEST_F(RegionsTest, OfASlicedArrayAreItsSlices) {
  builder_.add_array("a", DType::uint8, Dims{4, 2});
  add_slice(two_, 50, {0, 0}, {4, 1});
  add_slice(one_, 7, {0, 1}, {4, 1});

  const auto regions = regions_of_all();

  EXPECT_THAT(regions.at("one"), ElementsAre(7));
  EXPECT_THAT(regions.at("two"), ElementsAre(50));
}

TEST_F(RegionsTest, RefuseSlicesThatDoNotTileTheArray) {
  builder_.add_array("a", DType::uint8, Dims{4});
  add_slice(one_, 0, {0}, {1});
  add_slice(one_, 10, {2}, {2});

  EXPECT_THAT([&] { regions_of_all(); }, Fails(Errc::incomplete_shards, HasSubstr("index.fb: 'a'")));
}

TEST_F(RegionsTest, RefuseAFileThatIsNotThere) {
  add_whole("a", {10}, builder_.add_file("other"), 0);

  EXPECT_THAT([&] { regions_of_all(); },
              Fails(Errc::not_found, HasSubstr("index.fb: 'a': its file 'other' is not there")));
}

TEST_F(RegionsTest, RefuseBytesBeyondTheEndOfTheFile) {
  add_whole("a", {10}, one_, 4087);

  EXPECT_THAT([&] { regions_of_all(); },
              Fails(Errc::malformed_metadata,
                    HasSubstr("'a': its bytes [4087, 4097) of 'one' reach beyond the end")));
}

TEST_F(RegionsTest, RefuseBytesOfTwoArrays) {
  add_whole("a", {10}, one_, 0);
  add_whole("b", {10}, one_, 9);

  EXPECT_THAT(
      [&] { regions_of_all(); },
      Fails(Errc::malformed_metadata, HasSubstr("'b': its bytes [9, 19) of 'one' belong to another array")));
}

TEST_F(RegionsTest, ArePlainOnlyForWhatIsReadAsItLies) {
  add_whole("a", {10}, one_, 0);

  EXPECT_TRUE(located_as(AbstractArray({10}, DType::uint8)).is_plain);
  EXPECT_TRUE(located_as(AbstractArray({10}, DType::uint8)).is_small);
  EXPECT_FALSE(located_as(AbstractArray({10}, DType::int32)).is_plain);
  AbstractArray placed({10}, DType::uint8);
  placed.place_into(Array({10}, DType::uint8));
  EXPECT_FALSE(located_as(placed).is_plain);
}

TEST_F(RegionsTest, AreNotPlainWhereElementsAreMisaligned) {
  builder_.add_array("a", DType::float32, Dims{2});
  builder_.add_whole(one_, 6);

  EXPECT_FALSE(located_as(AbstractArray({2}, DType::float32)).is_plain);
}

TEST_F(RegionsTest, RefuseACastThatLosesValuesUnlessTheFormOrTheOptionsAllowIt) {
  builder_.add_array("a", DType::float32, Dims{2});
  builder_.add_whole(one_, 0);
  AbstractArray form({2}, DType::bfloat16);
  EXPECT_THAT([&] { located_as(form); }, Fails(Errc::unsafe_cast, HasSubstr("'a'")));

  ReadOptions options;
  options.allow_narrowing = true;
  EXPECT_EQ(located_as(form, options).narrowing, Narrowing::allowed);
  form.allows_narrowing = true;
  EXPECT_EQ(located_as(form).narrowing, Narrowing::allowed);
}

TEST_F(RegionsTest, RefuseMemoryOfAnotherFormThanIsWanted) {
  add_whole("a", {10}, one_, 0);
  AbstractArray form({10}, DType::uint8);
  form.destination = Array({5, 2}, DType::uint8);
  EXPECT_THAT([&] { located_as(form); }, Fails(Errc::shape_mismatch, HasSubstr("'a'")));
  form.destination = Array({10}, DType::int8);
  EXPECT_THAT([&] { located_as(form); }, Fails(Errc::dtype_mismatch, HasSubstr("'a'")));
}

TEST_F(RegionsTest, RefuseMemoryThatTwoArraysShare) {
  add_whole("a", {10}, one_, 0);
  add_whole("b", {10}, one_, 10);
  const formats::Index index = index_of(builder_);
  AbstractArray form({10}, DType::uint8);
  form.place_into(Array({10}, DType::uint8));
  auto wanted = testing::all_of(index);
  wanted.at(0).form = wanted.at(1).form = &form;

  EXPECT_THAT([&] { static_cast<void>(locate(index, wanted, {})); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("'a'"), HasSubstr("'b'"))));
}

}  // namespace
}  // namespace cairn::array_store
