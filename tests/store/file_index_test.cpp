// SPDX-License-Identifier: Apache-2.0
#include "store/file_index.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace cairn::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

/// Counts how often names are compared.
struct CountingLess {
  using is_transparent = void;

  bool operator()(std::string_view a, std::string_view b) const {
    ++comparisons;
    return a < b;
  }

  static inline std::uint64_t comparisons = 0;
};

FileEntry file_of(const std::string& path, std::uint64_t bytes) {
  FileEntry entry;
  entry.path = path;
  entry.size_bytes = bytes;
  return entry;
}

std::vector<FileEntry> files_of(std::size_t items) {
  std::vector<FileEntry> files;
  for (std::size_t i = 0; i < items; ++i) {
    files.push_back(file_of(fmt::format("item{}/a.bin", i), 1));
    files.push_back(file_of(fmt::format("item{}/b.bin", i), 1));
  }
  return files;
}

/// What a load of all asks of the index; returns the comparisons that it takes.
std::uint64_t comparisons_of_a_load(std::size_t items) {
  const std::vector<FileEntry> files = files_of(items);
  CountingLess::comparisons = 0;
  const FileIndex<CountingLess> index(files);
  for (std::size_t i = 0; i < items; ++i) {
    EXPECT_THAT(index.below(fmt::format("item{}", i)), ElementsAre("a.bin", "b.bin"));
  }
  for (const FileEntry& file : files) {
    EXPECT_NE(index.find(file.path), nullptr);
  }
  return CountingLess::comparisons;
}

TEST(FileIndex, FindsFilesAndTheirChunks) {
  const std::vector<FileEntry> files{file_of("z/big", 3 * io::kChunkBytes + 1), file_of("a/empty", 0),
                                     file_of("a/small", 5)};
  const FileIndex<> index(files);

  ASSERT_NE(index.find("a/small"), nullptr);
  EXPECT_EQ(index.find("a/small")->position, 2u);
  EXPECT_EQ(index.find("a/small")->first_chunk, 4u);
  EXPECT_EQ(index.find("a/smal"), nullptr);
  EXPECT_EQ(index.table_bytes(0), chunk_tables(files).at(0));
}

TEST(FileIndex, CountsTheChunksOfEachRankApart) {
  std::vector<FileEntry> files{file_of("a", 3 * io::kChunkBytes), file_of("b", 1), file_of("c", 1),
                               file_of("d", 0)};
  files[1].rank = 2;
  files[3].rank = 1;
  const FileIndex<> index(files);

  EXPECT_EQ(index.find("b")->first_chunk, 0u);
  EXPECT_EQ(index.find("c")->first_chunk, 3u);
  EXPECT_EQ(index.table_bytes(0), 32u);
  EXPECT_EQ(index.table_bytes(1), 0u);
  EXPECT_EQ(index.table_bytes(2), 8u);
  EXPECT_THAT(chunk_tables(files), ElementsAre(Pair(0u, 32u), Pair(1u, 0u), Pair(2u, 8u)));
}

TEST(FileIndex, ListsWhatIsBelowADirectoryAndNothingElse) {
  const std::vector<FileEntry> files{file_of("b/2", 0), file_of("b/1/deep", 0), file_of("b", 0),
                                     file_of("b2/x", 0), file_of("a/b/3", 0)};
  const FileIndex<> index(files);

  EXPECT_THAT(index.below("b"), ElementsAre("1/deep", "2"));
  EXPECT_THAT(index.below("c"), IsEmpty());
}

TEST(FileIndex, TakesTenTimesAsLongForTenTimesAsManyFiles) {
  const std::uint64_t few = comparisons_of_a_load(500);
  const std::uint64_t many = comparisons_of_a_load(5000);

  // Of a tree, which grows a little deeper.
  EXPECT_LE(many, few * 15);
}

}  // namespace
}  // namespace cairn::store
