// SPDX-License-Identifier: Apache-2.0
// Files that riegeli has written, and what it has said of them.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/records/record_reader.hpp"

#include "records/layout.hpp"
#include "records/records_file.hpp"
#include "support/fails.hpp"
#include "support/sha256.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace cairn::records {
namespace {

using ::testing::ElementsAreArray;
using testing::Fails;
using ::testing::HasSubstr;
using testing::read_text;
using testing::sha256;

std::filesystem::path folder() {
  return testing::test_data() / "riegeli";
}

struct FixtureFile {
  std::string name;
  std::filesystem::path path;
  nlohmann::json facts;
  bool is_transposed = false;
  std::string codec;  ///< The letter of its chunks; empty: not packed.
};

void PrintTo(const FixtureFile& file, std::ostream* out) {
  *out << file.name;
}

nlohmann::json read_facts(const char* name) {
  return nlohmann::json::parse(read_text(folder() / name)).at("files");
}

std::vector<FixtureFile> fixture_files(bool is_transposed) {
  std::vector<FixtureFile> files;
  const nlohmann::json all = read_facts("expected.json");
  for (const auto& [name, facts] : all.items()) {
    FixtureFile file{name, folder() / name, facts, false, ""};
    for (const auto& chunk : facts.at("chunks")) {
      file.is_transposed = file.is_transposed || chunk.at("type") == "t";
      if (chunk.value("compression", "none") != "none") {
        file.codec = chunk.at("compression");
      }
    }
    if (file.is_transposed == is_transposed && std::filesystem::exists(file.path)) {
      files.push_back(file);
    }
  }
  return files;
}

bool can_read(const FixtureFile& file) {
  return (file.codec != "b" || is_built_in(Codec::brotli)) &&
         (file.codec != "z" || is_built_in(Codec::zstd)) && (file.codec != "s" || is_built_in(Codec::snappy));
}

std::string number_bytes(std::uint64_t number) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) {
    bytes += static_cast<char>(number >> shift);
  }
  return bytes;
}

std::string to_hex(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) {
    hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return hex;
}

class RecordsFixture : public ::testing::TestWithParam<FixtureFile> {
 protected:
  void SetUp() override {
    if (!can_read(GetParam())) {
      GTEST_SKIP() << "this build has no codec '" << GetParam().codec << "'";
    }
  }
};

TEST_P(RecordsFixture, GivesTheRecordsAndPositionsThatItsWriterGave) {
  const nlohmann::json& facts = GetParam().facts;
  RecordReader reader(GetParam().path);

  const ReadRecords all = read_all(reader);

  std::string records;
  std::string positions;
  for (std::size_t i = 0; i < all.records.size(); ++i) {
    records += number_bytes(all.records[i].size()) + all.records[i];
    positions += number_bytes(all.positions[i]);
  }
  EXPECT_EQ(all.records.size(), facts.at("records"));
  EXPECT_EQ(sha256(records), facts.at("all_records_sha256"));
  EXPECT_EQ(sha256(positions), facts.at("positions_sha256"));
}

TEST_P(RecordsFixture, HasTheChunksThatItsWriterMade) {
  RecordReader reader(GetParam().path);
  reader.seek(0);

  for (const auto& expected : GetParam().facts.at("chunks")) {
    const std::optional<ChunkDescription> chunk = reader.next_chunk();
    ASSERT_TRUE(chunk.has_value());
    EXPECT_EQ(chunk->begin, expected.at("begin"));
    EXPECT_EQ(std::string(1, chunk->type), expected.at("type"));
    EXPECT_EQ(chunk->data_bytes, expected.at("data_size"));
    EXPECT_EQ(chunk->records, expected.at("records"));
    EXPECT_EQ(chunk->decoded_bytes, expected.at("decoded_size"));
  }
  EXPECT_EQ(reader.next_chunk(), std::nullopt);
}

TEST_P(RecordsFixture, SeeksToEachRecordAndBehindEach) {
  RecordReader reader(GetParam().path);
  const ReadRecords all = read_all(reader);
  const std::size_t step = all.records.size() > 1000 ? 97 : 1;

  for (std::size_t i = all.records.size(); i-- > 0;) {
    if (i % step != 0) {
      continue;
    }
    const std::uint64_t next_chunk = i + 1 < all.records.size() ? all.positions[i + 1] : reader.file_bytes();
    for (const std::uint64_t position : {all.positions[i], all.positions[i] + 1, next_chunk}) {
      std::string record;
      reader.seek(position);
      const bool is_there = reader.next(record);
      const std::size_t expected = position == all.positions[i] ? i : i + 1;
      ASSERT_EQ(is_there, expected < all.records.size()) << position;
      ASSERT_TRUE(!is_there || record == all.records[expected]) << position;
      ASSERT_TRUE(!is_there || reader.position() == all.positions[expected]) << position;
    }
  }
}

TEST_P(RecordsFixture, FindsTheLastRecord) {
  RecordReader reader(GetParam().path);
  const ReadRecords all = read_all(reader);

  EXPECT_EQ(reader.seek_to_last(), !all.records.empty());
  if (!all.records.empty()) {
    std::string_view record;
    ASSERT_TRUE(reader.next(record));
    EXPECT_EQ(record, all.records.back());
    EXPECT_EQ(reader.position(), GetParam().facts.at("last_position"));
    EXPECT_FALSE(reader.next(record));
  }
}

TEST_P(RecordsFixture, ReadsTheSameFromMemory) {
  const std::string bytes = read_text(GetParam().path);
  RecordReader from_file(GetParam().path);
  RecordReader from_memory(bytes_of(bytes));

  EXPECT_EQ(read_all(from_file).records, read_all(from_memory).records);
}

TEST_P(RecordsFixture, IsWrittenTheSame) {
  const nlohmann::json& facts = GetParam().facts;
  const std::string options = facts.at("options");
  if (!facts.at("file_comment").is_null() || options.find("pad") != std::string::npos) {
    return;  // Metadata and padding are not written.
  }
  RecordReader reader(GetParam().path);
  const ReadRecords all = read_all(reader);

  const WrittenRecords written =
      write_all(all.records, options.empty() && !GetParam().codec.empty() ? "default" : options);

  EXPECT_EQ(read_all(written.file).records, all.records);
  if (GetParam().codec.empty()) {
    EXPECT_TRUE(written.file == read_text(GetParam().path));
    EXPECT_EQ(written.positions, all.positions);
  }
}

TEST_P(RecordsFixture, NoByteIsChangedUnseen) {
  const std::string bytes = read_text(GetParam().path);
  if (bytes.size() > 10000) {
    return;  // Large ones say no more.
  }
  const std::vector<std::string> before = read_all(bytes).records;

  for (std::size_t i = 0; i < bytes.size(); i += 1 + bytes.size() / 300) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    bool is_refused = false;
    std::vector<std::string> records;
    try {
      records = read_all(changed).records;
    } catch (const Error&) {
      is_refused = true;
    }
    // Zeros behind a chunk of many small records have no hash.
    ASSERT_TRUE(is_refused || records == before) << i;
  }
}

TEST_P(RecordsFixture, IsRefusedWhenItIsCut) {
  const std::string bytes = read_text(GetParam().path);
  const auto chunks = GetParam().facts.at("chunks");
  for (std::size_t size = bytes.size() > 10000 ? bytes.size() - 200 : 0; size < bytes.size();
       size += 1 + bytes.size() / 300) {
    const bool is_end_of_chunk = std::any_of(chunks.begin(), chunks.end(),
                                             [&](const auto& chunk) { return chunk.at("begin") == size; });
    if (!is_end_of_chunk || size == 0) {
      ASSERT_THAT([&] { read_all(std::string_view(bytes).substr(0, size)); }, Fails(Errc::malformed_metadata))
          << size;
    }
  }
}

std::string fixture_name(const ::testing::TestParamInfo<FixtureFile>& info) {
  std::string name = info.param.name.substr(0, info.param.name.find('.'));
  name.erase(std::remove(name.begin(), name.end(), '_'), name.end());
  return name;
}

INSTANTIATE_TEST_SUITE_P(Riegeli, RecordsFixture, ::testing::ValuesIn(fixture_files(false)), fixture_name);

TEST(RecordsTransposed, AreRefusedByNameWithTheirPosition) {
  const std::vector<FixtureFile> files = fixture_files(true);
  for (const FixtureFile& file : files) {
    std::string record;
    RecordReader reader(file.path);
    EXPECT_THAT([&] { static_cast<void>(reader.next(record)); },
                Fails(Errc::feature_missing, HasSubstr("at 64: this is a transposed chunk")));
    EXPECT_TRUE(reader.next_chunk().has_value()) << "tools list them";
  }
  EXPECT_FALSE(files.empty());
}

TEST(RecordsOfArrayRecord, AreReadUpToTheFirstTransposedChunk) {
  const nlohmann::json all = read_facts("expected_array_record.json");
  for (const auto& [name, facts] : all.items()) {
    RecordReader reader(folder() / (name + ".array_record"));
    std::vector<std::string> records;
    try {
      for (std::string record; reader.next(record);) {
        records.push_back(to_hex(record));
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::feature_missing) << error.what();
    }
    const std::vector<std::string> expected = facts.at("user_records_hex");
    if (name == "array_record_zstd" && is_built_in(Codec::zstd)) {
      ASSERT_GE(records.size(), expected.size());
      records.resize(expected.size());
      EXPECT_EQ(records, expected);
    }
  }
}

}  // namespace
}  // namespace cairn::records
