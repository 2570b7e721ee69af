// SPDX-License-Identifier: Apache-2.0
// Arrays that are read under several names.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "array_store/index_of.hpp"
#include "array_store/internal/reader.hpp"
#include "array_store/memory_files.hpp"
#include "support/fails.hpp"
#include "support/fake_device.hpp"

namespace cairn::array_store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::index_of;
using testing::MemoryFiles;

class ReadAliases : public ::testing::Test {
 protected:
  ReadAliases() {
    std::iota(values_.begin(), values_.end(), 0.0F);
    Writer writer{WriterOptions()};
    writer.add("a", Array(values_).reshaped({40, 25}));
    writer.entries().add_alias("b", "a");
    writer.entries().add_alias("c", "a");
    writer.add("d", Array(small_));
    files_ = std::make_shared<MemoryFiles>(std::move(writer));
    index_ = std::make_unique<formats::Index>(testing::run(open_index(files_)));
    wanted_ = testing::all_of(*index_);
  }

  ReadPlan plan(const ReadOptions& options = {}) { return plan_read(*index_, wanted_, options, *files_); }

  std::vector<Array> read(const ReadOptions& options = {}) {
    ReadPlan planned = plan(options);
    testing::run(array_store::read(files_, std::move(planned.pieces)));
    return std::move(planned.arrays);
  }

  static AbstractArray into(std::vector<float>& memory) {
    AbstractArray form({40, 25}, DType::float32);
    form.place_into(MutableArrayView(memory.data(), {40, 25}, DType::float32));
    return form;
  }

  std::vector<float> values_ = std::vector<float>(1000);
  std::vector<float> small_ = {7};
  std::shared_ptr<MemoryFiles> files_;
  std::unique_ptr<formats::Index> index_;
  std::vector<WantedArray> wanted_;
};

TEST_F(ReadAliases, AreReadOnceIntoOneMemory) {
  std::size_t bytes = 0;
  const ReadPlan planned = plan();
  for (const DestinationPiece& piece : planned.pieces.begin()->second) {
    bytes += piece.size_bytes;
  }

  const std::vector<Array> arrays = read();

  ASSERT_EQ(arrays.size(), 4u);
  EXPECT_EQ(bytes, 4004u);
  EXPECT_EQ(arrays[0], Array(values_).reshaped({40, 25}));
  EXPECT_EQ(arrays[1].view().data(), arrays[0].view().data());
  EXPECT_EQ(arrays[2].view().data(), arrays[0].view().data());
  EXPECT_EQ(arrays[3], Array(small_));
}

TEST_F(ReadAliases, GoToAnyPlaces) {
  std::vector<float> first(1000);
  std::vector<float> second(1000);
  const AbstractArray into_first = into(first);
  const AbstractArray into_second = into(second);
  const AbstractArray as_double({40, 25}, DType::float64);
  wanted_[0].form = &into_first;
  wanted_[1].form = &into_second;
  wanted_[2].form = &as_double;
  files_->window_bytes = 1003;  // Cuts elements.

  const std::vector<Array> arrays = read();

  EXPECT_EQ(first, values_);
  EXPECT_EQ(second, values_);
  EXPECT_EQ(arrays[2].data<const double>()[999], 999.0);
  EXPECT_EQ(arrays[3], Array(small_));
}

TEST_F(ReadAliases, GoToOneMemoryOfTheCaller) {
  std::vector<float> memory(1000);
  const AbstractArray place = into(memory);
  wanted_[0].form = wanted_[1].form = wanted_[2].form = &place;

  const std::vector<Array> arrays = read();

  EXPECT_EQ(memory, values_);
  EXPECT_EQ(arrays[2].view().data(), reinterpret_cast<const std::byte*>(memory.data()));
}

TEST_F(ReadAliases, AreRefusedWhereTheirMemoryOverlaps) {
  std::vector<float> memory(1100);
  const AbstractArray place = into(memory);
  AbstractArray moved({40, 25}, DType::float32);
  moved.place_into(MutableArrayView(memory.data() + 1, {40, 25}, DType::float32));
  AbstractArray turned({40, 25}, DType::float16);
  turned.place_into(MutableArrayView(memory.data(), {40, 25}, DType::float16));
  turned.allows_narrowing = true;
  wanted_[0].form = &place;

  for (const AbstractArray* other : {&moved, &turned}) {
    wanted_[2].form = other;
    EXPECT_THAT([&] { static_cast<void>(plan()); },
                Fails(Errc::invalid_argument, AllOf(HasSubstr("destinations"), HasSubstr("'a'"),
                                                    HasSubstr("'c'"), HasSubstr("overlap"))));
  }
}

TEST_F(ReadAliases, AreRefusedWhereAnotherArrayGoesToTheirMemory) {
  std::vector<float> memory(1000);
  const AbstractArray place = into(memory);
  AbstractArray other({1}, DType::float32);
  other.place_into(MutableArrayView(memory.data() + 999, {1}, DType::float32));
  wanted_[0].form = wanted_[1].form = &place;
  wanted_[3].form = &other;

  EXPECT_THAT([&] { static_cast<void>(plan()); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("'a'"), HasSubstr("'d'"), HasSubstr("overlap"))));
}

TEST_F(ReadAliases, GiveBoxes) {
  AbstractArray rows({40, 25}, DType::float32);
  rows.want(Box({10, 0}, {20, 25}));
  AbstractArray columns({40, 25}, DType::float64);
  columns.want(Box({0, 3}, {40, 2}));
  AbstractShardedArray both({40, 25}, DType::float32);
  both.want(Box({0, 0}, {1, 25})).want(Box({39, 0}, {1, 25}));
  wanted_[0].form = &rows;
  wanted_[1].form = &columns;
  wanted_[2].boxes = &both;
  files_->window_bytes = 77;

  const std::vector<Array> arrays = read();

  ASSERT_EQ(arrays.size(), 5u);
  EXPECT_EQ(arrays[0].data<const float>()[0], 250.0F);
  EXPECT_EQ(arrays[0].data<const float>()[499], 749.0F);
  EXPECT_EQ(arrays[1].data<const double>()[1], 4.0);
  EXPECT_EQ(arrays[1].data<const double>()[79], 979.0);
  EXPECT_EQ(arrays[2].data<const float>()[24], 24.0F);
  EXPECT_EQ(arrays[3].data<const float>()[24], 999.0F);
  EXPECT_EQ(arrays[4], Array(small_));
}

TEST_F(ReadAliases, GiveTheSameBoxesOnce) {
  AbstractShardedArray first({40, 25}, DType::float32);
  first.want(Box({0, 0}, {10, 25})).want(Box({20, 0}, {20, 25}));
  const AbstractShardedArray second = first;
  wanted_ = {wanted_[0], wanted_[1]};
  wanted_[0].boxes = &first;
  wanted_[1].boxes = &second;

  const std::vector<Array> arrays = read();

  ASSERT_EQ(arrays.size(), 4u);
  EXPECT_EQ(arrays[2].view().data(), arrays[0].view().data());
  EXPECT_EQ(arrays[3].view().data(), arrays[1].view().data());
  EXPECT_EQ(arrays[3].data<const float>()[0], 500.0F);
}

TEST_F(ReadAliases, AreMappedOnce) {
  ReadOptions options;
  options.map = true;

  const ReadPlan planned = plan(options);

  EXPECT_TRUE(planned.pieces.empty());
  EXPECT_EQ(planned.arrays[2].view().data(), planned.arrays[0].view().data());
}

TEST_F(ReadAliases, GoToDevicesAndTheHost) {
  testing::FakeDevice device;
  const std::shared_ptr<DeviceCopier> copier = device.copier();
  const std::shared_ptr<std::byte> memory = device.allocate(4000);
  AbstractArray there({40, 25}, DType::float32);
  there.place_into(
      Array::share(MutableArrayView(memory.get(), {40, 25}, DType::float32, device.device()), memory));
  std::vector<float> here(1000);
  const AbstractArray place = into(here);
  wanted_[0].form = &place;
  wanted_[1].form = wanted_[2].form = &there;
  ReadOptions options;
  options.copier_of = [&](Device) { return copier.get(); };

  static_cast<void>(read(options));

  EXPECT_EQ(here, values_);
  EXPECT_EQ(reinterpret_cast<const float*>(device.seen(memory.get()))[999], 999.0F);
}

TEST_F(ReadAliases, MayBeOfAnArrayInSlices) {
  formats::IndexBuilder builder;
  files_ = std::make_shared<MemoryFiles>();
  files_->texts["data"] = "##abcd##ef";
  const std::uint32_t file = builder.add_file("data");
  builder.add_array("a", DType::uint8, std::vector<std::uint64_t>{2, 3});
  builder.add_slice(file, 2, std::vector<std::uint64_t>{0, 0}, std::vector<std::uint64_t>{2, 2});
  builder.add_slice(file, 8, std::vector<std::uint64_t>{0, 2}, std::vector<std::uint64_t>{2, 1});
  builder.add_alias("b", "a");
  *index_ = index_of(builder);
  const AbstractArray wide({2, 3}, DType::int32);
  wanted_ = testing::all_of(*index_);
  wanted_[1].form = &wide;

  const std::vector<Array> arrays = read();

  EXPECT_THAT(arrays[0].data<const std::uint8_t>(), ElementsAre('a', 'b', 'e', 'c', 'd', 'f'));
  EXPECT_THAT(arrays[1].data<const std::int32_t>(), ElementsAre('a', 'b', 'e', 'c', 'd', 'f'));
}

}  // namespace
}  // namespace cairn::array_store
