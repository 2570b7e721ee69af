// SPDX-License-Identifier: Apache-2.0
// Protobuf messages in chunks, and files of records.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <nlohmann/json.hpp>

#include "cairn/cairn.hpp"
#include "cairn/handlers/proto.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/chunked_file.hpp"
#include "cairn/records/record_options.hpp"
#include "cairn/records/record_reader.hpp"
#include "cairn/records/record_writer.hpp"

#include "base/internal/packed.hpp"
#include "cli/run_cli.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace cairn::cli {
namespace {

using google::protobuf::Struct;
using nlohmann::json;
using ::testing::AllOf;
using testing::CliResult;
using ::testing::HasSubstr;
using testing::read_text;
using testing::run_cli;
using testing::TempDir;
using testing::write_text;

class CliChunks : public ::testing::Test {
 protected:
  CliChunks() {
    fields(message_)["a"].set_string_value(std::string(500'000, 'a'));
    fields(message_)["b"].set_number_value(1);
    fields(message_)["c"].set_string_value(std::string(600'000, 'c'));
    save(path(), message_, 0);
  }

  static google::protobuf::Map<std::string, google::protobuf::Value>& fields(Struct& message) {
    return *message.mutable_fields();
  }

  static void save(const std::string& path, const Struct& message, std::uint64_t chunked_from) {
    ContextOptions options;
    options.engine = io::EngineKind::threads;
    options.registry.add<ProtoHandler>();
    ProtoOptions proto;
    proto.chunked_from_bytes = chunked_from;
    SaveOptions save_options;
    save_options.handler_options.set(proto);
    save_checkpointables(path, {{"settings", message}}, save_options, Context(std::move(options)));
  }

  [[nodiscard]] std::string path() const { return directory_ / "7"; }

  /// Exports the message to a file of this name; returns its path without the ending.
  std::string exported(const std::string& name) {
    const CliResult result = run_cli({"export", path(), directory_ / name});
    EXPECT_EQ(result.status, 0) << result.err;
    return (directory_ / std::filesystem::path(name).stem().string()).string();
  }

  TempDir directory_;
  Struct message_;
};

TEST_F(CliChunks, InspectShowsEachChunkWithItsPath) {
  const CliResult result = run_cli({"inspect", path()});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("settings  cairn.proto/2"),
                                HasSubstr("3 chunks, 1.0 MiB; splitter version 1, join version 0"),
                                HasSubstr("the message itself        message       30 B\n"),
                                HasSubstr("fields[\"a\"].string_value  bytes    488.3 KiB")));
}

TEST_F(CliChunks, InspectGivesChunksAsJsonInTheWordsOfTheSchema) {
  const CliResult result = run_cli({"inspect", path(), "--json"});

  ASSERT_EQ(result.status, 0) << result.err;
  const json item = json::parse(result.out)["checkpointables"]["settings"];
  EXPECT_EQ(item["version"], (json{{"splitter_version", 1}, {"join_version", 0}}));
  ASSERT_EQ(item["chunks"].size(), 3U);
  EXPECT_EQ(item["chunks"][0]["type"], "MESSAGE");
  EXPECT_EQ(item["chunks"][0]["path"], "");
  EXPECT_EQ(item["chunks"][2]["type"], "BYTES");
  EXPECT_EQ(item["chunks"][2]["size"], 600'000);
  EXPECT_EQ(item["chunks"][2]["offset"].get<std::uint64_t>() % 64, 0U);
  EXPECT_THAT(
      item["chunked_message"].get<std::string>(),
      HasSubstr("field_tag { map_key { s: \"c\" } } field_tag { field: 3 } message { chunk_index: 2 }"));
}

TEST_F(CliChunks, InspectShowsTheFilesOfTensorFlowAsTheyWereMade) {
  if (!records::is_built_in(records::Codec::brotli)) {
    GTEST_SKIP() << "the files are packed with brotli, which is not built in";
  }
  const std::filesystem::path file = testing::test_data() / "proto_splitter/large_constants/python.cpb";

  const CliResult result = run_cli({"inspect", file, "--json"});

  ASSERT_EQ(result.status, 0) << result.err;
  const json found = json::parse(result.out);
  EXPECT_EQ(found["size"], 2882);
  EXPECT_EQ(found["records"], 4);
  EXPECT_EQ(found["last_position"], 67);
  EXPECT_EQ(found["chunks"][1],
            (json{{"type", "BYTES"}, {"offset", 65}, {"size", 1200}, {"path", "1[2].5[\"value\"].8.4"}}));
  EXPECT_THAT(found["chunked_message"].get<std::string>(),
              HasSubstr("chunk_index: 0 chunked_fields { field_tag { field: 1 } field_tag { index: 2 }"));
  EXPECT_EQ(found["file_chunks"][1]["compression"], "b");
  EXPECT_THAT(run_cli({"inspect", file}).out, AllOf(HasSubstr("riegeli/records, 2.8 KiB, 4 records"),
                                                    HasSubstr("1[2].5[\"value\"].8.4"), HasSubstr("brotli")));
}

TEST_F(CliChunks, InspectGivesTheChunksOfFilesOfRecordsInTheirWords) {
  const std::filesystem::path folder = testing::test_data() / "riegeli";
  json expected = json::parse(read_text(folder / "expected.json"))["files"];
  for (auto& [name, file] : expected.items()) {
    if (!std::filesystem::exists(folder / name)) {
      continue;
    }
    SCOPED_TRACE(name);
    for (json& chunk : file["chunks"]) {
      chunk.erase("zeros");  // Of padding; its data is not read.
    }
    const CliResult result = run_cli({"inspect", folder / name, "--json"});

    ASSERT_EQ(result.status, 0) << result.err;
    const json found = json::parse(result.out);
    for (const char* key : {"size", "records", "last_position", "chunks"}) {
      EXPECT_EQ(found[key], file[key]) << key;
    }
  }
}

TEST_F(CliChunks, ExportMakesAFileOfChunksThatIsReadAgain) {
  const std::string prefix = exported("out.cpb");

  Struct read;
  static_cast<void>(proto::read(prefix, read));
  EXPECT_EQ(read.fields().at("c").string_value(), message_.fields().at("c").string_value());
  EXPECT_EQ(read.ByteSizeLong(), message_.ByteSizeLong());
  const CliResult again = run_cli({"export", path(), prefix + ".cpb"});
  EXPECT_EQ(again.status, 1);
  EXPECT_THAT(again.err, HasSubstr("exists"));
}

TEST_F(CliChunks, ExportMakesAWholeMessageOfOneThatIsStoredWhole) {
  save(directory_ / "8", message_, std::uint64_t{1} << 30);

  EXPECT_EQ(run_cli({"export", directory_ / "8", directory_ / "out.pb"}).status, 0);

  Struct read;
  EXPECT_TRUE(read.ParseFromString(read_text(directory_ / "out.pb")));
  EXPECT_EQ(read.ByteSizeLong(), message_.ByteSizeLong());
  EXPECT_THAT(run_cli({"export", directory_ / "8", directory_ / "out.cpb"}).err,
              HasSubstr("'settings' is stored whole: export it to a .pb"));
  EXPECT_THAT(run_cli({"export", path(), directory_ / "cut.pb"}).err,
              HasSubstr("'settings' is stored in chunks"));
}

TEST_F(CliChunks, ExportWritesRecordsBehindTheirLengths) {
  records::RecordWriter writer(directory_ / "some.riegeli");
  writer.write("one");
  writer.write("");
  writer.finish();

  const CliResult result = run_cli({"export", directory_ / "some.riegeli", directory_ / "out.records"});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 records, 19 B"));
  std::string expected;
  put_text(expected, "one");
  put_text(expected, "");
  EXPECT_EQ(read_text(directory_ / "out.records"), expected);
  EXPECT_THAT(run_cli({"export", path(), directory_ / "no.records"}).err,
              HasSubstr("is not a file of records"));
}

TEST_F(CliChunks, VerifyReadsEveryByteOfAFile) {
  const std::string file = exported("out.cpb") + ".cpb";
  EXPECT_THAT(run_cli({"verify", file}).out, HasSubstr("every byte is as it was written"));

  std::string bytes = read_text(file);
  bytes[400'000] = static_cast<char>(bytes[400'000] ^ 1);
  write_text(file, bytes);

  const CliResult result = run_cli({"verify", file, "--json"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr(file));
  EXPECT_FALSE(json::parse(result.out)["is_sound"].get<bool>());
}

TEST_F(CliChunks, VerifyFindsChunksThatAreNotWhereTheyShouldBe) {
  records::RecordWriter writer(directory_ / "wrong.cpb");
  chunked::ChunkMetadata metadata;
  metadata.mutable_message()->set_chunk_index(0);
  metadata.add_chunks()->set_offset(writer.write("abc"));
  metadata.mutable_chunks(0)->set_size(2);
  metadata.add_chunks()->set_offset(1'000'000);
  writer.write(metadata.SerializeAsString());
  writer.finish();

  const CliResult result = run_cli({"verify", directory_ / "wrong.cpb"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, AllOf(HasSubstr("chunk 0 has 3 bytes, and should have 2"),
                                HasSubstr("chunk 1 is to be a record at 1000000, where none is"),
                                HasSubstr("2 problems found")));
}

TEST_F(CliChunks, VerifySaysWhatIsMissingOfATree) {
  records::RecordWriter writer(directory_ / "wrong.cpb");
  chunked::ChunkMetadata metadata;
  metadata.mutable_message()->add_chunked_fields()->mutable_message()->set_chunk_index(3);
  metadata.mutable_message()->mutable_chunked_fields(0)->add_field_tag()->set_field(7);
  writer.write(metadata.SerializeAsString());
  writer.finish();

  const CliResult result = run_cli({"verify", directory_ / "wrong.cpb"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("wrong.cpb"), HasSubstr("7: there is no chunk 3 among 0")));
}

TEST_F(CliChunks, DiffComparesChunkByChunk) {
  save(directory_ / "8", message_, 0);
  EXPECT_EQ(run_cli({"diff", path(), directory_ / "8"}).status, 0);

  fields(message_)["c"].set_string_value(std::string(599'999, 'c') + 'd');
  fields(message_)["d"].set_string_value(std::string(400'000, 'd'));
  save(directory_ / "9", message_, 0);
  const CliResult result = run_cli({"diff", path(), directory_ / "9"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("value      settings/fields[\"c\"].string_value  585.9 KiB | 585.9 KiB\n"),
                    HasSubstr("only in B  settings/fields[\"d\"].string_value  390.6 KiB\n"),
                    HasSubstr("value      settings/chunks")));
  EXPECT_EQ(result.out.find("fields[\"a\"]"), std::string::npos);
}

}  // namespace
}  // namespace cairn::cli
