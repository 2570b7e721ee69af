// SPDX-License-Identifier: Apache-2.0
// Arrays with several names.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "formats/internal/index.hpp"
#include "formats/internal/index_builder.hpp"
#include "formats/internal/index_merge.hpp"
#include "formats/without_aliases.hpp"
#include "support/fails.hpp"

namespace cairn::formats {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

using AliasDims = std::vector<std::uint64_t>;

Index finished(IndexBuilder& builder, const std::string& path = "index.fb") {
  IndexBytes bytes = builder.finish();
  Index index = Index::open(std::move(bytes.owner), bytes.bytes, path);
  index.validate();
  return index;
}

/// "name kind", with the number behind those of arrays.
std::vector<std::string> entries_of(const Index& index) {
  std::vector<std::string> entries;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const IndexEntry entry = index.entry(i);
    EXPECT_EQ(index.find(entry.name), i);
    entries.push_back(entry.kind == EntryKind::array
                          ? fmt::format("{} {}{}", entry.name, entry.is_alias ? "alias " : "", entry.value)
                          : fmt::format("{} {}", entry.name, name(entry.kind)));
  }
  return entries;
}

void add_array(IndexBuilder& builder, std::string_view name, std::uint64_t extent = 4) {
  builder.add_array(name, DType::float32, AliasDims{extent});
  builder.add_whole(0, 4096);
}

/// Arrays at "m" and "q", and names of theirs before, between and behind all entries.
void build(IndexBuilder& builder) {
  static_cast<void>(builder.add_file("data"));
  builder.add_alias("z", "m");
  add_array(builder, "q", 7);
  builder.add_alias("a", "q");
  builder.add_integer("b", 1);
  add_array(builder, "m");
  builder.add_alias("n", "m");
  builder.add_null("o");
}

TEST(IndexAliases, AreEntriesInTheOrderOfTheirNames) {
  IndexBuilder builder;
  build(builder);

  const Index index = finished(builder);

  EXPECT_THAT(entries_of(index),
              ElementsAre("a alias 1", "b integer", "m 0", "n alias 0", "o null", "q 1", "z alias 0"));
  EXPECT_EQ(index.array_count(), 2u);
  EXPECT_EQ(index.alias_count(), 3u);
  EXPECT_THAT(index.first_names(), ElementsAre("m", "q"));
  for (const char* name : {"", "aa", "l", "nn", "zz"}) {
    EXPECT_EQ(index.find(name), std::nullopt) << name;
  }
}

TEST(IndexAliases, SayWhatTheirArraySays) {
  IndexBuilder builder;
  build(builder);
  builder.add_array("w", DType::int8, AliasDims{2});
  builder.set_layout(builder.add_layout("{}"));
  builder.add_alias("x", "w");

  const Index index = finished(builder);

  const IndexArray array = index.array(index.entry(0));
  EXPECT_EQ(array.name, "a");
  EXPECT_TRUE(array.is_alias);
  EXPECT_THAT(array.dims, ElementsAre(7));
  EXPECT_EQ(index.slice(array, 0).size, 28u);
  EXPECT_EQ(array.number, index.array(index.entry(*index.find("q"))).number);
  EXPECT_EQ(index.layout(index.entry(*index.find("x"))), "{}");
}

TEST(IndexAliases, AreVisitedWithTheArrays) {
  IndexBuilder builder;
  build(builder);
  const Index index = finished(builder);
  std::vector<std::string> found;

  IndexArray array;
  for (std::size_t i = 0; index.next_array(i, array); ++i) {
    found.push_back(fmt::format("{} {}", i, array.name));
  }

  EXPECT_THAT(found, ElementsAre("0 a", "2 m", "3 n", "5 q", "6 z"));
}

TEST(IndexAliases, MayBeAllThatComesBehindOneArray) {
  IndexBuilder builder;
  static_cast<void>(builder.add_file("data"));
  add_array(builder, "a");
  for (const char* name : {"b", "c", "d"}) {
    builder.add_alias(name, "a");
  }

  EXPECT_THAT(entries_of(finished(builder)), ElementsAre("a 0", "b alias 0", "c alias 0", "d alias 0"));
}

TEST(IndexAliases, AreSkippedByOlderPrograms) {
  IndexBuilder builder;
  build(builder);

  const Index index = testing::seen_without_aliases(builder.finish());

  index.validate();
  EXPECT_THAT(entries_of(index), ElementsAre("b integer", "m 0", "o null", "q 1"));
}

TEST(IndexAliases, BelowAListLeaveANullToOlderPrograms) {
  IndexBuilder builder;
  static_cast<void>(builder.add_file("data"));
  builder.add_list("l", 3);
  add_array(builder, "l/0");
  builder.add_alias("l/1", "l/0");
  builder.add_alias("l/2/w", "l/0");
  builder.add_alias("lx", "l/0");
  const IndexBytes bytes = builder.finish();

  const Index index = Index::open(bytes.owner, bytes.bytes, "index.fb");
  const Index older = testing::seen_without_aliases(bytes);

  index.validate();
  older.validate();
  EXPECT_THAT(entries_of(index),
              ElementsAre("l list", "l/0 0", "l/1 alias 0", "l/2/w alias 0", "lx alias 0"));
  EXPECT_THAT(entries_of(older), ElementsAre("l list", "l/0 0", "l/1 null", "l/2/w null"));
}

TEST(IndexAliases, BelowAListThatIsTheRootLeaveANullToo) {
  IndexBuilder builder;
  static_cast<void>(builder.add_file("data"));
  builder.add_alias("1", "0");
  builder.add_list("", 2);
  add_array(builder, "0");
  const IndexBytes bytes = builder.finish();

  EXPECT_THAT(entries_of(Index::open(bytes.owner, bytes.bytes, "index.fb")),
              ElementsAre(" list", "0 0", "1 alias 0"));
  EXPECT_THAT(entries_of(testing::seen_without_aliases(bytes)), ElementsAre(" list", "0 0", "1 null"));
}

TEST(IndexBuilderAliases, OfNoneTakeNoBytes) {
  IndexBuilder builder;
  static_cast<void>(builder.add_file("data"));
  add_array(builder, "m");
  const IndexBytes bytes = builder.finish();

  const Index index = testing::seen_without_aliases(bytes);

  EXPECT_THAT(entries_of(index), ElementsAre("m 0"));
}

void expect_refused(const std::function<void(IndexBuilder&)>& add, Errc code, const char* why) {
  IndexBuilder builder;
  build(builder);

  EXPECT_THAT(
      [&] {
        add(builder);
        static_cast<void>(builder.finish());
      },
      Fails(code, HasSubstr(why)));
}

TEST(IndexBuilderAliases, AreRefusedWhereTheyCannotBe) {
  const auto alias = [](const char* name, const char* array) {
    return [=](IndexBuilder& builder) { builder.add_alias(name, array); };
  };
  expect_refused(alias("c", "nobody"), Errc::invalid_argument,
                 "alias 'c' stands for 'nobody', which is not an");
  expect_refused(alias("c", "b"), Errc::invalid_argument, "alias 'c' stands for 'b', which is not an array");
  expect_refused(alias("c", "n"), Errc::invalid_argument, "alias 'c' stands for 'n', which is not an array");
  expect_refused(alias("m", "m"), Errc::already_exists, "entry 'm' is given twice");
  expect_refused(alias("b", "m"), Errc::already_exists, "entry 'b' is given twice");
  expect_refused(alias("n", "m"), Errc::already_exists, "entry 'n' is given twice");
  expect_refused(alias("m/x", "m"), Errc::invalid_argument, "entry 'm/x' lies below the leaf 'm'");
  expect_refused(alias("n/x", "m"), Errc::invalid_argument, "entry 'n/x' lies below the leaf 'n'");
  expect_refused(alias("c/", "m"), Errc::invalid_argument, "alias 'c/': the name is not a path");
  expect_refused([](IndexBuilder& builder) { builder.add_null("z/x"); }, Errc::invalid_argument,
                 "entry 'z/x' lies below the leaf 'z'");
  expect_refused(
      [](IndexBuilder& builder) {
        builder.add_null("y");
        builder.add_null("y");
      },
      Errc::already_exists, "entry 'y' is given twice");
}

/// What a rank of two says of an array of two rows, which has two names: that it has one of them.
Index of_rank_with_alias(std::uint64_t rank, const char* first = "v", const char* other = "w") {
  IndexBuilder builder;
  const std::uint32_t file = builder.add_file(fmt::format("data{}", rank));
  builder.add_array(first, DType::int8, AliasDims{2});
  builder.add_slice(file, 4096, AliasDims{rank}, AliasDims{1});
  builder.add_alias(other, first);
  if (rank == 0) {
    builder.add_integer("step", 7);
  }
  return finished(builder, fmt::format("rank {}", rank));
}

TEST(MergeIndexesWithAliases, KeepsThem) {
  const std::vector<Index> indexes = {of_rank_with_alias(0), of_rank_with_alias(1)};
  const IndexBytes bytes = merge_indexes(indexes);
  const Index merged = Index::open(bytes.owner, bytes.bytes, "index.fb");

  merged.validate();
  EXPECT_THAT(entries_of(merged), ElementsAre("step integer", "v 0", "w alias 0"));
  EXPECT_EQ(merged.array(merged.entry(2)).slice_count, 2u);
}

TEST(MergeIndexesWithAliases, KeepsWhatOneIndexHasOfAList) {
  IndexBuilder builder;
  builder.add_list("l", 2);
  const std::vector<Index> indexes = {finished(builder, "rank 0"), of_rank_with_alias(1, "l/0", "l/1")};
  const IndexBytes bytes = merge_indexes(indexes);

  EXPECT_THAT(entries_of(Index::open(bytes.owner, bytes.bytes, "index.fb")),
              ElementsAre("l list", "l/0 0", "l/1 alias 0"));
  EXPECT_THAT(entries_of(testing::seen_without_aliases(bytes)), ElementsAre("l list", "l/0 0", "l/1 null"));
}

TEST(MergeIndexesWithAliases, RefusesNamesThatDiffer) {
  IndexBuilder builder;
  builder.add_array("w", DType::int8, AliasDims{2});
  const std::vector<Index> own = {of_rank_with_alias(0), finished(builder, "rank 1")};
  const std::vector<Index> other = {of_rank_with_alias(0), of_rank_with_alias(1, "u")};

  EXPECT_THAT([&] { static_cast<void>(merge_indexes(own)); },
              Fails(Errc::type_mismatch,
                    HasSubstr("rank 1: 'w': is of kind array, of another rank an alias of 'v'")));
  EXPECT_THAT([&] { static_cast<void>(merge_indexes(other)); },
              Fails(Errc::type_mismatch,
                    HasSubstr("rank 1: 'w': is an alias of 'u', of another rank an alias of 'v'")));
}

}  // namespace
}  // namespace cairn::formats
