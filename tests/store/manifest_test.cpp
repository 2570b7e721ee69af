// SPDX-License-Identifier: Apache-2.0
#include "store/internal/manifest.hpp"

#include <string>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "store/internal/uuid.hpp"
#include "support/fails.hpp"

namespace cairn::store {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

Manifest full_manifest() {
  Manifest manifest;
  manifest.uuid = make_uuid(system_random);
  manifest.started = "2026-01-31T12:00:00Z";
  manifest.committed = "2026-01-31T12:00:01Z";
  manifest.world_size = 2;
  manifest.custom_metadata =
      R"({"loss":0.1,"big":18446744073709551615,"text":"ü\u0000","list":[1,null,true]})";
  manifest.checkpointables = {{"état/..", "cairn.json/1", "%e9tat"}, {"model", "cairn.tree/1", "model"}};
  manifest.files = {{"model/data-r00000-000.safetensors", 3 << 20, {1, 2}}, {"model/index.fb", 0, {3, 4}}};
  return manifest;
}

TEST(Manifest, SurvivesItsText) {
  Manifest manifest = full_manifest();
  manifest.custom_metadata = normalise_custom_metadata(manifest.custom_metadata);

  EXPECT_EQ(decode_manifest(encode_manifest(manifest), "checkpoint.json"), manifest);
}

TEST(Manifest, KeepsTheNanosecondsOfItsTimes) {
  Manifest manifest = full_manifest();
  manifest.custom_metadata = "null";
  manifest.started_nanoseconds = 1;
  manifest.committed_nanoseconds = 999'999'999;

  EXPECT_EQ(decode_manifest(encode_manifest(manifest), "checkpoint.json"), manifest);
}

TEST(Manifest, WithoutNanosecondsIsTheTextOfWritersThatDidNotRecordThem) {
  EXPECT_THAT(encode_manifest(full_manifest()), ::testing::Not(HasSubstr("nanoseconds")));
}

TEST(Manifest, KeepsAnnotations) {
  Manifest manifest = full_manifest();
  manifest.custom_metadata = "null";
  manifest.annotations = R"({"a.b":{"step":18446744073709551615,"loss":0.1}})";

  EXPECT_EQ(decode_manifest(encode_manifest(manifest), "checkpoint.json"), manifest);
}

TEST(Manifest, WithoutAnnotationsIsTheTextOfWritersThatDidNotKnowThem) {
  EXPECT_THAT(encode_manifest(full_manifest()), ::testing::Not(HasSubstr("annotations")));
}

TEST(Manifest, NormalisesAnnotationsAndRefusesWhatIsNoObject) {
  EXPECT_EQ(normalise_annotations(" { \"a\" : [ 1 ] } "), R"({"a":[1]})");
  for (const char* text : {"[]", "null", "1", "", "{", R"({"a": 1, "a": 2})"}) {
    EXPECT_THAT([&] { static_cast<void>(normalise_annotations(text)); },
                Fails(Errc::invalid_argument, HasSubstr("annotations")))
        << text;
  }
}

TEST(Manifest, RefusesNanosecondsThatAreASecond) {
  for (const std::string name : {"started_nanoseconds", "committed_nanoseconds"}) {
    std::string text = encode_manifest(full_manifest());
    text.insert(text.find("\"world_size\""), "\"" + name + "\": 1000000000, ");

    EXPECT_THAT([&] { static_cast<void>(decode_manifest(text, "checkpoint.json")); },
                Fails(Errc::malformed_metadata, HasSubstr(name)));
  }
}

TEST(Manifest, CanBeReadByPeople) {
  EXPECT_THAT(encode_manifest(full_manifest()), HasSubstr("\n \"format\": "));
}

/// All kinds of values, and all that a string must escape.
constexpr const char* kManyValues =
    R"({"empty":[{},[],""],"a\"b\\c/":"\b\f\n\r\t\u0001\u001f\u007f \u00e9\ud83d\ude00",)"
    R"("numbers":[0,-0,-1,1.0,-0.0,0.1,1e15,1e16,123456789.125,1e-5,0.0001,5e-324,1.7976931348623157e308,)"
    R"(18446744073709551615,18446744073709551616,-9223372036854775809],"deep":[[{"x":[true,false,null]}]]})";

TEST(Manifest, HasTheBytesThatAnotherWriterMakesOfItsValues) {
  Manifest manifest = full_manifest();
  manifest.custom_metadata = kManyValues;

  const std::string text = encode_manifest(manifest);

  EXPECT_EQ(text, nlohmann::ordered_json::parse(text).dump(1) + "\n");
}

TEST(Manifest, WithoutFilesHasEmptyLists) {
  Manifest manifest = full_manifest();
  manifest.checkpointables.clear();
  manifest.files.clear();

  const std::string text = encode_manifest(manifest);

  EXPECT_EQ(text, nlohmann::ordered_json::parse(text).dump(1) + "\n");
}

/// The text of a good manifest with one member of one object replaced.
std::string with(const std::string& pointer, const nlohmann::json& value) {
  auto document = nlohmann::json::parse(encode_manifest(full_manifest()));
  document[nlohmann::json::json_pointer(pointer)] = value;
  return document.dump();
}

std::string without(const std::string& key) {
  auto document = nlohmann::json::parse(encode_manifest(full_manifest()));
  document.erase(key);
  return document.dump();
}

struct Hostile {
  std::string text;
  std::string expected;
};

class HostileManifest : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileManifest, IsRefused) {
  EXPECT_THAT([&] { static_cast<void>(decode_manifest(GetParam().text, "/c/checkpoint.json")); },
              Fails(Errc::malformed_metadata,
                    ::testing::AllOf(HasSubstr("/c/checkpoint.json"), HasSubstr(GetParam().expected))));
}

INSTANTIATE_TEST_SUITE_P(
    Structure, HostileManifest,
    ::testing::Values(Hostile{"", "not a checkpoint.json"}, Hostile{"{", "expected '\"'"},
                      Hostile{"[]", "not a checkpoint.json"}, Hostile{"null", "not a checkpoint.json"},
                      Hostile{with("/format", "other"), "not a checkpoint.json"},
                      Hostile{with("/version", 0), "start at 1"}, Hostile{with("/version", -1), "'version'"},
                      Hostile{with("/version", 1.0), "'version'"}, Hostile{with("/uuid", "x"), "'uuid'"},
                      Hostile{with("/uuid", 7), "'uuid' is not a string"},
                      Hostile{with("/generation", 0), "start at 1"},
                      Hostile{with("/world_size", 0), "start at 1"},
                      Hostile{with("/world_size", 4294967296), "'world_size'"},
                      Hostile{with("/files", nullptr), "'files' is not a list"},
                      Hostile{with("/annotations", 3), "'annotations' is not an object"},
                      Hostile{with("/annotations", nlohmann::json::array()),
                              "'annotations' is not an object"},
                      Hostile{with("/files/0", 3), "'files' is not a list"},
                      Hostile{without("files"), "'files' is missing"},
                      Hostile{without("custom_metadata"), "'custom_metadata' is missing"},
                      Hostile{encode_manifest(full_manifest()) + "x", "something follows"},
                      Hostile{"{\"a\":" + std::string(10000, '['), "nested deeper than 32"},
                      Hostile{R"({"format": "cairn checkpoint", "format": "cairn checkpoint"})",
                              "'format' is given twice"}));

INSTANTIATE_TEST_SUITE_P(
    Files, HostileManifest,
    ::testing::Values(Hostile{with("/files/0/path", "../x"), "'../x' is not a path"},
                      Hostile{with("/files/0/path", "/etc/passwd"), "is not a path"},
                      Hostile{with("/files/0/path", ""), "is not a path"},
                      Hostile{with("/files/0/path", "a//b"), "is not a path"},
                      Hostile{with("/files/0/path", "a/./b"), "is not a path"},
                      Hostile{with("/files/0/path", std::string("a\0b", 3)), "'a\\x00b' is not a path"},
                      Hostile{with("/files/0/path", std::string(5000, 'a')), "is not a path"},
                      Hostile{with("/files/0/path", "COMMIT"), "is not a path"},
                      Hostile{with("/files/0/path", "checkpoint.json"), "is not a path"},
                      Hostile{with("/files/0/path", ".owner/x"), "is not a path"},
                      Hostile{with("/files/0/path", "model/index.fb"), "comes twice"},
                      Hostile{with("/files/0/path", "model/index.fb/x"), "lies under another file"},
                      Hostile{with("/files/0/size", -1), "'size'"},
                      Hostile{with("/files/0/size", "9"), "'size'"},
                      Hostile{with("/files/0/size", 9223372036854775808u), "'size'"},
                      Hostile{with("/files/1/size", 9223372036854775807u), "add up to more"},
                      Hostile{with("/files/0/xxh3", "12"), "32 hexadecimal digits"}));

INSTANTIATE_TEST_SUITE_P(
    Checkpointables, HostileManifest,
    ::testing::Values(Hostile{with("/checkpointables/0/name", ""), "the name is empty"},
                      Hostile{with("/checkpointables/0/name", "model"), "comes twice"},
                      Hostile{with("/checkpointables/0/directory", "model"), "not a directory of its own"},
                      Hostile{with("/checkpointables/0/directory", ".."), "not a directory of its own"},
                      Hostile{with("/checkpointables/0/directory", "a/b"), "not a directory of its own"},
                      Hostile{with("/checkpointables/0/directory", "COMMIT"), "not a directory of its own"},
                      Hostile{with("/checkpointables/0/handler", ""), "the handler's id"}));

TEST(DecodeManifest, RefusesALaterFormat) {
  EXPECT_THAT([] { static_cast<void>(decode_manifest(with("/version", 2), "m")); },
              Fails(Errc::unsupported_version, HasSubstr("m: format 2")));
}

TEST(EncodeManifest, RefusesWhatCouldNotBeRead) {
  Manifest manifest = full_manifest();
  manifest.files[0].path = "../x";

  EXPECT_THAT([&] { static_cast<void>(encode_manifest(manifest)); },
              Fails(Errc::invalid_argument, HasSubstr("../x")));
}

TEST(EncodeManifest, RefusesRanksAndTimesThatThereAreNot) {
  Manifest of_rank = full_manifest();
  of_rank.files[1].rank = 2;
  Manifest later = full_manifest();
  later.committed_nanoseconds = 1'000'000'000;

  EXPECT_THAT([&] { static_cast<void>(encode_manifest(of_rank)); },
              Fails(Errc::invalid_argument, HasSubstr("there is no rank 2 of 2")));
  EXPECT_THAT([&] { static_cast<void>(encode_manifest(later)); },
              Fails(Errc::invalid_argument, HasSubstr("a second or more")));
}

TEST(EncodeManifest, RefusesNamesThatAreNoUtf8) {
  Manifest manifest = full_manifest();
  manifest.checkpointables[0].name = "\xff";

  EXPECT_THAT([&] { static_cast<void>(encode_manifest(manifest)); }, Fails(Errc::invalid_argument));
}

TEST(NormaliseCustomMetadata, KeepsOrderAndValues) {
  EXPECT_EQ(normalise_custom_metadata(R"( {"b": 0.1, "a": [1e300, -9223372036854775808]} )"),
            R"({"b":0.1,"a":[1e+300,-9223372036854775808]})");
}

TEST(NormaliseCustomMetadata, WritesValuesAsAnotherWriterDoes) {
  EXPECT_EQ(normalise_custom_metadata(kManyValues), nlohmann::ordered_json::parse(kManyValues).dump());
}

TEST(NormaliseCustomMetadata, RefusesNumbersThatAreTooLarge) {
  EXPECT_THAT([] { static_cast<void>(normalise_custom_metadata("[1e999]")); },
              Fails(Errc::invalid_argument, HasSubstr("1e999")));
}

TEST(NormaliseCustomMetadata, RefusesWhatIsNoJson) {
  EXPECT_THAT([] { static_cast<void>(normalise_custom_metadata("{1}")); },
              Fails(Errc::invalid_argument, HasSubstr("custom metadata")));
}

TEST(NormaliseCustomMetadata, RefusesAKeyThatComesTwice) {
  EXPECT_THAT([] { static_cast<void>(normalise_custom_metadata(R"({"x": {"a": 1, "a": 2}})")); },
              Fails(Errc::invalid_argument, HasSubstr("'a' is given twice")));
}

TEST(NormaliseCustomMetadata, RefusesDeepNesting) {
  EXPECT_NO_THROW(static_cast<void>(normalise_custom_metadata(std::string(31, '[') + std::string(31, ']'))));
  EXPECT_THAT(
      [] { static_cast<void>(normalise_custom_metadata(std::string(32, '[') + std::string(32, ']'))); },
      Fails(Errc::invalid_argument, HasSubstr("nested deeper than 31 levels")));
}

TEST(NormaliseCustomMetadata, BracketsInStringsAreNoNesting) {
  EXPECT_NO_THROW(static_cast<void>(normalise_custom_metadata("\"\\\"" + std::string(100, '[') + "\"")));
}

TEST(NormaliseCustomMetadata, RefusesTooMuch) {
  EXPECT_THAT(
      [] { static_cast<void>(normalise_custom_metadata(std::string(kMaxCustomMetadataBytes + 1, ' '))); },
      Fails(Errc::invalid_argument, HasSubstr("at most")));
}

CommitRecord sample_record() {
  return {make_uuid(system_random), 1234, {5, 6}};
}

TEST(Commit, SurvivesItsBytes) {
  const CommitRecord record = sample_record();

  EXPECT_EQ(encode_commit(record).size(), kCommitBytes);
  EXPECT_EQ(decode_commit(encode_commit(record), "COMMIT"), record);
}

TEST(DecodeCommit, RefusesEveryFlippedBit) {
  const std::string good = encode_commit(sample_record());
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));

    EXPECT_THROW(static_cast<void>(decode_commit(bad, "COMMIT")), Error) << "bit " << bit;
  }
}

TEST(DecodeCommit, RefusesEveryOtherLength) {
  const std::string good = encode_commit(sample_record());
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT([&] { static_cast<void>(decode_commit(good.substr(0, size), "COMMIT")); },
                Fails(Errc::malformed_metadata, HasSubstr("COMMIT")));
  }
  EXPECT_THAT([&] { static_cast<void>(decode_commit(good + "x", "COMMIT")); },
              Fails(Errc::malformed_metadata));
}

TEST(DecodeCommit, RefusesALaterFormatBeforeItsChecksum) {
  std::string later = encode_commit(sample_record());
  later[8] = 2;

  EXPECT_THAT([&] { static_cast<void>(decode_commit(later, "COMMIT")); },
              Fails(Errc::unsupported_version, HasSubstr("format 2")));
}

TEST(DecodeCommit, TakesNothingElseForALaterFormat) {
  const std::string other(kCommitBytes, '\xff');

  EXPECT_THAT([&] { static_cast<void>(decode_commit(other, "COMMIT")); },
              Fails(Errc::malformed_metadata, HasSubstr("not a commit record")));
}

TEST(CheckpointableDirectory, HasANameAsLongAsTheSystemAllows) {
  EXPECT_TRUE(is_checkpointable_directory(std::string(255, 'a')));
  EXPECT_FALSE(is_checkpointable_directory(std::string(256, 'a')));
}

TEST(DecodeCommit, NamesAChecksumThatDoesNotFit) {
  std::string bad = encode_commit(sample_record());
  bad[33] = 'x';

  EXPECT_THAT([&] { static_cast<void>(decode_commit(bad, "/c/COMMIT")); },
              Fails(Errc::checksum_mismatch, HasSubstr("/c/COMMIT")));
}

}  // namespace
}  // namespace cairn::store
