// SPDX-License-Identifier: Apache-2.0
#include "array_store/internal/writer.hpp"

#include <vector>

#include <gmock/gmock.h>

#include "array_store/memory_files.hpp"
#include "async/internal/event.hpp"
#include "formats/internal/index.hpp"
#include "formats/internal/safetensors.hpp"
#include "support/fails.hpp"
#include "support/fake_device.hpp"
#include "support/sync_wait.hpp"

namespace cairn::array_store {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::MemoryFiles;
using ::testing::SizeIs;
using testing::written;

constexpr std::string_view kFile = "data-r00000-000.safetensors";

WriterOptions with(Snapshot snapshot) {
  WriterOptions options;
  options.snapshot = snapshot;
  return options;
}

formats::SafetensorsHeader header_of(const std::string& text) {
  return formats::parse_safetensors(std::as_bytes(std::span(text)), text.size(), "file");
}

template <class T>
std::vector<T> values_at(const std::string& text, const formats::SafetensorsTensor& tensor) {
  std::vector<T> values((tensor.end - tensor.begin) / sizeof(T));
  std::memcpy(values.data(), text.data() + tensor.begin, tensor.end - tensor.begin);
  return values;
}

class WriterTest : public ::testing::Test {
 protected:
  std::vector<float> floats_ = {1.5F, 2.5F, 3.5F, 4.5F};
  std::vector<std::int64_t> integers_ = {7, 8};
};

TEST_F(WriterTest, MakesASafetensorsFile) {
  Writer writer(with(Snapshot::copy));
  writer.add("a/x", floats_);
  writer.add("b", integers_);

  const PlannedWrite planned = std::move(writer).lay_out();

  ASSERT_THAT(planned.files, SizeIs(1));
  EXPECT_EQ(planned.files[0].name, kFile);
  const std::string text = written(planned.files[0]);
  const auto header = header_of(text);
  ASSERT_THAT(header.tensors, SizeIs(2));
  EXPECT_EQ(header.tensors[0].name, "b");  // Larger elements come first.
  EXPECT_EQ(values_at<std::int64_t>(text, header.tensors[0]), integers_);
  EXPECT_EQ(header.tensors[1].name, "a/x");
  EXPECT_EQ(values_at<float>(text, header.tensors[1]), floats_);
}

TEST_F(WriterTest, NamesItsFilesAfterTheRank) {
  WriterOptions options;
  options.rank = 42;
  Writer writer(options);
  writer.add("a", floats_);

  EXPECT_EQ(std::move(writer).lay_out().files.at(0).name, "data-r00042-000.safetensors");
}

TEST_F(WriterTest, MakesNoFileWithoutArrays) {
  Writer writer(with(Snapshot::copy));
  writer.entries().add_integer("step", 7);

  const PlannedWrite planned = std::move(writer).lay_out();

  EXPECT_THAT(planned.files, SizeIs(0));
  const formats::IndexBytes index = planned.index.make();
  EXPECT_EQ(formats::Index::open(index.owner, index.bytes, "index").entry(0).as_integer(), 7);
}

TEST_F(WriterTest, SaysInTheIndexWhereTheBytesLie) {
  Writer writer(with(Snapshot::copy));
  writer.add("a", floats_);
  writer.add("b", integers_);
  MemoryFiles files(std::move(writer));

  const auto memory = std::make_shared<std::string>(files.texts.at(std::string(kIndexFile)));
  const auto index = formats::Index::open(memory, std::as_bytes(std::span(*memory)), "index");
  const std::string& text = files.texts.at(std::string(kFile));
  for (const formats::SafetensorsTensor& tensor : header_of(text).tensors) {
    const auto array = index.array(index.entry(index.find(tensor.name).value()));
    const formats::IndexSlice slice = index.slice(array, 0);
    EXPECT_EQ(array.dtype, tensor.dtype);
    EXPECT_TRUE(slice.is_whole);
    EXPECT_EQ(slice.file, kFile);
    EXPECT_EQ(slice.offset, tensor.begin);
    EXPECT_EQ(slice.size, tensor.end - tensor.begin);
  }
}

TEST_F(WriterTest, StandsInForTheNameThatSafetensorsKeeps) {
  Writer writer(with(Snapshot::copy));
  writer.add("__metadata__", floats_);

  const std::string text = written(std::move(writer).lay_out().files.at(0));

  EXPECT_EQ(header_of(text).tensors.at(0).name, "~__metadata__");
}

TEST_F(WriterTest, CastsOnTheWay) {
  Writer writer(with(Snapshot::copy));
  writer.add("a", floats_, DType::float64);

  const std::string text = written(std::move(writer).lay_out().files.at(0));

  EXPECT_THAT(values_at<double>(text, header_of(text).tensors.at(0)), ElementsAre(1.5, 2.5, 3.5, 4.5));
}

TEST_F(WriterTest, StoresFloatsInTheTypeThatTheOptionsAskForAndLeavesIntegers) {
  WriterOptions options;
  options.storage_dtype = DType::float64;
  Writer writer(options);
  writer.add("floats", floats_);
  writer.add("integers", integers_);

  const auto header = header_of(written(std::move(writer).lay_out().files.at(0)));

  EXPECT_EQ(header.tensors.at(0).name, "floats");
  EXPECT_EQ(header.tensors.at(0).dtype, DType::float64);
  EXPECT_EQ(header.tensors.at(1).dtype, DType::int64);
}

TEST_F(WriterTest, WritesTheElementsOfAStridedArrayInOrder) {
  const Array transposed = Array::borrow(ArrayView(floats_.data(), {2, 2}, DType::float32).transposed());
  Writer writer(with(Snapshot::copy));
  writer.add("a", transposed);

  const std::string text = written(std::move(writer).lay_out().files.at(0));

  EXPECT_THAT(values_at<float>(text, header_of(text).tensors.at(0)), ElementsAre(1.5F, 3.5F, 2.5F, 4.5F));
}

TEST_F(WriterTest, RefusesACastThatLosesValuesUnlessThatIsAllowed) {
  Writer strict(with(Snapshot::copy));
  EXPECT_THAT([&] { strict.add("a/x", floats_, DType::bfloat16); },
              Fails(Errc::unsafe_cast, HasSubstr("'a/x'")));

  WriterOptions options;
  options.narrowing = Narrowing::allowed;
  Writer writer(options);
  writer.add("a/x", floats_, DType::bfloat16);
  EXPECT_EQ(header_of(written(std::move(writer).lay_out().files.at(0))).tensors.at(0).dtype, DType::bfloat16);
}

TEST_F(WriterTest, CopiesAllArraysOfAFileInOnePiece) {
  Writer writer(with(Snapshot::copy));
  for (int i = 0; i < 100; ++i) {
    writer.add("a" + std::to_string(i), floats_);
  }

  EXPECT_THAT(std::move(writer).lay_out().files.at(0).pieces, SizeIs(2));  // The header is the other.
}

TEST_F(WriterTest, KeepsWhatIsSharedAlive) {
  auto array = std::make_unique<Array>(Array::adopt(std::vector<float>(floats_)));
  const std::weak_ptr<const void> owner = array->owner();
  Writer writer(with(Snapshot::share));
  writer.add("a", *array);
  array.reset();

  auto planned = std::make_unique<PlannedWrite>(std::move(writer).lay_out());

  EXPECT_FALSE(owner.expired());
  const std::string text = written(planned->files.at(0));
  EXPECT_EQ(values_at<float>(text, header_of(text).tensors.at(0)), floats_);
  planned->files.clear();
  EXPECT_TRUE(owner.expired());
}

TEST_F(WriterTest, SharesNoArrayWithoutAnOwner) {
  Writer writer(with(Snapshot::share));
  writer.add("empty", Array::borrow(ArrayView(floats_.data(), {0}, DType::float32)));

  EXPECT_THAT([&] { writer.add("a", floats_); },
              Fails(Errc::invalid_argument, HasSubstr("'a': the array has no owner")));
}

TEST_F(WriterTest, ReadsFromADeviceThroughItsCopier) {
  testing::FakeDevice device;
  const auto memory = device.allocate(sizeof(float) * floats_.size());
  std::memcpy(device.seen(memory.get()), floats_.data(), sizeof(float) * floats_.size());
  const Array array =
      Array::share(MutableArrayView(memory.get(), {4}, DType::float32, device.device()), memory);
  Writer without(with(Snapshot::copy));
  EXPECT_THAT([&] { without.add("a", array); }, Fails(Errc::invalid_argument, HasSubstr("no copier")));
  const auto copier = device.copier();
  WriterOptions options;
  options.copier_of = [&](Device) { return copier.get(); };
  Writer writer(options);
  writer.add("as it is", array);
  writer.add("cast", array, DType::float64);

  const std::string text = written(std::move(writer).lay_out().files.at(0));

  const auto header = header_of(text);
  EXPECT_THAT(values_at<double>(text, header.tensors.at(0)), ElementsAre(1.5, 2.5, 3.5, 4.5));
  EXPECT_EQ(values_at<float>(text, header.tensors.at(1)), floats_);
}

TEST_F(WriterTest, TellsWhenAllOfTheHeaderHasBeenRead) {
  Writer writer(with(Snapshot::copy));
  writer.add("a", floats_);
  const PlannedWrite planned = std::move(writer).lay_out();
  const SourcePiece& header = planned.files.at(0).pieces.at(0);
  ASSERT_TRUE(header.source->is_lasting());
  async::ThreadPool pool(1, "test");
  const async::Event is_read =
      async::start(async::make_strand(pool.executor()), planned.index.headers_read());
  std::string text(header.size_bytes, '\0');
  const auto bytes = std::as_writable_bytes(std::span(text));

  header.source->read(100, bytes.subspan(100));
  EXPECT_FALSE(is_read.has_happened());
  header.source->read(0, bytes.first(100));

  is_read.get();
  EXPECT_EQ(header_of(text + std::string(sizeof(float) * 4, '\0')).tensors.at(0).name, "a");
}

TEST_F(WriterTest, MakesAHeaderAgainForWhoeverReadsItAfterItWasDropped) {
  Writer writer(with(Snapshot::copy));
  writer.add("a", floats_);
  const PlannedWrite planned = std::move(writer).lay_out();

  const std::string first = written(planned.files.at(0));
  testing::run(planned.index.headers_read());

  EXPECT_EQ(written(planned.files.at(0)), first);
}

}  // namespace
}  // namespace cairn::array_store
