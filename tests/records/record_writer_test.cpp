// SPDX-License-Identifier: Apache-2.0
#include "cairn/records/record_writer.hpp"

#include <array>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "io/faulty_syscalls.hpp"
#include "records/internal/records.hpp"
#include "records/records_file.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::records {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::Fails;
using testing::list_tree;
using testing::read_text;
using testing::TempDir;
using testing::write_text;

std::vector<std::string> options_of_all_codecs() {
  std::vector<std::string> all = {"uncompressed"};
  for (const Codec codec : {Codec::brotli, Codec::zstd, Codec::snappy}) {
    if (is_built_in(codec)) {
      all.emplace_back(name(codec));
    }
  }
  return all;
}

/// A text of pieces that lie elsewhere in it, too.
std::string random_text(std::mt19937_64& random, std::size_t bytes) {
  std::string pieces(4096, '\0');
  const std::uint64_t letters = 1 + random() % 64;
  for (char& letter : pieces) {
    letter = static_cast<char>(random() % letters);
  }
  std::string text;
  while (text.size() < bytes) {
    text.append(pieces, random() % 2048, 1 + random() % 2048);
  }
  text.resize(bytes);
  return text;
}

class RecordWriterCodecs : public ::testing::TestWithParam<std::string> {};

TEST_P(RecordWriterCodecs, RandomRecordsComeBackAndAreFoundByTheirPositions) {
  std::mt19937_64 random(7);
  for (const std::uint64_t chunk_bytes : {1, 100, 4096, 65536, 1 << 20}) {
    std::vector<std::string> records;
    for (std::size_t bytes = 0; bytes < 400'000;) {
      records.push_back(random_text(random, random() % 8 == 0 ? random() % 70'000 : random() % 100));
      bytes += records.back().size() + 50;
    }

    const WrittenRecords written =
        write_all(records, GetParam() + ",chunk_size:" + std::to_string(chunk_bytes));
    const ReadRecords read = read_all(written.file);

    ASSERT_TRUE(read.records == records) << chunk_bytes;
    ASSERT_EQ(read.positions, written.positions) << chunk_bytes;
    RecordReader reader(bytes_of(written.file));
    for (int i = 0; i < 50; ++i) {
      const std::size_t number = random() % records.size();
      std::string record;
      reader.seek(written.positions[number]);
      ASSERT_TRUE(reader.next(record));
      ASSERT_TRUE(record == records[number]) << chunk_bytes;
    }
  }
}

TEST_P(RecordWriterCodecs, RecordsAroundTheSizesOfBlocksAndChunksComeBack) {
  std::mt19937_64 random(8);
  for (const std::size_t around : {std::size_t{65536}, std::size_t{1} << 20}) {
    std::vector<std::string> records;
    for (int offset = -150; offset <= 100; offset += around == 65536 ? 1 : 50) {
      records.push_back(random_text(random, around + static_cast<std::size_t>(offset + 150) - 150));
    }

    const WrittenRecords written = write_all(records, GetParam() + ",chunk_size:1M");

    ASSERT_TRUE(read_all(written.file).records == records) << around;
  }
}

TEST_P(RecordWriterCodecs, ManyEmptyRecordsHavePositionsOfTheirOwn) {
  const std::vector<std::string> records(std::size_t{1} << 20);

  const WrittenRecords written = write_all(records, GetParam());

  EXPECT_EQ(read_all(written.file).positions, written.positions);
}

TEST_P(RecordWriterCodecs, ARecordMayLieInSeveralPlaces) {
  const std::string large(100'000, 'x');
  const std::vector<std::span<const std::byte>> parts = {bytes_of("a"), {}, bytes_of(large), bytes_of("b")};
  std::string file;
  RecordWriter writer = RecordWriter::append_to(file, RecordOptions::parse(GetParam() + ",chunk_size:4k"));

  writer.write("first");
  writer.write(parts);
  writer.write(std::span(parts).first(2));
  writer.finish();

  EXPECT_THAT(read_all(file).records, ElementsAre("first", "a" + large + "b", "a"));
}

std::string word_of(const ::testing::TestParamInfo<std::string>& info) {
  return info.param;
}

INSTANTIATE_TEST_SUITE_P(Built, RecordWriterCodecs, ::testing::ValuesIn(options_of_all_codecs()), word_of);

TEST(RecordWriter, WritesTheBytesThatRiegeliWrites) {
  const WrittenRecords written = write_all({"piece-1", "piece-2", "piece-3"}, "");

  EXPECT_EQ(written.file.size(), 130U);
  EXPECT_EQ(written.file.substr(64 + 40), std::string("\0\3\7\7\7", 5) + "piece-1piece-2piece-3");
  EXPECT_EQ(written.file.substr(0, 8), "\x83\xaf\x70\xd1\x0d\x88\x4a\x3f");
  EXPECT_EQ(written.file.substr(64, 8), "\x4d\x16\xc8\xef\xfc\xed\x34\xc7");
  EXPECT_THAT(written.positions, ElementsAre(64, 65, 66));
}

TEST(RecordWriter, AppendsToWhatAStringHas) {
  std::string text = "before";
  RecordWriter writer = RecordWriter::append_to(text);

  EXPECT_EQ(writer.write("a"), 64U);
  writer.finish();

  EXPECT_THAT(read_all(std::string_view(text).substr(6)).records, ElementsAre("a"));
}

TEST(RecordWriter, IsClosedByFinish) {
  std::string file;
  RecordWriter writer = RecordWriter::append_to(file);
  writer.finish();

  EXPECT_THAT([&] { writer.write("a"); }, Fails(Errc::closed));
  EXPECT_THAT([&] { writer.finish(); }, Fails(Errc::closed));
}

TEST(RecordWriter, ChecksOptionsThatNoTextHasHad) {
  const TempDir temp;
  RecordOptions level;
  level.level = 3;
  RecordOptions window;
  window.codec = Codec::snappy;
  window.window_log = 20;

  EXPECT_THAT([&] { RecordWriter(temp / "file", level); }, Fails(Errc::invalid_argument));
  EXPECT_THROW(RecordWriter(temp / "file", window), Error);
  EXPECT_THAT(list_tree(temp.path()), ElementsAre());
}

TEST(RecordWriter, RefusesMoreThanSnappyCanPackTogether) {
  if (!is_built_in(Codec::snappy)) {
    GTEST_SKIP() << "this build has no snappy";
  }
  const std::string part(std::size_t{1} << 20, 'x');
  const std::vector<std::span<const std::byte>> parts(4096, bytes_of(part));
  std::string file;
  RecordWriter writer = RecordWriter::append_to(file, RecordOptions::parse("snappy"));

  EXPECT_THAT([&] { writer.write(parts); },
              Fails(Errc::invalid_argument, ::testing::HasSubstr("4294967296")));
}

TEST(RecordWriterFile, ReplacesWhatIsThereOnlyWithFinish) {
  const TempDir temp;
  write_text(temp / "file", "old");
  {
    RecordWriter dropped(temp / "file");
    dropped.write(std::string(100'000, 'x'));
    EXPECT_EQ(read_text(temp / "file"), "old");
    EXPECT_EQ(list_tree(temp.path()).size(), 2U);
  }
  EXPECT_THAT(list_tree(temp.path()), ElementsAre("file"));
  RecordWriter writer(temp / "file");

  writer.write("a");
  writer.write(std::string(100'000, 'x'));
  writer.finish();

  EXPECT_THAT(list_tree(temp.path()), ElementsAre("file"));
  RecordReader reader(temp / "file");
  EXPECT_THAT(read_all(reader).records, ElementsAre("a", std::string(100'000, 'x')));
}

TEST(RecordWriterFile, TakesRecordsAbove4GiB) {
  if (std::getenv("CAIRN_LARGE_MESSAGES") == nullptr) {
    GTEST_SKIP() << "needs CAIRN_LARGE_MESSAGES, 5 GiB of memory and as much of a disk";
  }
  std::mt19937_64 random(9);
  const std::string part = random_text(random, (std::size_t{1} << 20) - 1);
  const std::vector<std::span<const std::byte>> parts(4100, bytes_of(part));
  for (const std::string options : {"uncompressed", is_built_in(Codec::zstd) ? "zstd:1" : "uncompressed"}) {
    const TempDir temp;
    RecordWriter writer(temp / "file", RecordOptions::parse(options));
    writer.write("before");
    const std::uint64_t position = writer.write(parts);
    writer.write("behind");
    writer.finish();

    RecordReader reader(temp / "file");
    std::string record;
    reader.seek(position);
    ASSERT_TRUE(reader.next(record)) << options;
    ASSERT_EQ(record.size(), parts.size() * part.size());
    for (std::size_t at = 0; at < record.size(); at += part.size()) {
      ASSERT_EQ(record.compare(at, part.size(), part), 0) << options << ' ' << at;
    }
    ASSERT_TRUE(reader.next(record));
    EXPECT_EQ(record, "behind");
  }
}

// The n-th call of each kind fails: then the old file is there and nothing else, or the new one, whole.
TEST(RecordWriterFile, IsTheOldOneOrTheNewOneWhateverFails) {
  const std::string contents = write_all({"a", std::string(300'000, 'x'), "b"}, "").file;
  for (const io::Call call : io::kAllCalls) {
    for (int first = 1, hits = 1; hits > 0 && first < 200; ++first) {
      const TempDir temp;
      write_text(temp / "file", "old");
      io::FaultySyscalls syscalls;
      syscalls.plan({call, first, 1, -EIO});
      bool is_done = false;
      try {
        RecordWriter writer = create_records(syscalls, temp / "file");
        writer.write("a");
        writer.write(std::string(300'000, 'x'));
        writer.write("b");
        writer.finish();
        is_done = true;
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code().value(), EIO) << error.what();
      }
      hits = syscalls.hits();
      const std::string there = read_text(temp / "file");
      EXPECT_TRUE(there == contents || (there == "old" && !is_done))
          << static_cast<int>(call) << " " << first;
      if (call != io::Call::unlink) {
        EXPECT_THAT(list_tree(temp.path()), ElementsAre("file")) << static_cast<int>(call) << " " << first;
      }
    }
  }
}

TEST(RecordWriterFile, WritesManyBlocksTogether) {
  const TempDir temp;
  io::FaultySyscalls syscalls;
  RecordWriter writer = create_records(syscalls, temp / "file");
  const int calls = syscalls.calls();

  writer.write(std::string(16'000'000, 'x'));  // In 245 blocks, each with a header.

  EXPECT_LE(syscalls.calls() - calls, 20);
}

TEST(RecordWriterFile, AfterAnErrorNothingWorks) {
  const TempDir temp;
  io::FaultySyscalls syscalls;
  RecordWriter writer = create_records(syscalls, temp / "file");
  syscalls.plan({io::Call::write, 1, 1, -ENOSPC});
  EXPECT_THROW(writer.write(std::string(3'000'000, 'x')), Error);

  EXPECT_THAT([&] { writer.write("a"); }, Fails(Errc::io_failure));
  EXPECT_THAT([&] { writer.finish(); }, Fails(Errc::io_failure));
}

}  // namespace
}  // namespace cairn::records
