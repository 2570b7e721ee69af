// SPDX-License-Identifier: Apache-2.0
// How much memory files and chunks take while they are read, and those that ask for more than they should.
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <google/protobuf/arena.h>
#include <gtest/gtest.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/auto_splitter.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/chunked_file.hpp"
#include "cairn/proto/merger.hpp"
#include "cairn/records/record_options.hpp"
#include "cairn/records/record_writer.hpp"

#include "shapes.pb.h"
#include "support/fails.hpp"
#include "support/peak_memory.hpp"
#include "support/temp_dir.hpp"

namespace cairn::proto {
namespace {

using cairn::test::shapes::All;
using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_text;

/// Two records, of which the second one says that the first has so many bytes.
std::string packed_file(std::string_view options, std::string_view record, std::uint64_t claimed_bytes,
                        std::size_t bytes_behind) {
  chunked::ChunkMetadata metadata;
  metadata.mutable_message()->set_chunk_index(0);
  chunked::ChunkInfo& info = *metadata.add_chunks();
  info.set_type(chunked::ChunkInfo::MESSAGE);
  info.set_size(claimed_bytes);
  std::string file;
  auto writer = records::RecordWriter::append_to(file, records::RecordOptions::parse(options));
  info.set_offset(writer.write(record));
  writer.write(metadata.SerializeAsString() + std::string(bytes_behind, '\0'));
  writer.finish();
  return file;
}

TEST(ChunkedFileMemory, UnpacksNoMoreThanItSays) {
  if (const char* why = testing::why_no_peak_memory(); *why != '\0') {
    GTEST_SKIP() << why;
  }
  constexpr std::size_t kBomb = std::size_t{300} << 20;
  constexpr std::size_t kMostBytes = std::size_t{20} << 20;
  for (const auto& [codec, options] :
       {std::pair(records::Codec::brotli, "brotli:1"), std::pair(records::Codec::zstd, "zstd:1")}) {
    if (!records::is_built_in(codec)) {
      continue;
    }
    const std::string in_chunk = packed_file(options, std::string(kBomb, '\0'), 10, 0);
    const std::string in_metadata = packed_file(options, "", 0, kBomb);
    for (const std::string& file : {in_chunk, in_metadata}) {
      const auto read_it = [&file = file] {
        All out;
        read_string(file, out);
      };
      const std::optional<std::size_t> bytes = testing::peak_growth([&] {
        try {
          read_it();
        } catch (const Error&) {
          // Its memory is what is asked for.
        }
      });
      EXPECT_LT(bytes.value_or(kMostBytes), kMostBytes) << options;
      EXPECT_THAT(read_it, Fails(Errc::malformed_metadata, HasSubstr("most_record_bytes"))) << options;
    }
  }
}

/// A file of records, the last of which is `metadata`.
void write_records(const std::filesystem::path& path, const char* options, const std::string& record,
                   const std::string& metadata) {
  records::RecordWriter writer(path, records::RecordOptions::parse(options));
  writer.write(record);
  writer.write(metadata);
  writer.finish();
}

TEST(ChunkedFileMemory, HasALastRecordThatIsSmallBesideTheFile) {
  if (!records::is_built_in(records::Codec::zstd)) {
    GTEST_SKIP() << "zstd is not built in";
  }
  const TempDir temp;
  std::string infos;  // Of two bytes each; protobuf takes more than 40 for one.
  for (int i = 0; i < 1'000'000; ++i) {
    infos += std::string("\x12\x00", 2);
  }
  write_records(temp / "alone.cpb", "zstd:1", "", infos);
  write_records(temp / "together.cpb", "zstd:1,chunk_size:100000000", "", infos);
  All out;

  EXPECT_THAT([&] { static_cast<void>(read(temp / "alone", out)); },
              Fails(Errc::malformed_metadata, AllOf(HasSubstr("alone.cpb"), HasSubstr("1048576"))));
  EXPECT_THAT([&] { static_cast<void>(read_metadata(temp / "together")); },
              Fails(Errc::malformed_metadata,
                    AllOf(HasSubstr("together.cpb"), HasSubstr("the last record has 2000000 bytes"))));
}

TEST(ChunkedFileMemory, HasARecordForEachChunk) {
  const TempDir temp;
  All leaf;
  leaf.set_f_int32(1);
  const std::string record = leaf.SerializeAsString();
  chunked::ChunkMetadata metadata;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    chunked::ChunkInfo& info = *metadata.add_chunks();
    info.set_type(chunked::ChunkInfo::MESSAGE);
    info.set_size(record.size());
    info.set_offset(64);  // That of the first record.
    chunked::ChunkedField& field = *metadata.mutable_message()->add_chunked_fields();
    field.add_field_tag()->set_field(
        static_cast<std::uint32_t>(All::descriptor()->FindFieldByName("r_all")->number()));
    field.add_field_tag()->set_index(i);
    field.mutable_message()->set_chunk_index(i);
  }
  write_records(temp / "model.cpb", "uncompressed", record, metadata.SerializeAsString());
  All out;

  EXPECT_THAT(
      [&] { static_cast<void>(read(temp / "model", out)); },
      Fails(Errc::malformed_metadata, AllOf(HasSubstr("model.cpb"), HasSubstr("are both the record at 64"))));
}

TEST(ChunkedFileMemory, IsRefusedWhereItHasMoreBytesThanAreAllowed) {
  const TempDir temp;
  All message;
  message.set_f_string(std::string(1000, 'x'));
  SplitOptions cuts;
  cuts.max_size = 100;
  AutoSplitter(message, cuts).write(temp / "model");
  MergeOptions options;
  options.most_bytes = 500;
  All out;

  EXPECT_THAT(
      [&] { static_cast<void>(read(temp / "model", out, options)); },
      Fails(Errc::malformed_metadata, AllOf(HasSubstr("model.cpb"), HasSubstr("MergeOptions::most_bytes"))));
}

TEST(ChunkedFileMemory, IsNamedWhereItDoesNotFitIntoMemory) {
  if (const char* why = testing::why_no_peak_memory(); *why != '\0') {
    GTEST_SKIP() << why;
  }
  if (!records::is_built_in(records::Codec::zstd)) {
    GTEST_SKIP() << "zstd is not built in";
  }
  constexpr std::size_t kBytes = std::size_t{400} << 20;
  const TempDir temp;
  write_text(temp / "model.cpb", packed_file("zstd:1", std::string(kBytes, '\0'), kBytes, 0));

  const auto growth = testing::peak_growth([&] {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + kBytes / 4;
    const rlimit limit{most, most};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) {
      throw std::runtime_error("there is no limit on addresses");
    }
    MergeOptions options;
    options.threads = 1;
    options.most_bytes = 2 * kBytes;
    All out;
    try {
      static_cast<void>(read(temp / "model", out, options));
    } catch (const Error& error) {
      if (error.code() == std::errc::not_enough_memory &&
          error.detail().find("model.cpb") != std::string::npos) {
        return;
      }
      throw;
    }
    throw std::runtime_error("it was read");
  });

  EXPECT_TRUE(growth);  // Nothing where `read` did not say so.
}

/// A message with a list in several pages, and its tree; the pages have numbers, or a string as well.
std::vector<std::string> pages_of_numbers(chunked::ChunkMetadata& stored) {
  std::vector<std::string> pages;
  for (int page = 0; page < 20; ++page) {
    All part;
    for (int i = 0; i < 100; ++i) {
      part.add_r_double(100 * page + i);
    }
    if (page % 7 == 3) {
      part.set_f_string(std::to_string(page));
    }
    pages.push_back(part.SerializeAsString());
    chunked::ChunkInfo& info = *stored.add_chunks();
    info.set_type(chunked::ChunkInfo::MESSAGE);
    info.set_size(pages.back().size());
    const auto chunk = static_cast<std::uint64_t>(page);
    if (page == 0) {
      stored.mutable_message()->set_chunk_index(chunk);
    } else {
      stored.mutable_message()->add_chunked_fields()->mutable_message()->set_chunk_index(chunk);
    }
  }
  return pages;
}

TEST(MergerMemory, PutsPagesOfNumbersInOrderHoweverTheyCome) {
  chunked::ChunkMetadata stored;
  const std::vector<std::string> pages = pages_of_numbers(stored);
  for (const std::size_t step : {1U, 3U, 19U}) {  // None has a divisor in common with 20.
    for (const bool in_arena : {false, true}) {
      google::protobuf::Arena arena;
      All own;
      All& out = in_arena ? *google::protobuf::Arena::CreateMessage<All>(&arena) : own;
      Merger merger(stored, out);

      for (std::size_t i = 0, page = 0; i < pages.size(); ++i, page = (page + step) % pages.size()) {
        merger.add(page, std::as_bytes(std::span(pages[page])));
      }
      static_cast<void>(merger.finish());

      ASSERT_EQ(out.r_double_size(), 2000);
      for (int i = 0; i < 2000; ++i) {
        ASSERT_EQ(out.r_double(i), i) << step;
      }
      EXPECT_EQ(out.f_string(), "17");
    }
  }
}

TEST(MergerMemory, HasAListOfNumbersInMemoryOnce) {
  if (const char* why = testing::why_no_peak_memory(); *why != '\0') {
    GTEST_SKIP() << why;
  }
  constexpr std::size_t kPages = 50;
  constexpr int kNumbers = 1 << 19;  // 2 MiB a page.
  constexpr std::size_t kListBytes = kPages * kNumbers * sizeof(float);
  All page;
  page.mutable_r_float()->Resize(kNumbers, 1.0F);
  const std::string bytes = page.SerializeAsString();
  chunked::ChunkMetadata stored;
  stored.mutable_message()->set_chunk_index(0);
  for (std::size_t i = 0; i < kPages; ++i) {
    chunked::ChunkInfo& info = *stored.add_chunks();
    info.set_type(chunked::ChunkInfo::MESSAGE);
    info.set_size(bytes.size());
    if (i > 0) {
      stored.mutable_message()->add_chunked_fields()->mutable_message()->set_chunk_index(i);
    }
  }

  const std::optional<std::size_t> growth = testing::peak_growth([&] {
    All out;
    Merger merger(stored, out);
    for (std::size_t i = 0; i < kPages; ++i) {
      merger.add(i, std::as_bytes(std::span(bytes)));
    }
    static_cast<void>(merger.finish());
    if (out.r_float_size() != static_cast<int>(kPages) * kNumbers) {
      throw std::runtime_error("the list is another");
    }
  });

  const std::size_t most_bytes = kListBytes + (std::size_t{24} << 20);
  EXPECT_LT(growth.value_or(most_bytes), most_bytes);
}

}  // namespace
}  // namespace cairn::proto
