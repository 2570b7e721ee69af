// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/index.hpp"

#include <sys/mman.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "formats/fixtures.hpp"
#include "formats/internal/index_builder.hpp"
#include "support/fails.hpp"
#include "support/sanitizer.hpp"

namespace cairn::formats {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Dims = std::vector<std::uint64_t>;

Index built(IndexBuilder& builder) {
  IndexBytes bytes = builder.finish();
  return Index::open(std::move(bytes.owner), bytes.bytes, "index.fb");
}

IndexEntry only(const Index& index) {
  EXPECT_EQ(index.size(), 1u);
  return index.entry(0);
}

TEST(Index, KeepsScalarsToTheBit) {
  const double odd_nan = -std::numeric_limits<double>::quiet_NaN();
  IndexBuilder builder;
  builder.add_integer("a", std::numeric_limits<std::int64_t>::min());
  builder.add_unsigned("b", std::numeric_limits<std::uint64_t>::max());
  builder.add_double("c", odd_nan);
  builder.add_double("d", -0.0);
  builder.add_bool("e", true);
  builder.add_bool("f", false);

  const Index index = built(builder);

  EXPECT_EQ(index.entry(0).as_integer(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(index.entry(1).as_unsigned(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_TRUE(std::signbit(index.entry(2).as_double()) && std::isnan(index.entry(2).as_double()));
  EXPECT_TRUE(std::signbit(index.entry(3).as_double()));
  EXPECT_TRUE(index.entry(4).as_bool());
  EXPECT_FALSE(index.entry(5).as_bool());
}

TEST(Index, KeepsStringsAndBytes) {
  IndexBuilder builder;
  builder.add_string("s", std::string_view("é\0x", 4));
  builder.add_bytes("b", as_bytes("\xFF"));
  builder.add_string("empty", "");

  const Index index = built(builder);

  EXPECT_EQ(index.string(index.entry(2)), std::string_view("é\0x", 4));
  EXPECT_THAT(index.bytes(index.entry(0)), ElementsAre(std::byte{0xFF}));
  EXPECT_EQ(index.string(index.entry(1)), "");
}

TEST(Index, KeepsWhichArraysHaveWhichLayout) {
  IndexBuilder builder;
  const std::uint32_t rows = builder.add_layout(R"({"kind": "rows"})");
  const std::uint32_t columns = builder.add_layout(R"({"kind": "columns"})");
  builder.add_array("z", DType::int8, Dims{2});
  builder.set_layout(columns);
  builder.add_array("plain", DType::int8, Dims{2});
  builder.add_array("y", DType::int8, Dims{3});
  builder.set_layout(rows);
  builder.add_integer("step", 1);

  const Index index = built(builder);

  index.validate();
  EXPECT_EQ(index.layout(index.entry(0)), "");
  EXPECT_THAT([&] { static_cast<void>(index.layout(index.entry(1))); },
              Fails(Errc::type_mismatch, HasSubstr("step")));
  EXPECT_EQ(index.layout(index.entry(2)), R"({"kind": "rows"})");
  EXPECT_EQ(index.layout(index.entry(3)), R"({"kind": "columns"})");
}

TEST(Index, SaysOnceWhatThePolicyOfAllFilesSays) {
  IndexBuilder builder;
  const std::uint32_t policy = builder.add_policy("One file each.");
  static_cast<void>(builder.add_file("a", policy));
  static_cast<void>(builder.add_file("b", policy));

  const Index index = built(builder);

  EXPECT_TRUE(index.has_one_policy());
  EXPECT_EQ(index.policy(0), "One file each.");
  EXPECT_EQ(index.policy_of_file(1), "One file each.");
  EXPECT_THAT([&] { static_cast<void>(index.policy_of_file(2)); },
              Fails(Errc::invalid_argument, HasSubstr("file 2 of 2")));
}

TEST(Index, KeepsWhichPolicyMadeWhichFile) {
  IndexBuilder builder;
  const std::uint32_t one = builder.add_policy("One file each.");
  const std::uint32_t other = builder.add_policy("All in one.");
  EXPECT_EQ(builder.add_policy("One file each."), one);
  EXPECT_EQ(builder.add_policy(""), 0u);
  builder.add_array("w", DType::int8, Dims{2});
  static_cast<void>(builder.add_file("a", other));
  static_cast<void>(builder.add_file("b"));
  builder.add_whole(builder.add_file("c", one), 8);

  const Index index = built(builder);

  index.validate();
  ASSERT_EQ(index.policy_count(), 2u);
  EXPECT_FALSE(index.has_one_policy());
  EXPECT_EQ(index.policy_of_file(0), "All in one.");
  EXPECT_EQ(index.policy_of_file(1), "");
  EXPECT_EQ(index.policy_of_file(index.slice(index.array(index.entry(0)), 0).file_number), "One file each.");
}

TEST(Index, KeepsOnePolicyThatMadeSomeFilesOnly) {
  IndexBuilder builder;
  static_cast<void>(builder.add_file("a"));
  static_cast<void>(builder.add_file("b", builder.add_policy("One file each.")));

  const Index index = built(builder);

  EXPECT_FALSE(index.has_one_policy());
  EXPECT_EQ(index.policy_of_file(0), "");
  EXPECT_EQ(index.policy_of_file(1), "One file each.");
}

TEST(Index, SaysNothingOfLayoutsWhereThereAreNone) {
  IndexBuilder builder;
  builder.add_array("w", DType::int8, Dims{2});

  const Index index = built(builder);

  EXPECT_EQ(index.layout(index.entry(0)), "");
  EXPECT_EQ(index.policy_count(), 0u);
}

TEST(IndexBuilder, RefusesLayoutsThatItDoesNotHave) {
  IndexBuilder builder;
  const std::uint32_t number = builder.add_layout("{}");
  EXPECT_THAT([&] { builder.set_layout(number); },
              Fails(Errc::invalid_argument, HasSubstr("after 0 arrays")));
  builder.add_array("w", DType::int8, Dims{2});
  EXPECT_THAT([&] { builder.set_layout(number + 1); },
              Fails(Errc::invalid_argument, HasSubstr("layout 2 of 1")));
  EXPECT_THAT([&] { builder.add_policy("\xFF"); }, Fails(Errc::invalid_argument, HasSubstr("UTF-8")));
  EXPECT_THAT([&] { static_cast<void>(builder.add_file("a", 1)); },
              Fails(Errc::invalid_argument, HasSubstr("policy 1 of 0")));
}

TEST(Index, KeepsContainersThatNoLeafShows) {
  IndexBuilder builder;
  builder.add_empty_map("m");
  builder.add_list("l", 2);
  builder.add_null("l/0");
  builder.add_null("l/1");
  builder.add_list("empty", 0);

  const Index index = built(builder);

  EXPECT_EQ(index.entry(4).kind, EntryKind::empty_map);
  EXPECT_EQ(index.entry(1).list_size(), 2u);
  EXPECT_EQ(index.entry(2).kind, EntryKind::null);
  EXPECT_EQ(index.entry(0).list_size(), 0u);
  EXPECT_NO_THROW(index.validate());
}

TEST(Index, HoldsALeafAsTheRoot) {
  IndexBuilder builder;
  builder.add_integer("", 7);

  EXPECT_EQ(only(built(builder)).as_integer(), 7);
}

TEST(Index, HoldsAListAsTheRoot) {
  IndexBuilder builder;
  builder.add_list("", 1);
  builder.add_null("0");

  EXPECT_NO_THROW(built(builder).validate());
}

TEST(Index, HoldsNothing) {
  IndexBuilder builder;

  EXPECT_EQ(built(builder).size(), 0u);
}

TEST(Index, KeepsArraysWithTheirSlices) {
  IndexBuilder builder;
  const std::uint32_t first = builder.add_file("a.safetensors");
  const std::uint32_t second = builder.add_file("b.safetensors");
  builder.add_array("w", DType::float32, Dims{4, 6});
  builder.add_slice(first, 4096, Dims{0, 0}, Dims{1, 6});
  builder.add_slice(second, 8192, Dims{1, 0}, Dims{3, 6});
  builder.add_array("b", DType::bfloat16, Dims{5});
  builder.add_whole(second, 72);

  const Index index = built(builder);

  const IndexArray w = index.array(index.entry(1));
  EXPECT_EQ(w.dtype, DType::float32);
  EXPECT_THAT(w.dims, ElementsAre(4, 6));
  ASSERT_EQ(w.slice_count, 2u);
  const IndexSlice slice = index.slice(w, 1);
  EXPECT_EQ(slice.file, "b.safetensors");
  EXPECT_EQ(slice.offset, 8192u);
  EXPECT_EQ(slice.size, 72u);
  EXPECT_THAT(slice.offsets, ElementsAre(1, 0));
  EXPECT_THAT(slice.extents, ElementsAre(3, 6));
  EXPECT_NO_THROW(index.validate());
}

TEST(Index, SaysThatAWholeSliceIsWhole) {
  IndexBuilder builder;
  builder.add_array("b", DType::bfloat16, Dims{5});
  builder.add_whole(builder.add_file("f"), 72);
  const Index index = built(builder);

  const IndexSlice slice = index.slice(index.array(only(index)), 0);

  EXPECT_TRUE(slice.is_whole);
  EXPECT_EQ(slice.size, 10u);
  EXPECT_THAT(slice.extents, IsEmpty());
}

TEST(Index, SortsEntriesByTheBytesOfTheirNames) {
  IndexBuilder builder;
  for (const char* name : {"b", "a/z", "a-b", "é", "a.b", "a/b/c/d/e/f", "Z", "a/b/c/d/e/g"}) {
    builder.add_null(name);
  }

  const Index index = built(builder);

  std::vector<std::string> names;
  for (std::size_t i = 0; i < index.size(); ++i) {
    names.emplace_back(index.entry(i).name);
  }
  EXPECT_THAT(names, ElementsAre("Z", "a-b", "a.b", "a/b/c/d/e/f", "a/b/c/d/e/g", "a/z", "b", "é"));
}

TEST(Index, SortsNamesOfWhichTheSecondSharesNothingWithTheRest) {
  for (const char* second : {"a", "abcdefgh", "z"}) {
    IndexBuilder builder;
    for (const char* name : {"common/2", second, "common/1"}) {
      builder.add_null(name);
    }

    const Index index = built(builder);

    for (std::size_t i = 1; i < index.size(); ++i) {
      EXPECT_LT(index.entry(i - 1).name, index.entry(i).name) << second;
    }
  }
}

TEST(Index, KeepsValuesWithTheirNamesWhenItSorts) {
  IndexBuilder builder;
  for (int i = 999; i >= 0; --i) {
    builder.add_integer(fmt::format("layer/{}", i), i);
  }

  const Index index = built(builder);

  for (int i = 0; i < 1000; ++i) {
    const auto found = index.find(fmt::format("layer/{}", i));
    ASSERT_TRUE(found) << i;
    EXPECT_EQ(index.entry(*found).as_integer(), i);
  }
}

TEST(IndexFind, FindsNothingBesideTheNames) {
  IndexBuilder builder;
  builder.add_null("b");
  builder.add_null("d");
  const Index index = built(builder);

  for (const char* name : {"", "a", "c", "bb", "e"}) {
    EXPECT_EQ(index.find(name), std::nullopt) << name;
  }
}

TEST(IndexNextArray, VisitsArraysAndNothingElse) {
  IndexBuilder builder;
  builder.add_array("w", DType::float32, Dims{2, 3});
  builder.add_list("l", 0);
  builder.add_array("b", DType::int8, Dims{});
  builder.add_integer("a", 1);
  builder.add_null("z");
  const Index index = built(builder);
  std::vector<std::string> found;

  IndexArray array;
  std::size_t i = 0;
  for (; index.next_array(i, array); ++i) {
    found.push_back(fmt::format("{} {} of {} dimensions", i, array.name, array.dims.size()));
  }

  EXPECT_THAT(found, ElementsAre("1 b of 0 dimensions", "3 w of 2 dimensions"));
  EXPECT_EQ(i, index.size());
}

TEST(IndexNextArray, FindsWhatArrayFinds) {
  IndexBuilder builder;
  const std::uint32_t file = builder.add_file("f");
  for (const char* name : {"a", "b"}) {
    builder.add_array(name, DType::float64, Dims{4});
    builder.add_whole(file, 4096);
  }
  const Index index = built(builder);
  IndexArray found;
  std::size_t i = 1;

  ASSERT_TRUE(index.next_array(i, found));

  const IndexArray array = index.array(index.entry(1));
  EXPECT_EQ(found.name, array.name);
  EXPECT_EQ(found.dtype, array.dtype);
  EXPECT_THAT(found.dims, ElementsAre(4u));
  EXPECT_EQ(found.first_slice, array.first_slice);
  EXPECT_EQ(found.slice_count, 1u);
}

TEST(IndexNextArray, FindsNothingInAnEmptyIndex) {
  IndexBuilder builder;
  IndexArray array;
  std::size_t i = 0;

  EXPECT_FALSE(built(builder).next_array(i, array));
}

TEST(IndexOpen, TakesBytesAtAnyAddress) {
  IndexBuilder builder;
  builder.add_integer("a", 5);
  const IndexBytes built = builder.finish();
  const auto shifted = std::make_shared<std::vector<std::byte>>(built.bytes.size() + 1);
  std::memcpy(shifted->data() + 1, built.bytes.data(), built.bytes.size());

  const Index index = Index::open(shifted, std::span(*shifted).subspan(1), "index.fb");

  EXPECT_EQ(index.entry(0).as_integer(), 5);
}

TEST(IndexOpen, KeepsTheOwnerAlive) {
  IndexBuilder builder;
  builder.add_integer("a", 5);
  IndexBytes bytes = builder.finish();
  const std::weak_ptr<const void> watch = bytes.owner;
  {
    const Index index = Index::open(std::move(bytes.owner), bytes.bytes, "index.fb");

    EXPECT_FALSE(watch.expired());
  }

  EXPECT_TRUE(watch.expired());
}

TEST(IndexEntry, RefusesToBeReadAsAnotherKind) {
  IndexBuilder builder;
  builder.add_string("s", "x");
  const Index index = built(builder);
  const IndexEntry entry = only(index);

  for (const auto& read : std::vector<std::function<void()>>{
           [&] { static_cast<void>(entry.as_integer()); }, [&] { static_cast<void>(entry.as_unsigned()); },
           [&] { static_cast<void>(entry.as_double()); }, [&] { static_cast<void>(entry.as_bool()); },
           [&] { static_cast<void>(entry.list_size()); }, [&] { static_cast<void>(index.array(entry)); },
           [&] { static_cast<void>(index.bytes(entry)); }}) {
    EXPECT_THAT(read, Fails(Errc::type_mismatch, AllOf(HasSubstr("'s'"), HasSubstr("is of kind string"))));
  }
}

TEST(IndexEntry, RefusesANumberBeyondTheEnd) {
  IndexBuilder builder;

  EXPECT_THAT([&] { static_cast<void>(built(builder).entry(0)); }, Fails(Errc::invalid_argument));
}

TEST(IndexSlice, RefusesANumberBeyondTheEnd) {
  IndexBuilder builder;
  builder.add_array("a", DType::uint8, Dims{});
  const Index index = built(builder);

  EXPECT_THAT([&] { static_cast<void>(index.slice(index.array(only(index)), 0)); },
              Fails(Errc::invalid_argument, HasSubstr("slice 0 of the 0 of array 'a'")));
}

TEST(IndexBuilder, IsEmptyAfterFinish) {
  IndexBuilder builder;
  builder.add_null("a");
  static_cast<void>(builder.finish());

  EXPECT_EQ(built(builder).size(), 0u);
}

TEST(IndexBuilder, RefusesANameTwice) {
  IndexBuilder builder;
  builder.add_null("b");
  builder.add_null("a");
  builder.add_integer("b", 1);

  EXPECT_THAT([&] { static_cast<void>(builder.finish()); }, Fails(Errc::already_exists, HasSubstr("'b'")));
}

TEST(IndexBuilder, RefusesALeafWithEntriesBelowIt) {
  IndexBuilder builder;
  for (const char* name : {"a", "a-x", "aa", "a.y/z", "a/b"}) {
    builder.add_null(name);
  }

  EXPECT_THAT([&] { static_cast<void>(builder.finish()); },
              Fails(Errc::invalid_argument, HasSubstr("'a/b' lies below the leaf 'a'")));
}

TEST(IndexBuilder, RefusesALeafFarAboveAnEntry) {
  IndexBuilder builder;
  builder.add_empty_map("a");
  builder.add_null("a-/b");
  builder.add_null("a/b/c/d");

  EXPECT_THAT([&] { static_cast<void>(builder.finish()); },
              Fails(Errc::invalid_argument, HasSubstr("leaf 'a'")));
}

TEST(IndexBuilder, RefusesEntriesBesideALeafAsTheRoot) {
  IndexBuilder builder;
  builder.add_null("");
  builder.add_null("a");

  EXPECT_THAT([&] { static_cast<void>(builder.finish()); },
              Fails(Errc::invalid_argument, HasSubstr("leaf ''")));
}

TEST(IndexBuilder, TakesNamesThatOnlyLookLikeBelowALeaf) {
  IndexBuilder builder;
  for (const char* name : {"a", "a-/b", "aa", "aa-", "ab/c", "a~1b"}) {
    builder.add_null(name);
  }

  EXPECT_EQ(built(builder).size(), 6u);
}

TEST(IndexBuilder, RefusesNamesThatAreNoPaths) {
  for (const char* name : {"/a", "a//b", "~", "\xFF"}) {
    IndexBuilder builder;
    EXPECT_THAT([&] { builder.add_null(name); }, Fails(Errc::invalid_argument, HasSubstr("not a path")))
        << name;
  }
}

TEST(IndexBuilder, RefusesAStringThatIsNoUtf8) {
  IndexBuilder builder;

  EXPECT_THAT([&] { builder.add_string("s", "\xFF"); }, Fails(Errc::invalid_argument, HasSubstr("'s'")));
}

TEST(IndexBuilder, RefusesFileNamesThatArePaths) {
  IndexBuilder builder;

  for (const std::string name : {"", ".", "..", "a/b", "/a", "a\\b", "\xFF"}) {
    EXPECT_THAT([&] { static_cast<void>(builder.add_file(name)); }, Fails(Errc::invalid_argument)) << name;
  }
  EXPECT_THAT([&] { static_cast<void>(builder.add_file(std::string("a\0b", 3))); },
              Fails(Errc::invalid_argument));
  EXPECT_THAT([&] { static_cast<void>(builder.add_file(std::string(256, 'a'))); },
              Fails(Errc::invalid_argument));
}

TEST(IndexBuilder, RefusesTooManyDimensions) {
  IndexBuilder builder;

  EXPECT_THAT([&] { builder.add_array("a", DType::uint8, Dims(65, 1)); },
              Fails(Errc::invalid_argument, HasSubstr("65 dimensions")));
}

TEST(IndexBuilder, RefusesABoxBeyondTheArray) {
  IndexBuilder builder;
  const std::uint32_t file = builder.add_file("f");
  builder.add_array("a", DType::uint8, Dims{4});

  EXPECT_THAT([&] { builder.add_slice(file, 0, Dims{2}, Dims{3}); }, Fails(Errc::invalid_argument));
  EXPECT_THAT([&] { builder.add_slice(file, 0, Dims{5}, Dims{UINT64_MAX}); }, Fails(Errc::invalid_argument));
}

TEST(IndexBuilder, RefusesABoxOfAnotherRank) {
  IndexBuilder builder;
  const std::uint32_t file = builder.add_file("f");
  builder.add_array("a", DType::uint8, Dims{4});

  EXPECT_THAT([&] { builder.add_slice(file, 0, Dims{0, 0}, Dims{1, 1}); }, Fails(Errc::invalid_argument));
}

TEST(IndexBuilder, RefusesASliceOfNoArrayOrInNoFile) {
  IndexBuilder builder;
  EXPECT_THAT([&] { builder.add_whole(0, 0); }, Fails(Errc::invalid_argument));
  builder.add_array("a", DType::uint8, Dims{4});
  EXPECT_THAT([&] { builder.add_whole(0, 0); }, Fails(Errc::invalid_argument));
}

TEST(IndexBuilder, RefusesWhatExceedsItsLimit) {
  if (testing::kHasSanitizer) {
    GTEST_SKIP() << "takes 2 GiB of memory, of which a sanitizer makes more";
  }
  constexpr std::size_t kBytes = (std::size_t{1} << 31) - 512;  // Alone they fit.
  void* zeros = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(zeros, MAP_FAILED);
  IndexBuilder builder;

  builder.add_bytes("text", {static_cast<const std::byte*>(zeros), kBytes});

  EXPECT_THAT([&] { static_cast<void>(builder.finish()); },
              Fails(Errc::invalid_argument, HasSubstr("exceeds the limit of 2 GiB")));
  ::munmap(zeros, kBytes);
}

TEST(IndexBuilder, RefusesBytesThatNoIndexHoldsBeforeItLooksAtThem) {
  constexpr std::size_t kBytes = std::size_t{3} << 30;
  void* const memory = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  IndexBuilder builder;

  const auto refused = Fails(
      Errc::invalid_argument,
      HasSubstr("entry 'blob': 3221225472 bytes do not fit into the index, which holds less than 2 GiB in "
                "all; save them as an array"));
  EXPECT_THAT([&] { builder.add_bytes("blob", {static_cast<const std::byte*>(memory), kBytes}); }, refused);
  EXPECT_THAT([&] { builder.add_string("blob", {static_cast<const char*>(memory), kBytes}); }, refused);
  ::munmap(memory, kBytes);
}

TEST(IndexSize, IsAtMostEightyBytesForAnArrayOfFourDimensionsBesideItsName) {
  constexpr std::size_t kArrays = 1000;
  IndexBuilder builder;
  const std::uint32_t file = builder.add_file("f");
  std::size_t name_bytes = 0;
  for (std::size_t i = 0; i < kArrays; ++i) {
    const std::string name = fmt::format("layers/{}/weight", i);
    name_bytes += name.size();
    builder.add_array(name, DType::float32, Dims{1, 2, 3, 4});
    builder.add_whole(file, 4096 * i);
  }

  const std::size_t bytes = builder.finish().bytes.size();

  EXPECT_LE(bytes, kArrays * 80 + name_bytes);
}

}  // namespace
}  // namespace cairn::formats
