// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "array_store/index_of.hpp"
#include "array_store/internal/reader.hpp"
#include "array_store/memory_files.hpp"
#include "support/fails.hpp"
#include "support/fake_device.hpp"

namespace cairn::array_store {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::Fails;
using ::testing::HasSubstr;
using testing::index_of;
using testing::MemoryFiles;

using Dims = std::vector<std::uint64_t>;

/// Reads arrays of an index.
std::vector<Array> read_wanted(const formats::Index& index, const std::vector<WantedArray>& wanted,
                               const std::shared_ptr<const StoredFiles>& files,
                               const ReadOptions& options = {}) {
  ReadPlan plan = plan_read(index, wanted, options, *files);
  testing::run(read(files, std::move(plan.pieces)));
  return std::move(plan.arrays);
}

class ReadPlanTest : public ::testing::Test {
 protected:
  /// Reads the first array of an index in another form.
  Array read_as(const formats::Index& index, const AbstractArray& form, const ReadOptions& options = {}) {
    auto wanted = testing::all_of(index);
    wanted.at(0).form = &form;
    return read_wanted(index, wanted, files_, options).at(0);
  }

  /// Writes arrays "a0", "a1", … and opens their index.
  formats::Index write(const std::vector<Array>& arrays) {
    Writer writer{WriterOptions()};
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      writer.add("a" + std::to_string(i), arrays[i]);
    }
    files_ = std::make_shared<MemoryFiles>(std::move(writer));
    return testing::run(open_index(files_));
  }

  /// A 2 × 3 array of bytes in two slices: its columns 0 and 1, and its column 2.
  formats::Index write_slices() {
    files_ = std::make_shared<MemoryFiles>();
    files_->texts["data"] = "##abcd##ef";
    formats::IndexBuilder builder;
    const std::uint32_t file = builder.add_file("data");
    builder.add_array("a", DType::uint8, Dims{2, 3});
    builder.add_slice(file, 2, Dims{0, 0}, Dims{2, 2});
    builder.add_slice(file, 8, Dims{0, 2}, Dims{2, 1});
    return index_of(builder);
  }

  std::shared_ptr<MemoryFiles> files_;
};

TEST_F(ReadPlanTest, BringsBackWhatWasWritten) {
  const std::vector<float> small = {1, 2, 3};
  const std::vector<double> large(100'000, 1.5);
  const formats::Index index = write({small, large, Array::zeros({0, 7}, DType::int8)});

  const auto arrays = read_wanted(index, testing::all_of(index), files_);

  EXPECT_THAT(arrays, ElementsAre(Array(small), Array(large), Array::zeros({0, 7}, DType::int8)));
}

TEST_F(ReadPlanTest, ReadsManySmallArraysAsOnePiece) {
  const std::vector<float> values(1000, 1.5F);
  const formats::Index index = write(std::vector<Array>(100, Array(values)));

  const ReadPlan plan = plan_read(index, testing::all_of(index), {}, *files_);

  ASSERT_EQ(plan.pieces.size(), 1u);
  EXPECT_EQ(plan.pieces.begin()->second.size(), 1u);
}

TEST_F(ReadPlanTest, ReadsOnlyWhatIsWanted) {
  const std::vector<float> values(1000, 1.5F);
  const formats::Index index = write({values, values, values});
  const std::vector<WantedArray> second = {testing::all_of(index).at(1)};

  const ReadPlan plan = plan_read(index, second, {}, *files_);

  EXPECT_EQ(plan.arrays.size(), 1u);
  EXPECT_EQ(plan.pieces.begin()->second.at(0).size_bytes, 4000u);
}

TEST_F(ReadPlanTest, CastsIntoMemoryOfTheCaller) {
  const std::vector<float> values = {1.5F, 2.5F};
  const formats::Index index = write({values});
  std::vector<double> memory(2);
  AbstractArray form({2}, DType::float64);
  form.place_into(MutableArrayView(memory));

  read_as(index, form);

  EXPECT_THAT(memory, ElementsAre(1.5, 2.5));
}

TEST_F(ReadPlanTest, PutsSlicesTogether) {
  const formats::Index index = write_slices();

  const Array array = read_as(index, AbstractArray({2, 3}, DType::uint8));

  EXPECT_THAT(array.data<const std::uint8_t>(), ElementsAre('a', 'b', 'e', 'c', 'd', 'f'));
}

TEST_F(ReadPlanTest, CastsSlices) {
  const formats::Index index = write_slices();

  const Array array = read_as(index, AbstractArray({2, 3}, DType::int32));

  EXPECT_THAT(array.data<const std::int32_t>(), ElementsAre('a', 'b', 'e', 'c', 'd', 'f'));
}

TEST_F(ReadPlanTest, MapsFilesWhenAskedTo) {
  const std::vector<float> values = {1.5F, 2.5F};
  const formats::Index index = write({values});
  ReadOptions options;
  options.map = true;

  ReadPlan plan = plan_read(index, testing::all_of(index), options, *files_);

  EXPECT_TRUE(plan.pieces.empty());
  EXPECT_THAT(plan.arrays.at(0).data<const float>(), ElementsAre(1.5F, 2.5F));
  EXPECT_FALSE(plan.arrays.at(0).is_mutable());
}

TEST_F(ReadPlanTest, AllocatesNothingForBytesThatNoFileHas) {
  formats::IndexBuilder builder;
  builder.add_array("huge", DType::uint8, Dims{std::uint64_t{1} << 60});
  builder.add_whole(builder.add_file("data"), 0);
  files_ = std::make_shared<MemoryFiles>();
  files_->texts["data"] = "short";
  const formats::Index index = index_of(builder);

  EXPECT_THAT([&] { read_wanted(index, testing::all_of(index), files_); },
              Fails(Errc::malformed_metadata, HasSubstr("'huge'")));
}

class ReadPlanOfADevice : public ReadPlanTest {
 protected:
  AbstractArray on_device(Shape shape, DType dtype) {
    const Array plain(shape, dtype);
    memory_ = device_.allocate(plain.byte_count());
    AbstractArray form(shape, dtype);
    form.place_into(Array::share(MutableArrayView(memory_.get(), shape, dtype, device_.device()), memory_));
    return form;
  }

  ReadOptions with_copier() {
    ReadOptions options;
    options.copier_of = [this](Device) { return copier_.get(); };
    return options;
  }

  template <class T>
  std::span<const T> seen(std::size_t count) {
    return {reinterpret_cast<const T*>(device_.seen(memory_.get())), count};
  }

  testing::FakeDevice device_;
  std::shared_ptr<DeviceCopier> copier_ = device_.copier();
  std::shared_ptr<std::byte> memory_;
};

TEST_F(ReadPlanOfADevice, FillsItsMemory) {
  const std::vector<float> values = {1.5F, 2.5F};
  const formats::Index index = write({values});

  read_as(index, on_device({2}, DType::float32), with_copier());
  EXPECT_THAT(seen<float>(2), ElementsAre(1.5F, 2.5F));

  read_as(index, on_device({2}, DType::float64), with_copier());
  EXPECT_THAT(seen<double>(2), ElementsAre(1.5, 2.5));
}

TEST_F(ReadPlanOfADevice, RefusesOneThatNobodyReaches) {
  const std::vector<float> values = {1.5F, 2.5F};
  const formats::Index index = write({values});

  EXPECT_THAT([&] { read_as(index, on_device({2}, DType::float32)); },
              Fails(Errc::invalid_argument, HasSubstr("'a0': the array is on")));
}

TEST_F(ReadPlanOfADevice, PutsSlicesTogetherThatAreNotContiguousThere) {
  const formats::Index index = write_slices();
  const Array whole = read_as(index, AbstractArray({2, 3}, DType::uint8));

  read_as(index, on_device({2, 3}, DType::uint8), with_copier());

  EXPECT_THAT(seen<std::uint8_t>(6), ElementsAreArray(whole.data<const std::uint8_t>()));
}

}  // namespace
}  // namespace cairn::array_store
