// SPDX-License-Identifier: Apache-2.0
// Arrays that are stored in boxes and read in others.

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/array/array.hpp"

#include "array_store/index_of.hpp"
#include "array_store/internal/reader.hpp"
#include "array_store/internal/writer.hpp"
#include "array_store/memory_files.hpp"
#include "support/fails.hpp"
#include "support/run.hpp"

namespace cairn::array_store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::MemoryFiles;
using testing::run;

/// An array whose elements are their numbers.
template <class T>
Array counted(const Shape& shape, DType dtype) {
  Array array(shape, dtype);
  const auto elements = array.data<T>();
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i] = static_cast<T>(i);
  }
  return array;
}

/// Stores the boxes of `whole` as an array "w", in files as they come; 0 files: one.
MemoryFiles stored(const Array& whole, const std::vector<Box>& boxes, std::size_t boxes_of_file = 1000) {
  Writer writer{WriterOptions()};
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (i > 0 && i % boxes_of_file == 0) {
      writer.next_file();
    }
    writer.add_part("w", whole.shape(), boxes[i], whole.part(boxes[i]), whole.dtype());
  }
  return MemoryFiles(std::move(writer));
}

formats::Index index_of(const MemoryFiles& files) {
  const std::string& text = files.texts.at(std::string(kIndexFile));
  auto owner = std::make_shared<std::string>(text);
  formats::Index index = formats::Index::open(owner, std::as_bytes(std::span(*owner)), "index.fb");
  index.validate();
  return index;
}

std::vector<Array> read_boxes(const MemoryFiles& files, const AbstractShardedArray& wanted,
                              const ReadOptions& options = {}) {
  const formats::Index index = index_of(files);
  WantedArray one{index.entry(*index.find("w")), nullptr, &wanted};
  ReadPlan plan = plan_read(index, {&one, 1}, options, files);
  for (auto& [file, pieces] : plan.pieces) {
    run(files.read_pieces(file, std::move(pieces)));
  }
  return std::move(plan.arrays);
}

Array read_whole(const MemoryFiles& files, const AbstractArray* form = nullptr) {
  const formats::Index index = index_of(files);
  WantedArray one{index.entry(*index.find("w")), form, nullptr};
  ReadPlan plan = plan_read(index, {&one, 1}, {}, files);
  for (auto& [file, pieces] : plan.pieces) {
    run(files.read_pieces(file, std::move(pieces)));
  }
  return std::move(plan.arrays.at(0));
}

AbstractShardedArray asking_for(const Array& whole, const std::vector<Box>& boxes) {
  AbstractShardedArray wanted(whole.shape(), whole.dtype());
  for (const Box& box : boxes) {
    wanted.want(box);
  }
  return wanted;
}

const std::vector<Box> kRows = {Box({0, 0}, {3, 5}), Box({3, 0}, {1, 5}), Box({4, 0}, {2, 5})};
const std::vector<Box> kColumns = {Box({0, 0}, {6, 2}), Box({0, 2}, {6, 1}), Box({0, 3}, {6, 2})};

TEST(StoredBoxes, MakeTheWholeArray) {
  const Array whole = counted<float>({6, 5}, DType::float32);

  EXPECT_EQ(read_whole(stored(whole, kRows)), whole);
  EXPECT_EQ(read_whole(stored(whole, kColumns, 2)), whole);
}

TEST(StoredBoxes, AreNamedByTheArrayAndANumber) {
  const MemoryFiles files = stored(counted<float>({6, 5}, DType::float32), kRows, 2);

  const std::string& first = files.texts.at("data-r00000-000.safetensors");
  EXPECT_THAT(first, AllOf(HasSubstr(R"("w":{)"), HasSubstr(R"("w~s1":{)")));
  EXPECT_THAT(files.texts.at("data-r00000-001.safetensors"),
              AllOf(HasSubstr(R"("w":{)"), ::testing::Not(HasSubstr("~s1"))));
}

TEST(StoredBoxes, MarkAFileThatHasSeveralOfAnArray) {
  const MemoryFiles files = stored(counted<float>({6, 5}, DType::float32), kRows, 2);

  EXPECT_THAT(files.texts.at("data-r00000-000.safetensors"),
              HasSubstr(R"("DCP_SHARDING_INFO":"{\"w\": {\"saved_offsets\": [0, 0]}}")"));
  EXPECT_THAT(files.texts.at("data-r00000-001.safetensors"),
              HasSubstr(R"("DCP_SHARDING_INFO":"{\"w\": {\"saved_offsets\": [4, 0]}}")"));
}

TEST(Writer, CountsTheArraysOfWhichAFileHasSeveralBoxes) {
  const Array whole = counted<float>({6, 5}, DType::float32);
  Writer writer{WriterOptions()};
  writer.add("plain", whole);
  writer.add_part("in two files", whole.shape(), kRows[0], whole.part(kRows[0]), whole.dtype());
  for (const Box& box : kRows) {
    writer.add_part("in one file", whole.shape(), box, whole.part(box), whole.dtype());
  }
  writer.next_file();
  writer.add_part("in two files", whole.shape(), kRows[1], whole.part(kRows[1]), whole.dtype());
  EXPECT_EQ(writer.marked_arrays(), 1u);

  writer.add_part("in two files", whole.shape(), kRows[2], whole.part(kRows[2]), whole.dtype());
  EXPECT_EQ(writer.marked_arrays(), 2u);
}

TEST(StoredBoxes, AreSortedInTheIndex) {
  const formats::Index index =
      index_of(stored(counted<float>({6, 5}, DType::float32), {kRows[2], kRows[0], kRows[1]}));

  const formats::IndexArray array = index.array(index.entry(0));
  ASSERT_EQ(array.slice_count, 3u);
  EXPECT_THAT(index.slice(array, 0).offsets, ElementsAre(0, 0));
  EXPECT_THAT(index.slice(array, 1).offsets, ElementsAre(3, 0));
  EXPECT_THAT(index.slice(array, 2).offsets, ElementsAre(4, 0));
}

TEST(StoredBoxes, OfPackedTypesMakeTheWholeArrayWhereTheyAreWholeBytes) {
  Array whole({6, 4}, DType::float4);
  std::memset(whole.mutable_view().data(), 0, 12);
  whole.mutable_view().bytes()[5] = std::byte{0x21};
  Writer writer{WriterOptions()};
  for (std::uint64_t row = 0; row < 6; row += 2) {
    const Array part = Array::borrow(ArrayView(whole.view().data() + row * 2, {2, 4}, DType::float4));
    writer.add_part("w", whole.shape(), Box({row, 0}, {2, 4}), part, DType::float4);
  }
  const MemoryFiles files{std::move(writer)};

  EXPECT_EQ(read_whole(files), whole);
  const std::vector<Array> columns =
      read_boxes(files, asking_for(whole, {Box({0, 0}, {6, 2}), Box({0, 2}, {6, 2})}));
  EXPECT_EQ(columns[1].view().bytes()[2], std::byte{0x21});
  EXPECT_THAT(
      [&] {
        read_boxes(files, asking_for(whole, {Box({0, 1}, {6, 2})}));
      },
      Fails(Errc::invalid_argument, AllOf(HasSubstr("'w'"), HasSubstr("[0:2, 1:3]"))));
}

TEST(WantedBoxes, ComeFromAWholeArray) {
  const Array whole = counted<std::int32_t>({6, 5}, DType::int32);
  const MemoryFiles files = stored(whole, {Box::whole(whole.shape())});

  const std::vector<Array> columns = read_boxes(files, asking_for(whole, kColumns));

  ASSERT_EQ(columns.size(), 3u);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    EXPECT_EQ(columns[i], whole.part(kColumns[i]).clone());
  }
}

TEST(WantedBoxes, NeedOnlyTheSlicesThatTheyMeet) {
  const Array whole = counted<std::int32_t>({6, 5}, DType::int32);
  MemoryFiles files = stored(whole, kRows, 1);
  files.texts.erase("data-r00000-001.safetensors");

  EXPECT_EQ(read_boxes(files, asking_for(whole, {kRows[2]}))[0], whole.part(kRows[2]).clone());
  EXPECT_THAT([&] { read_boxes(files, asking_for(whole, {kColumns[0]})); },
              Fails(Errc::not_found, HasSubstr("data-r00000-001.safetensors")));
}

TEST(WantedBoxes, TellWhoseFileIsMissing) {
  const Array whole = counted<std::int32_t>({6, 5}, DType::int32);
  Writer writer{WriterOptions()};
  writer.set_policy("All in one.");
  writer.add("w", whole);
  MemoryFiles files(std::move(writer));
  files.texts.erase("data-r00000-000.safetensors");

  EXPECT_THAT([&] { read_boxes(files, asking_for(whole, {kRows[0]})); },
              Fails(Errc::not_found, AllOf(HasSubstr("'w'"), HasSubstr("\"All in one.\""))));
}

TEST(WantedBoxes, MustBeStored) {
  const Array whole = counted<std::int32_t>({6, 5}, DType::int32);
  const MemoryFiles files = stored(whole, {kRows[0], kRows[2]});

  EXPECT_EQ(read_boxes(files, asking_for(whole, {kRows[0]}))[0], whole.part(kRows[0]).clone());
  EXPECT_THAT([&] { read_boxes(files, asking_for(whole, {kColumns[0]})); },
              Fails(Errc::incomplete_shards, AllOf(HasSubstr("index.fb: 'w'"), HasSubstr("[3:4, 0:"))));
}

TEST(WantedBoxes, AreRefusedWhereStoredOnesOverlap) {
  const Array whole = counted<std::int32_t>({6, 5}, DType::int32);
  const MemoryFiles files = stored(whole, {kRows[0], kRows[1], kRows[2], Box({5, 0}, {1, 5})});

  EXPECT_EQ(read_boxes(files, asking_for(whole, {kRows[0]}))[0], whole.part(kRows[0]).clone());
  EXPECT_THAT([&] { read_boxes(files, asking_for(whole, {kRows[2]})); },
              Fails(Errc::overlapping_shards, HasSubstr("[5:6, 0:5]")));
}

TEST(WantedBoxes, MayBeReplicasButNotOverlap) {
  const Array whole = counted<std::int32_t>({6, 5}, DType::int32);
  const MemoryFiles files = stored(whole, kRows);
  AbstractShardedArray wanted = asking_for(whole, {kColumns[0]});
  wanted.want(kColumns[0], 1);

  const std::vector<Array> copies = read_boxes(files, wanted);

  EXPECT_EQ(copies[0], copies[1]);
  wanted.want(kColumns[0], 1);
  EXPECT_THAT([&] { read_boxes(files, wanted); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("'w'"), HasSubstr("replica 1"))));
  EXPECT_THAT(
      [&] {
        read_boxes(files, asking_for(whole, {kRows[0], kColumns[0]}));
      },
      Fails(Errc::invalid_argument, AllOf(HasSubstr("'w'"), HasSubstr("overlap"))));
}

TEST(WantedBoxes, AreRefusedBeyondTheArray) {
  const Array whole = counted<std::int32_t>({6, 5}, DType::int32);
  AbstractShardedArray wanted({9, 9}, DType::int32);
  wanted.want(Box({8, 0}, {1, 1}));

  EXPECT_THAT([&] { read_boxes(stored(whole, kRows), wanted); },
              Fails(Errc::shape_mismatch, AllOf(HasSubstr("'w'"), HasSubstr("[6, 5]"), HasSubstr("[9, 9]"))));
  wanted.shape = {6, 5};
  EXPECT_THAT([&] { read_boxes(stored(whole, kRows), wanted); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("'w'"), HasSubstr("[8:9, 0:1]"))));
}

TEST(WantedBoxes, GoToMemoryOfTheCallerInItsDtype) {
  const Array whole = counted<std::int32_t>({6, 5}, DType::int32);
  const MemoryFiles files = stored(whole, kRows);
  const Array lower = Array::zeros({4, 2}, DType::float64);
  const Array matrix = Array::zeros({6, 6}, DType::float64);
  AbstractShardedArray wanted(whole.shape(), DType::float64);
  wanted.place_into(Box({2, 3}, {4, 2}), lower);
  wanted.place_into(Box({0, 0}, {6, 3}), matrix.part(Box({0, 1}, {6, 3})));

  static_cast<void>(read_boxes(files, wanted));

  EXPECT_THAT(lower.data<const double>(), ElementsAre(13, 14, 18, 19, 23, 24, 28, 29));
  EXPECT_EQ(matrix.data<const double>()[6 * 5 + 3], 27);
  EXPECT_EQ(matrix.data<const double>()[6 * 5 + 4], 0);
}

TEST(WantedBoxes, AreNotReadOverEachOther) {
  const Array whole = counted<std::int32_t>({6, 5}, DType::int32);
  const Array memory = Array::zeros({6, 5}, DType::int32);
  AbstractShardedArray wanted(whole.shape(), DType::int32);
  wanted.place_into(kRows[0], memory.part(kRows[0]));
  wanted.place_into(kRows[1], memory.part(Box({2, 0}, {1, 5})));

  EXPECT_THAT([&] { read_boxes(stored(whole, kRows), wanted); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("[3:4, 0:5]"), HasSubstr("overlap"))));
}

TEST(WantedBoxes, AreNotNarrowedUnlessThatIsAllowed) {
  const Array whole = counted<double>({6, 5}, DType::float64);
  const MemoryFiles files = stored(whole, kRows);
  AbstractShardedArray wanted(whole.shape(), DType::float32);
  wanted.want(kColumns[1]);

  EXPECT_THAT([&] { read_boxes(files, wanted); }, Fails(Errc::unsafe_cast, HasSubstr("'w'")));
  wanted.allows_narrowing = true;
  EXPECT_THAT(read_boxes(files, wanted)[0].data<const float>(), ElementsAre(2, 7, 12, 17, 22, 27));
}

TEST(WantedBoxes, OfLargeRowsAreReadInPiecesThatSkipWhatIsBetween) {
  constexpr std::uint64_t kRow = std::uint64_t{3} << 20;
  const Array whole = Array::zeros({4, kRow}, DType::uint8);
  for (std::uint64_t row = 0; row < 4; ++row) {
    whole.data<std::uint8_t>()[row * kRow + 7] = static_cast<std::uint8_t>(row + 1);
  }
  const MemoryFiles files = stored(whole, {Box::whole(whole.shape())});
  const formats::Index index = index_of(files);
  const AbstractShardedArray wanted = asking_for(whole, {Box({1, 4}, {3, 8})});
  const WantedArray one{index.entry(0), nullptr, &wanted};

  ReadPlan plan = plan_read(index, {&one, 1}, {}, files);
  std::vector<DestinationPiece>& pieces = plan.pieces.begin()->second;

  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].size_bytes, 8u);
  run(files.read_pieces(plan.pieces.begin()->first, std::move(pieces)));
  EXPECT_THAT(plan.arrays[0].part(Box({0, 3}, {3, 1})).clone().data<const std::uint8_t>(),
              ElementsAre(2, 3, 4));
}

// Random shapes, boxes and windows, against coordinates that are looked up one by one.

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  std::uint64_t below(std::uint64_t end) {
    return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(engine_);
  }

  Shape shape() {
    static constexpr std::uint64_t kExtents[] = {1, 2, 3, 5, 7, 11, 4, 1, 6, 0};
    const std::uint64_t kinds = below(8) == 0 ? 10 : 9;  // Few arrays have no elements.
    Shape shape(static_cast<std::size_t>(below(6)), 0);
    for (std::uint64_t& extent : shape) {
      extent = kExtents[below(kinds)];
    }
    return shape;
  }

  /// Boxes that tile an array, in any order: halves of halves.
  std::vector<Box> tiles(const Shape& shape, std::size_t most) {
    std::vector<Box> boxes = {Box::whole(shape)};
    const std::size_t count = 1 + below(most);
    for (int i = 0; i < 100 && boxes.size() < count && !shape.empty(); ++i) {
      Box& box = boxes[below(boxes.size())];
      const auto d = static_cast<std::size_t>(below(shape.size()));
      if (box.extents()[d] < 2) {
        continue;
      }
      const std::uint64_t lower = 1 + below(box.extents()[d] - 1);
      Shape offsets = box.offsets();
      Shape extents = box.extents();
      offsets[d] += lower;
      extents[d] -= lower;
      Shape first = box.extents();
      first[d] = lower;
      const Box rest(offsets, extents);
      box = Box(box.offsets(), first);
      boxes.push_back(rest);
    }
    std::shuffle(boxes.begin(), boxes.end(), engine_);
    return boxes;
  }

 private:
  std::mt19937 engine_;
};

/// The number of the element of a box that comes `i`-th, in the whole array.
std::uint64_t number_of(const Shape& shape, const Box& box, std::uint64_t i) {
  std::uint64_t number = 0;
  std::uint64_t pitch = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    number += (box.begin(d) + i % box.extents()[d]) * pitch;
    i /= box.extents()[d];
    pitch *= shape[d];
  }
  return number;
}

template <class Stored, class Wanted>
void compare_with_coordinates(Random& random, DType stored_dtype, DType wanted_dtype) {
  const Shape shape = random.shape();
  const Array whole = counted<Stored>(shape, stored_dtype);
  const std::vector<Box> in = random.tiles(shape, 9);
  std::vector<Box> out = random.tiles(shape, 9);
  out.resize(1 + random.below(out.size()));
  MemoryFiles files = stored(whole, in, 1 + random.below(4));
  files.window_bytes = 30 + random.below(300);
  AbstractShardedArray wanted = asking_for(whole, out);
  wanted.dtype = wanted_dtype;
  wanted.allows_narrowing = true;

  const std::vector<Array> arrays = read_boxes(files, wanted);

  ASSERT_EQ(arrays.size(), out.size());
  for (std::size_t b = 0; b < out.size(); ++b) {
    const auto elements = arrays[b].data<const Wanted>();
    ASSERT_EQ(elements.size(), *element_count(out[b].extents()));
    for (std::size_t i = 0; i < elements.size(); ++i) {
      ASSERT_EQ(elements[i], static_cast<Wanted>(static_cast<Stored>(number_of(shape, out[b], i))))
          << shape << " " << out[b];
    }
  }
}

TEST(Boxes, OfAnyKindAreReadInBoxesOfAnyOther) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    compare_with_coordinates<std::int32_t, std::int32_t>(random, DType::int32, DType::int32);
    compare_with_coordinates<std::uint8_t, std::uint8_t>(random, DType::uint8, DType::uint8);
    compare_with_coordinates<std::int64_t, std::int64_t>(random, DType::int64, DType::int64);
    compare_with_coordinates<std::uint16_t, float>(random, DType::uint16, DType::float32);
    compare_with_coordinates<double, float>(random, DType::float64, DType::float32);
    ASSERT_FALSE(HasFatalFailure());
  }
}

/// Elements that are made when they are asked for.
class MadeUp final : public ByteSource {
 public:
  explicit MadeUp(Array values) : values_(std::move(values)) {}
  void read(std::uint64_t offset_bytes, std::span<std::byte> out) const override {
    std::memcpy(out.data(), values_.view().data() + offset_bytes, out.size());
  }

 private:
  const Array values_;
};

TEST(Sources, AreStoredAsArraysAre) {
  const Array whole = counted<std::int32_t>({4, 3}, DType::int32);
  const Box top({0, 0}, {1, 3});
  const Box rest({1, 0}, {3, 3});
  Writer writer{WriterOptions()};
  const Array five = counted<std::int32_t>({5}, DType::int32);
  writer.add("before", five);
  writer.add_source("w", whole.shape(), rest, DType::int32,
                    std::make_shared<MadeUp>(whole.part(rest).clone()));
  writer.next_file();
  writer.add_source("w", whole.shape(), top, DType::int32, std::make_shared<MadeUp>(whole.part(top).clone()));
  writer.add_source("none", {0, 2}, Box::whole({0, 2}), DType::int32, nullptr);
  writer.add_source("x", {4, 3}, Box::whole({4, 3}), DType::int32, std::make_shared<MadeUp>(whole.clone()));

  const MemoryFiles files(std::move(writer));

  Writer usual{WriterOptions()};
  const Array none = Array::zeros({0, 2}, DType::int32);
  usual.add("before", five);
  usual.add_part("w", whole.shape(), rest, whole.part(rest), DType::int32);
  usual.next_file();
  usual.add_part("w", whole.shape(), top, whole.part(top), DType::int32);
  usual.add("none", none);
  usual.add("x", whole);
  EXPECT_EQ(files.texts, MemoryFiles(std::move(usual)).texts);
}

TEST(Sources, LieWithinTheirArray) {
  Writer writer{WriterOptions()};

  EXPECT_THAT([&] { writer.add_source("w", {4}, Box({2}, {3}), DType::int32, nullptr); },
              Fails(Errc::shape_mismatch, AllOf(HasSubstr("'w'"), HasSubstr("[2:5]"))));
}

}  // namespace
}  // namespace cairn::array_store
