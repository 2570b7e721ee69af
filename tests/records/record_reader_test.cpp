// SPDX-License-Identifier: Apache-2.0
#include "cairn/records/record_reader.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "base/internal/limits.hpp"
#include "io/faulty_syscalls.hpp"
#include "records/codec.hpp"
#include "records/internal/records.hpp"
#include "records/layout.hpp"
#include "records/records_file.hpp"
#include "support/fails.hpp"
#include "support/peak_memory.hpp"
#include "support/temp_dir.hpp"

namespace cairn::records {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_text;

std::string varint(std::uint64_t number) {
  std::string text;
  append_varint(text, number);
  return text;
}

/// The data of a simple chunk, not packed.
std::string plain(std::string_view sizes, std::string_view values) {
  return std::string(1, '\0') + varint(sizes.size()) + std::string(sizes) + std::string(values);
}

std::string packed(Codec codec, std::string_view text) {
  std::string out;
  const std::vector<Bytes> whole = {bytes_of(text)};
  RecordOptions options;
  options.codec = codec;
  traits(codec).functions.pack(checked(options), whole, text.size(), out);
  return out;
}

/// A record of `claimed` bytes, of which the codec has packed `text`.
std::string file_of_packed(Codec codec, std::uint64_t claimed, std::string_view text,
                           std::string_view behind = "") {
  const std::string size = varint(claimed);
  const std::string sizes = varint(size.size()) + packed(codec, size);
  const std::string data = traits(codec).letter + varint(sizes.size()) + sizes + varint(claimed) +
                           packed(codec, text) + std::string(behind);
  return HandMadeFile().add(simple_header(1, claimed), data).bytes();
}

std::vector<Codec> codecs_built_in() {
  std::vector<Codec> all;
  for (const Codec codec : {Codec::brotli, Codec::zstd, Codec::snappy}) {
    if (is_built_in(codec)) {
      all.push_back(codec);
    }
  }
  return all;
}

/// Reads `file` to its end.
std::function<void()> reading(std::string file, ReaderOptions options = {}) {
  return [file = std::move(file), options] {
    RecordReader reader(bytes_of(file), options);
    read_all(reader);
  };
}

TEST(RecordReaderOpen, RefusesWhatIsNoSuchFile) {
  const TempDir temp;
  write_text(temp / "text", "this is a text of more than sixty-four bytes, and not a file of records");
  write_text(temp / "empty", "");
  std::filesystem::create_directory(temp / "directory");

  EXPECT_THAT([&] { RecordReader(temp / "missing"); }, Fails(Errc::not_found, HasSubstr("missing")));
  EXPECT_THAT([&] { RecordReader(temp / "text"); },
              Fails(Errc::malformed_metadata, HasSubstr("signature is missing")));
  EXPECT_THAT([&] { RecordReader(temp / "empty"); },
              Fails(Errc::malformed_metadata, HasSubstr("signature is missing")));
  EXPECT_THAT([&] { RecordReader(temp / "directory"); },
              Fails(Errc::malformed_metadata, HasSubstr("not a regular")));
  EXPECT_THAT([&] { RecordReader(""); }, Fails(Errc::invalid_argument));
}

TEST(RecordReaderOpen, FollowsLinks) {
  const TempDir temp;
  write_text(temp / "file", write_all({"a"}, "").file);
  std::filesystem::create_symlink("file", temp / "link");
  RecordReader reader(temp / "link");

  EXPECT_THAT(read_all(reader).records, ElementsAre("a"));
}

TEST(RecordReaderNext, ReportsWhatTheSystemSays) {
  const TempDir temp;
  write_text(temp / "file", write_all({"a"}, "").file);
  io::FaultySyscalls syscalls;
  RecordReader reader = open_records(syscalls, temp / "file");
  std::string record;

  syscalls.plan({io::Call::read, 1, 1, -EIO});
  EXPECT_THAT([&] { static_cast<void>(reader.next(record)); }, FailsWithErrno(EIO, HasSubstr("file")));
  EXPECT_TRUE(reader.next(record)) << "it stands where it stood";
}

TEST(RecordReaderNext, AFileThatIsCutMeanwhileIsAnError) {
  const TempDir temp;
  write_text(temp / "file", write_all({"a"}, "").file);
  RecordReader reader(temp / "file");
  std::filesystem::resize_file(temp / "file", 70);
  std::string record;

  EXPECT_THAT([&] { static_cast<void>(reader.next(record)); }, Fails(Errc::io_failure));
}

TEST(RecordReaderNext, TakesOneRecordStraightIntoTheString) {
  const std::string large(300'000, 'x');
  const std::string file = write_all({"a", large, "", "b"}, "").file;
  RecordReader reader(bytes_of(file));
  std::string_view view;
  std::vector<std::string> records;

  while (reader.next(view)) {
    records.emplace_back(view);
  }

  EXPECT_THAT(records, ElementsAre("a", large, "", "b"));
}

TEST(RecordReaderNext, SkipsUnknownChunksWithoutRecordsAndRefusesThoseWithSome) {
  ChunkHeader unknown;
  unknown.type = 'x';
  const std::string skipped =
      HandMadeFile().add(unknown, "data").add(simple_header(1, 1), plain("\1", "a")).bytes();
  unknown.records = 1;

  EXPECT_THAT(read_all(skipped).records, ElementsAre("a"));
  EXPECT_THAT(reading(HandMadeFile().add(unknown, "data").bytes()),
              Fails(Errc::unsupported_version, HasSubstr("at 64: a chunk of the unknown type 120")));
}

TEST(RecordReaderNext, VerifiesChunksWithoutRecords) {
  ChunkHeader padding;
  padding.type = chunk_type::kPadding;
  padding.data_hash = 1;

  EXPECT_THAT(reading(HandMadeFile().add(padding, "zeros").bytes()),
              Fails(Errc::checksum_mismatch, HasSubstr("at 64")));
}

TEST(RecordReaderNext, RefusesChunksThatContradictThemselves) {
  ChunkHeader padding;
  padding.type = chunk_type::kPadding;
  padding.records = 1;
  ChunkHeader signature = padding;
  signature.type = chunk_type::kSignature;
  const auto simple = [](std::uint64_t records, std::uint64_t bytes, std::string_view data) {
    return HandMadeFile().add(simple_header(records, bytes), data).bytes();
  };
  const std::vector<std::pair<const char*, std::string>> files = {
      {"padding with records", HandMadeFile().add(padding, "").bytes()},
      {"signature with records", HandMadeFile().add(signature, "").bytes()},
      {"no data", simple(1, 0, "")},
      {"sizes that end behind the chunk", simple(1, 1, std::string("\0\x7f\1a", 4))},
      {"sizes without an end", simple(1, 1, std::string("\0\x80", 2))},
      {"a size too few", simple(2, 1, plain("\1", "a"))},
      {"a size too many", simple(1, 1, plain(std::string_view("\1\0", 2), "a"))},
      {"sizes that are more", simple(2, 2, plain("\1\2", "ab"))},
      {"sizes that are less", simple(2, 3, plain("\1\1", "abc"))},
      {"values that are less", simple(2, 3, plain("\1\2", "ab"))},
      {"values that are more", simple(2, 2, plain("\1\1", "abc"))},
      {"a single size that is another", simple(1, 2, plain("\1", "ab"))},
      {"values of one that are less", simple(1, 2, plain("\2", "a"))},
      {"a size beyond 64 bits", simple(1, 1, plain("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "a"))},
      {"sizes that overflow", simple(2, 1, plain("\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\2", "a"))}};

  for (const auto& [what, file] : files) {
    EXPECT_THAT(reading(file), Fails(Errc::malformed_metadata, HasSubstr("at 64"))) << what;
  }
}

TEST(RecordReaderNext, RefusesUnknownCodecs) {
  EXPECT_THAT(reading(HandMadeFile().add(simple_header(1, 1), "q\1\1a").bytes()),
              Fails(Errc::unsupported_version, HasSubstr("at 64: it is packed in the unknown way 113")));
}

TEST(RecordReaderNext, ClaimsBeyondTheFileCostNothing) {
  ChunkHeader huge = simple_header(1, std::uint64_t{1} << 60);
  const std::string file = HandMadeFile().add(huge, plain(varint(huge.decoded_bytes), "a")).bytes();
  ChunkHeader many = simple_header((std::uint64_t{1} << 56) - 1, 0);
  many.data_hash = 1;
  const std::string cut = HandMadeFile().bytes() + encode(many);
  ReaderOptions options;
  options.most_record_bytes = ~std::uint64_t{0};

  EXPECT_THAT(reading(file, options), Fails(Errc::malformed_metadata));
  EXPECT_THAT(reading(cut, options), Fails(Errc::malformed_metadata, HasSubstr("ends within a chunk")));
}

TEST(RecordReaderNext, RecordsAreNoLargerThanHalfOfTheMemoryUnlessTheReaderAllows) {
  const ChunkHeader huge = simple_header(1, std::uint64_t{1} << 60);
  const std::string file = HandMadeFile().add(huge, plain(varint(huge.decoded_bytes), "a")).bytes();
  const std::string most = "most_record_bytes, which is " + std::to_string(default_unpacked_bytes());

  EXPECT_THAT(reading(file), Fails(Errc::malformed_metadata, HasSubstr(most)));
}

TEST(RecordReaderNext, RecordsAreNoLargerThanTheReaderAllows) {
  ReaderOptions options;
  options.most_record_bytes = 3;

  EXPECT_THAT(reading(write_all({"abcd"}, "").file, options),
              Fails(Errc::malformed_metadata, HasSubstr("most_record_bytes")));
  EXPECT_THAT(
      [&] {
        reading(write_all({"abc"}, "").file, options)();
        return true;
      }(),
      true);
}

TEST(RecordReaderCodecs, RefuseDataThatIsNotWhatItClaims) {
  for (const Codec codec : codecs_built_in()) {
    SCOPED_TRACE(name(codec));
    const std::string zeros(100'000, '\0');
    EXPECT_THAT(read_all(file_of_packed(codec, zeros.size(), zeros)).records, ElementsAre(zeros));
    EXPECT_THAT(reading(file_of_packed(codec, 4, "abc")), Fails(Errc::malformed_metadata)) << "less";
    EXPECT_THAT(reading(file_of_packed(codec, 2, "abc")), Fails(Errc::malformed_metadata)) << "more";
    EXPECT_THAT(reading(file_of_packed(codec, 0, "abc")), Fails(Errc::malformed_metadata)) << "some for none";
    EXPECT_THAT(reading(file_of_packed(codec, 3, "abc", "d")), Fails(Errc::malformed_metadata))
        << "bytes behind it";
    EXPECT_THAT(reading(file_of_packed(codec, std::uint64_t{1} << 39, zeros)),
                Fails(Errc::malformed_metadata))
        << "a huge claim";
    EXPECT_THAT(reading(file_of_packed(codec, std::uint64_t{1} << 60, zeros)),
                Fails(Errc::malformed_metadata))
        << "a larger one";
  }
}

TEST(RecordReaderCodecs, UnpackNoMoreThanIsClaimedAndAllowed) {
  if (const char* why = testing::why_no_peak_memory(); *why != '\0') {
    GTEST_SKIP() << why;
  }
  constexpr std::size_t kMostBytes = std::size_t{16} << 20;  // The window of brotli is some of it.
  const std::string bomb(std::size_t{128} << 20, '\0');
  ReaderOptions small;
  small.most_record_bytes = std::uint64_t{1} << 20;
  ReaderOptions any;
  any.most_record_bytes = ~std::uint64_t{0};
  for (const Codec codec : codecs_built_in()) {
    SCOPED_TRACE(name(codec));
    const auto check = [&](std::string file, ReaderOptions options, const char* what) {
      const std::function<void()> work = reading(std::move(file), options);
      const std::optional<std::size_t> bytes = testing::peak_growth([&work] {
        try {
          work();
        } catch (const Error&) {
          // Its memory is what is asked for.
        }
      });
      EXPECT_LT(bytes.value_or(kMostBytes), kMostBytes) << what;
      EXPECT_THAT(work, Fails(Errc::malformed_metadata)) << what;
    };
    check(file_of_packed(codec, bomb.size(), bomb), small, "more than is allowed");
    check(file_of_packed(codec, 1000, bomb), {}, "more than is claimed");
    check(file_of_packed(codec, std::uint64_t{1} << 40, "abc"), any, "a claim alone");
  }
}

TEST(RecordReaderCodecs, ThoseThatAreNotBuiltInAreNamed) {
  for (const Codec codec : {Codec::brotli, Codec::zstd, Codec::snappy}) {
    if (!is_built_in(codec)) {
      EXPECT_THAT(
          reading(
              HandMadeFile().add(simple_header(1, 1), traits(codec).letter + std::string("\1\1a")).bytes()),
          Fails(Errc::feature_missing, HasSubstr(std::string(traits(codec).package))));
    }
  }
}

TEST(RecordReaderBlocks, MustAgreeWithTheirChunks) {
  const std::string file = write_all({std::string(200'000, 'x'), "b"}, "").file;
  const auto with_header = [&](std::size_t block, BlockHeader header) {
    std::string changed = file;
    return changed.replace(block, kBlockHeaderBytes, encode(header));
  };
  const std::uint64_t end = write_all({std::string(200'000, 'x')}, "").file.size();

  EXPECT_THAT(reading(with_header(65536, {65536 - 64, end - 65536})),
              ::testing::Not(Fails(Errc::malformed_metadata)));
  EXPECT_THAT(reading(with_header(65536, {65536 - 65, end - 65536})),
              Fails(Errc::malformed_metadata, HasSubstr("at 65536")));
  EXPECT_THAT(reading(with_header(65536, {65536 - 64, end - 65535})), Fails(Errc::malformed_metadata));
  EXPECT_THAT(reading(with_header(131072, {131072 - 64, ~std::uint64_t{0}})),
              Fails(Errc::malformed_metadata));
}

TEST(RecordReaderSeek, BlocksThatLeadOutOfTheFileAreErrors) {
  std::string file = write_all({std::string(200'000, 'x'), "b"}, "").file;
  for (const BlockHeader header :
       {BlockHeader{131073, 1}, BlockHeader{100, ~std::uint64_t{0}}, BlockHeader{131060, 30}}) {
    file.replace(131072, kBlockHeaderBytes, encode(header));
    RecordReader reader(bytes_of(file));
    EXPECT_THROW(reader.seek(131080), Error);
  }
}

TEST(RecordReaderSeek, EndsWithTheFile) {
  const std::string file = write_all({"a"}, "").file;
  RecordReader reader(bytes_of(file));
  std::string record;

  reader.seek(file.size());

  EXPECT_FALSE(reader.next(record));
  EXPECT_THAT([&] { reader.seek(file.size() + 1); },
              Fails(Errc::malformed_metadata, HasSubstr("ends before")));
  EXPECT_FALSE(reader.next(record));
  reader.seek(0);
  EXPECT_TRUE(reader.next(record));
}

TEST(RecordReaderSeekToLast, PassesChunksWithoutRecords) {
  ChunkHeader padding;
  padding.type = chunk_type::kPadding;
  const std::string zeros(150'000, '\0');
  const std::string file = HandMadeFile()
                               .add(simple_header(2, 3), plain("\1\2", "abc"))
                               .add(padding, zeros)
                               .add(padding, zeros)
                               .bytes();
  RecordReader reader(bytes_of(file));
  std::string record;

  ASSERT_TRUE(reader.seek_to_last());
  ASSERT_TRUE(reader.next(record));
  EXPECT_EQ(record, "bc");
  EXPECT_FALSE(reader.next(record));
}

TEST(RecordReaderSeekToLast, OfAFileWithoutRecordsIsNothing) {
  ChunkHeader padding;
  padding.type = chunk_type::kPadding;
  const std::string file = HandMadeFile().add(padding, std::string(150'000, '\0')).bytes();
  RecordReader reader(bytes_of(file));

  EXPECT_FALSE(reader.seek_to_last());
}

TEST(RecordReaderNextChunk, GoesOnBehindTheRecordAndFromWhereItWasSought) {
  const WrittenRecords written = write_all({"a", "b", "c"}, "chunk_size:20");
  RecordReader reader(bytes_of(written.file));
  std::string record;
  ASSERT_TRUE(reader.next(record));

  const auto behind = reader.next_chunk();
  reader.seek(written.positions[0]);
  const auto sought = reader.next_chunk();

  ASSERT_TRUE(behind && sought);
  EXPECT_EQ(behind->begin, written.positions[2]);
  EXPECT_EQ(sought->begin, 64U);
  EXPECT_EQ(sought->end, behind->begin);
  EXPECT_EQ(sought->records, 2U);
  EXPECT_EQ(sought->codec, Codec::none);
}

}  // namespace
}  // namespace cairn::records
