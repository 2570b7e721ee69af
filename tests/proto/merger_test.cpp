// SPDX-License-Identifier: Apache-2.0
#include "cairn/proto/merger.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/chunked.pb.h"

#include "shapes.pb.h"
#include "shapes3.pb.h"
#include "support/fails.hpp"
#include "support/peak_memory.hpp"

namespace cairn::proto {
namespace {

using cairn::test::shapes::All;
using cairn::test::shapes::Leaf;
using cairn::test::shapes::Strict;
using cairn::test::shapes3::Modern;
using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;

template <class M>
M message_of_text(const std::string& text) {
  M message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

template <class M>
Chunk message_chunk(const std::string& text) {
  return Chunk(std::make_shared<const M>(message_of_text<M>(text)));
}

Chunk bytes_chunk(std::string bytes) {
  return Chunk(std::move(bytes));
}

template <class M>
std::string merged_text(const std::vector<Chunk>& chunks, const std::string& tree,
                        Merged* notices = nullptr) {
  M out;
  Merged merged = merge(chunks, message_of_text<chunked::ChunkedMessage>(tree), out);
  if (notices != nullptr) {
    *notices = std::move(merged);
  }
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(out, &text);
  while (text.ends_with(' ')) {
    text.pop_back();
  }
  return text;
}

/// A field with one chunk: `tags` is "15" for a field, "36[2]" for an element, "51{s: 'k'}" for an entry; with dots.
std::string field(const std::string& tags, int chunk) {
  std::string text = "chunked_fields { ";
  std::string number;
  const auto end_number = [&] {
    if (!number.empty()) {
      text += "field_tag { field: " + number + " } ";
      number.clear();
    }
  };
  for (std::size_t i = 0; i < tags.size(); ++i) {
    if (tags[i] == '[') {
      end_number();
      const std::size_t end = tags.find(']', i);
      text += "field_tag { index: " + tags.substr(i + 1, end - i - 1) + " } ";
      i = end;
    } else if (tags[i] == '{') {
      end_number();
      const std::size_t end = tags.find('}', i);
      text += "field_tag { map_key { " + tags.substr(i + 1, end - i - 1) + " } } ";
      i = end;
    } else if (tags[i] == '.') {
      end_number();
    } else {
      number += tags[i];
    }
  }
  end_number();
  return text + "message { chunk_index: " + std::to_string(chunk) + " } } ";
}

TEST(Merge, PutsAMessageBeforeItsFieldsHoweverTheyAreListed) {
  const std::vector<Chunk> chunks = {message_chunk<Leaf>("name: 'second'"), message_chunk<All>("f_int32: 2"),
                                     message_chunk<All>("f_int32: 1 r_all {} r_all {}"),
                                     message_chunk<Leaf>("name: 'first'")};

  EXPECT_EQ(
      merged_text<All>(chunks,
                       field("36[1].17", 0) + field("36[1]", 1) + field("36[0].17", 3) + "chunk_index: 2"),
      "f_int32: 1 r_all { f_leaf { name: \"first\" } } r_all { f_int32: 2 f_leaf { name: \"second\" } }");
}

TEST(Merge, MakesWhatIsMissingOnTheWay) {
  EXPECT_EQ(
      merged_text<All>({bytes_chunk("x")}, field("71.51{s: 'k'}.36[2].17.1", 0)),
      "child { m_string { key: \"k\" value { r_all { } r_all { } r_all { f_leaf { name: \"x\" } } } } }");
  EXPECT_EQ(merged_text<All>({bytes_chunk("x")}, field("37[0].1", 0)), "Several { text: \"x\" }");
  EXPECT_EQ(merged_text<All>({bytes_chunk("x")}, field("1000.1002", 0)),
            "[cairn.test.shapes.e_all] { [cairn.test.shapes.e_string]: \"x\" }");
}

TEST(Merge, AppendsPartsOfAMessageInTheirOrder) {
  const std::vector<Chunk> chunks = {message_chunk<All>("r_int32: 3"), message_chunk<All>("r_int32: 2"),
                                     message_chunk<All>("r_int32: 1")};

  EXPECT_EQ(merged_text<All>(chunks, field("", 0) + field("", 1) + "chunk_index: 2"),
            "r_int32: 1 r_int32: 3 r_int32: 2");
}

TEST(Merge, TakesFieldsBelowAnEmptyTagForFieldsOfTheMessage) {
  EXPECT_EQ(merged_text<All>({message_chunk<All>("f_int32: 1"), bytes_chunk("s")},
                             "chunked_fields { message { chunk_index: 0 " + field("15", 1) + "} }"),
            "f_int32: 1 f_string: \"s\"");
}

TEST(Merge, GroupsFieldsBelowANodeWithoutAChunk) {
  EXPECT_EQ(merged_text<All>({bytes_chunk("s"), bytes_chunk("5")},
                             "chunked_fields { field_tag { field: 71 } message { " + field("15", 0) +
                                 field("3", 1) + "} }"),
            "child { f_int32: 5 f_string: \"s\" }");
}

TEST(Merge, ReadsBytesWithoutTagsAsAMessage) {
  const std::string bytes = message_of_text<All>("f_int32: 5").SerializeAsString();

  EXPECT_EQ(merged_text<All>({bytes_chunk(bytes)}, field("", 0)), "f_int32: 5");
  EXPECT_THAT([&] { merged_text<All>({bytes_chunk("\xff")}, field("", 0)); },
              Fails(Errc::malformed_metadata, HasSubstr("the bytes are not a cairn.test.shapes.All")));
}

TEST(Merge, AppendsBytesOfOnePath) {
  EXPECT_EQ(
      merged_text<All>({bytes_chunk("a"), bytes_chunk("b"), bytes_chunk("c"), bytes_chunk("d")},
                       field("16", 0) + field("16", 1) + field("54{ui32: 1}", 2) + field("54{ui32: 1}", 3)),
      "f_bytes: \"ab\" m_uint32 { key: 1 value: \"cd\" }");
}

struct NumberCase {
  const char* tags;
  std::string bytes;
  const char* text;  // Of the message; null where the bytes are refused.
  bool is_remarked = false;
};

TEST(Merge, ReadsNumbersFromTextAndElseFromBinary) {
  const std::string double_bytes("\0\0\0\0\0\0\xf8\x3f", 8);
  const std::vector<NumberCase> cases = {
      {"3", "-5", "f_int32: -5"},
      {"3", std::string("\xfe\xff\xff\xff", 4), "f_int32: -2"},
      {"3", "1234", "f_int32: 1234", true},
      {"3", "2147483648", nullptr},
      {"3", " 5", nullptr},
      {"3", "", nullptr},
      {"3", "5x", nullptr},
      {"3", "+5", nullptr},
      {"5", "-1", nullptr},
      {"6", "18446744073709551615", "f_uint64: 18446744073709551615"},
      {"6", std::string("\1\0\0\0\0\0\0\x80", 8), "f_uint64: 9223372036854775809"},
      {"1", "1e-05", "f_double: 1e-05"},
      {"1", "inf", "f_double: inf"},
      {"1", double_bytes, "f_double: 1.5"},
      {"1", "1e999", nullptr},
      {"2", "0.25", "f_float: 0.25", true},
      {"13", "true", "f_bool: true"},
      {"13", "false", "f_bool: false"},
      {"13", std::string("\1", 1), "f_bool: true"},
      {"13", "1", nullptr},
      {"14", "GREEN", "f_enum: GREEN"},
      {"14", std::string("\xfe\xff\xff\xff", 4), "f_enum: BLUE"},
      {"14", "BLUE", "f_enum: BLUE"},  // As binary it is none of the enum.
      {"14", "MAUVE", nullptr},
      {"14", std::string("\x09\0\0\0", 4), nullptr},
      {"60{i32: 3}", "2.5", "m_sfixed32 { key: 3 value: 2.5 }"},
      {"57{i64: -9223372036854775808}", "GREEN", "m_sint64 { key: -9223372036854775808 value: GREEN }"},
  };
  for (const NumberCase& one : cases) {
    SCOPED_TRACE(one.tags + std::string(" '") + one.bytes + "'");
    const auto merge_it = [&](Merged* notices) {
      return merged_text<All>({bytes_chunk(one.bytes)}, field(one.tags, 0), notices);
    };
    if (one.text == nullptr) {
      EXPECT_THAT([&] { merge_it(nullptr); },
                  Fails(Errc::malformed_metadata, HasSubstr("not a value of type")));
      continue;
    }
    Merged notices;
    EXPECT_EQ(merge_it(&notices), one.text);
    EXPECT_EQ(notices.remarks.size(), one.is_remarked ? 1U : 0U);
  }
}

TEST(Merge, TakesAnyNumberForAnOpenEnum) {
  Merged notices;

  EXPECT_EQ(merged_text<Modern>({bytes_chunk(std::string("\x09\0\0\0", 4))}, field("5", 0)), "open: 9");
  EXPECT_EQ(merged_text<Modern>({bytes_chunk("TANH")}, field("5", 0), &notices), "open: TANH");
  EXPECT_THAT(notices.remarks, ::testing::ElementsAre(HasSubstr("as binary it would be 1213088084")));
}

TEST(Merge, SetsElementsOfScalarsThatAreThere) {
  EXPECT_EQ(merged_text<All>({message_chunk<All>("r_int32: [1, 2] r_string: ['a', 'b']"), bytes_chunk("7"),
                              bytes_chunk("c")},
                             "chunk_index: 0 " + field("23[1]", 1) + field("34[0]", 2)),
            "r_int32: 1 r_int32: 7 r_string: \"c\" r_string: \"b\"");
  EXPECT_THAT(
      [] { merged_text<All>({bytes_chunk("7")}, field("23[0]", 0)); },
      Fails(Errc::malformed_metadata, HasSubstr("chunk 0 at r_int32[0]: there is no element 0 among 0")));
}

TEST(Merge, KeepsKeysOf64Bits) {
  EXPECT_EQ(merged_text<All>({bytes_chunk("a")}, field("55{ui64: 18446744073709551615}", 0)),
            "m_uint64 { key: 18446744073709551615 value: \"a\" }");
}

TEST(Merge, ListsChunksThatNothingRefersTo) {
  Merged notices;
  merged_text<All>({bytes_chunk("1"), bytes_chunk("2"), bytes_chunk("3")}, field("3", 1), &notices);

  EXPECT_THAT(notices.unused_chunks, ::testing::ElementsAre(0U, 2U));
}

TEST(Merge, ClearsTheMessageBefore) {
  auto out = message_of_text<All>("f_int32: 1");

  merge({}, chunked::ChunkedMessage(), out);

  EXPECT_EQ(out.ByteSizeLong(), 0U);
}

TEST(Merge, RefusesTreesThatDoNotFit) {
  const Chunk leaf = message_chunk<Leaf>("name: 'n'");
  const Chunk all = message_chunk<All>("f_int32: 1");
  const Chunk text = bytes_chunk("1");
  struct Case {
    std::vector<Chunk> chunks;
    std::string tree;
    Errc code;
    const char* why;
  };
  const std::vector<Case> cases = {
      {{text},
       field("99999", 0),
       Errc::malformed_metadata,
       "99999: cairn.test.shapes.All has no field 99999"},
      {{text}, field("4294967295", 0), Errc::malformed_metadata, "has no field 4294967295"},
      {{text}, field("3.1", 0), Errc::malformed_metadata, "'f_int32' is not a message"},
      {{text}, field("3[1]", 0), Errc::malformed_metadata, "an index, where there is no element"},
      {{text}, field("51[1]", 0), Errc::malformed_metadata, "an index, where there is no element"},
      {{text}, field("36{s: 'k'}", 0), Errc::malformed_metadata, "a key, where there is no entry"},
      {{text}, field("[1]", 0), Errc::malformed_metadata, "an index, where there is no element"},
      {{text}, field("36.3", 0), Errc::malformed_metadata, "an index is missing"},
      {{text}, field("51.3", 0), Errc::malformed_metadata, "a key is missing"},
      {{all}, field("36", 0), Errc::malformed_metadata, "the path ends without an index"},
      {{all}, field("51", 0), Errc::malformed_metadata, "the path ends without a key"},
      {{all}, field("51{i32: 5}", 0), Errc::malformed_metadata, "a key of 'm_string' is of type string"},
      {{text}, field("54{i64: -1}", 0), Errc::malformed_metadata, "a key of 'm_uint32' is of type uint32"},
      {{text},
       "chunked_fields { field_tag {} message { chunk_index: 0 } }",
       Errc::malformed_metadata,
       "neither a field nor an index nor a key"},
      {{all}, "chunk_index: 1", Errc::malformed_metadata, "there is no chunk 1 among 1"},
      {{all}, "chunk_index: 0 " + field("71", 0), Errc::malformed_metadata, "child: chunk 0 is used twice"},
      {{leaf},
       field("71", 0),
       Errc::type_mismatch,
       "chunk 0 at child: it is a cairn.test.shapes.Leaf, and a"},
      {{leaf},
       field("15", 0),
       Errc::malformed_metadata,
       "it is a cairn.test.shapes.Leaf, and a value of type string"},
      {{text}, field("71", 0), Errc::malformed_metadata, "chunk 0 at child: it is bytes, and a"},
      {{all},
       field("36[2000000]", 0),
       Errc::malformed_metadata,
       "2000000 elements before it are in no chunk"},
      {{all},
       field("36[1099511627776]", 0),
       Errc::malformed_metadata,
       "1099511627776 elements before it are in no chunk, and 65536 are allowed"},
      {{all},
       field("36[18446744073709551615]", 0),
       Errc::malformed_metadata,
       "elements before it are in no chunk"},
  };
  for (const Case& one : cases) {
    EXPECT_THAT([&] { merged_text<All>(one.chunks, one.tree); }, Fails(one.code, HasSubstr(one.why)))
        << one.tree;
  }
}

TEST(Merge, RefusesTreesAndPathsWithoutEnd) {
  chunked::ChunkedMessage tree;
  chunked::ChunkedMessage* node = &tree;
  for (int i = 0; i < 2000; ++i) {
    node = node->add_chunked_fields()->mutable_message();
  }
  All out;
  EXPECT_THAT([&] { merge({}, tree, out); },
              Fails(Errc::malformed_metadata, HasSubstr("more than 1000 levels")));

  tree.Clear();
  chunked::ChunkedField& long_field = *tree.add_chunked_fields();
  for (int i = 0; i < 2001; ++i) {
    long_field.add_field_tag()->set_field(71);
  }
  EXPECT_THAT([&] { merge({}, tree, out); },
              Fails(Errc::malformed_metadata, HasSubstr("more than 2000 tags")));

  long_field.mutable_field_tag()->DeleteSubrange(1001, 1000);
  EXPECT_THAT([&] { merge({}, tree, out); },
              Fails(Errc::malformed_metadata, HasSubstr("more than 1000 levels deep")));
}

/// Many entries of a map, at the end of a long path, have a chunk each.
chunked::ChunkMetadata far_below_the_root(int chunks) {
  chunked::ChunkMetadata stored;
  chunked::ChunkedField& child = *stored.mutable_message()->add_chunked_fields();
  for (int i = 0; i < 900; ++i) {
    child.add_field_tag()->set_field(71);
  }
  for (int i = 0; i < chunks; ++i) {
    chunked::ChunkedField& entry = *child.mutable_message()->add_chunked_fields();
    entry.add_field_tag()->set_field(54);
    entry.add_field_tag()->mutable_map_key()->set_ui32(static_cast<std::uint32_t>(i));
    entry.mutable_message()->set_chunk_index(static_cast<std::uint64_t>(i));
    chunked::ChunkInfo& info = *stored.add_chunks();
    info.set_type(chunked::ChunkInfo::BYTES);
    info.set_size(1);
  }
  return stored;
}

TEST(Merge, TakesNoMemoryForPathsThatAreLongAndAlike) {
  if (const char* why = testing::why_no_peak_memory(); *why != '\0') {
    GTEST_SKIP() << why;
  }
  const chunked::ChunkMetadata stored = far_below_the_root(20'000);

  const std::optional<std::size_t> merge_bytes = testing::peak_growth([&] {
    All out;
    Merger merger(stored, out);
    for (const std::uint64_t chunk : merger.wanted()) {
      merger.add(chunk, std::string("x"));
    }
    static_cast<void>(merger.finish());
  });
  const std::optional<std::size_t> part_bytes = testing::peak_growth([&] {
    All out;
    Merger merger(stored, *All::descriptor(), parse_path("c_all"), out);
  });
  const std::optional<std::size_t> text_bytes =
      testing::peak_growth([&] { static_cast<void>(ChunkPaths(stored, All::descriptor()).text(19'999)); });

  const std::size_t most_bytes = 64 * stored.ByteSizeLong();
  EXPECT_LT(merge_bytes.value_or(most_bytes), most_bytes);
  EXPECT_LT(part_bytes.value_or(most_bytes), most_bytes);
  EXPECT_LT(text_bytes.value_or(most_bytes), most_bytes);
  EXPECT_THAT(ChunkPaths(stored, All::descriptor()).text(19'999),
              ::testing::Optional(::testing::EndsWith("child.m_uint32[19999]")));
}

TEST(Merge, NamesLongPathsByTheirEnds) {
  chunked::ChunkMetadata stored = far_below_the_root(2);
  stored.mutable_chunks(1)->set_type(chunked::ChunkInfo::MESSAGE);
  All out;
  Merger merger(stored, out);

  EXPECT_THAT([&] { merger.add(1, std::string("x")); },
              Fails(Errc::malformed_metadata, AllOf(HasSubstr("chunk 1 at child.child."), HasSubstr(" ... "),
                                                    HasSubstr(".child.m_uint32[1]: it is a message"))));
}

TEST(Merge, RemarksOnTheFirstHundredNumbersOnly) {
  std::string tree;
  std::vector<Chunk> chunks;
  for (int i = 0; i < 200; ++i) {
    tree += field("52{i32: " + std::to_string(i) + "}.3[0]", 2 * i + 1);
    tree += field("52{i32: " + std::to_string(i) + "}", 2 * i);
    chunks.push_back(message_chunk<Leaf>("numbers: 0"));
    chunks.push_back(bytes_chunk("1234"));
  }
  Merged notices;

  merged_text<All>(chunks, tree, &notices);

  EXPECT_EQ(notices.remarks.size(), 100U);
}

TEST(Merge, MakesMessagesAgainThatAnotherFieldOfTheirOneofHasTakenAway) {
  EXPECT_EQ(merged_text<All>({bytes_chunk("x"), bytes_chunk("7"), bytes_chunk("5")},
                             "chunked_fields { message { " + field("43.15", 0) + "} } " + field("41", 1) +
                                 field("43.3", 2)),
            "c_all { f_int32: 5 }");
}

TEST(Merge, TakesPathsOfAMillionTagsForPartsThatAreNotThere) {
  std::string path = "child";
  for (int i = 1; i < 1'000'000; ++i) {
    path += ".child";
  }
  const chunked::ChunkMetadata stored = far_below_the_root(1);
  All out;

  EXPECT_THAT(
      [&] {
        Merger merger(stored, *All::descriptor(), parse_path(path), out);
        static_cast<void>(merger.finish());
      },
      Fails(Errc::not_found, HasSubstr(" ... ")));
}

TEST(Merge, RefusesMoreBytesThanAllowed) {
  const std::vector<Chunk> chunks = {bytes_chunk("12345"), bytes_chunk("67890")};
  MergeOptions options;
  options.most_bytes = 9;
  All out;

  EXPECT_THAT([&] { merge(chunks, chunked::ChunkedMessage(), out, options); },
              Fails(Errc::malformed_metadata, HasSubstr("more than 9 bytes")));
}

TEST(Merge, RefusesAResultWithoutItsRequiredFieldsUnlessAllowed) {
  const std::vector<Chunk> chunks = {bytes_chunk("c")};
  const auto tree = message_of_text<chunked::ChunkedMessage>(field("3", 0));
  Strict out;

  EXPECT_THAT([&] { merge(chunks, tree, out); }, Fails(Errc::malformed_metadata, HasSubstr("name")));

  MergeOptions options;
  options.allow_partial = true;
  merge(chunks, tree, out, options);
  EXPECT_EQ(out.content(), "c");
}

/// A stored message: its chunks as bytes, and what says where they belong.
struct Stored {
  std::vector<std::string> chunks;
  chunked::ChunkMetadata metadata;
};

/// A string far below the root has a chunk, and an element of a list.
Stored stored_message() {
  Stored stored;
  const auto add = [&stored](const std::string& bytes, bool is_message) {
    chunked::ChunkInfo& info = *stored.metadata.add_chunks();
    info.set_type(is_message ? chunked::ChunkInfo::MESSAGE : chunked::ChunkInfo::BYTES);
    info.set_size(bytes.size());
    stored.chunks.push_back(bytes);
  };
  add(message_of_text<All>(
          "f_int32: 1 child { f_int32: 2 child { f_int32: 3 } } r_all { f_string: 'a' } r_all {}")
          .SerializeAsString(),
      true);
  add("long", false);
  add(message_of_text<All>("f_string: 'b'").SerializeAsString(), true);
  *stored.metadata.mutable_message() =
      message_of_text<chunked::ChunkedMessage>("chunk_index: 0 " + field("71.71.15", 1) + field("36[1]", 2));
  return stored;
}

void add_wanted(Merger& merger, const Stored& stored) {
  for (std::size_t i = merger.wanted().size(); i-- > 0;) {  // In another order than they are merged in.
    const std::uint64_t chunk = merger.wanted()[i];
    const std::string& bytes = stored.chunks[static_cast<std::size_t>(chunk)];
    if (i % 2 == 0) {
      merger.add(chunk, std::as_bytes(std::span(bytes)));
    } else {
      merger.add(chunk, bytes);
    }
  }
}

template <class M>
std::string merged_part(const Stored& stored, const char* path, bool parts_are_whole) {
  M out;
  MergeOptions options;
  options.parts_are_whole = parts_are_whole;
  Merger merger(stored.metadata, *All::descriptor(), parse_path(path), out, options);
  std::string text;
  for (const std::uint64_t chunk : merger.wanted()) {
    text += std::to_string(chunk);
  }
  add_wanted(merger, stored);
  static_cast<void>(merger.finish());
  return text + ": " + out.ShortDebugString();
}

TEST(Merger, TakesChunksInAnyOrder) {
  const Stored stored = stored_message();
  All out;
  out.set_f_int64(1);

  Merger merger(stored.metadata, out);
  add_wanted(merger, stored);
  static_cast<void>(merger.finish());

  EXPECT_EQ(out.ShortDebugString(),
            "f_int32: 1 r_all { f_string: \"a\" } r_all { f_string: \"b\" } "
            "child { f_int32: 2 child { f_int32: 3 f_string: \"long\" } }");
}

TEST(Merger, NeedsTheChunksOfAPartOnly) {
  const Stored stored = stored_message();

  EXPECT_EQ(merged_part<All>(stored, "child.child", false), "01: f_int32: 3 f_string: \"long\"");
  EXPECT_EQ(merged_part<All>(stored, "child.child", true), "01: f_int32: 3 f_string: \"long\"");
  EXPECT_EQ(merged_part<All>(stored, "r_all[0]", true), "0: f_string: \"a\"");
  EXPECT_EQ(merged_part<All>(stored, "r_all[1]", false), "02: f_string: \"b\"");
  EXPECT_EQ(merged_part<All>(stored, "r_all[1]", true), "2: f_string: \"b\"");
}

TEST(Merger, RefusesPartsThatAreNotThere) {
  const Stored stored = stored_message();
  for (const char* path : {"r_all[2]", "r_all[18446744073709551615]"}) {
    EXPECT_THAT([&] { merged_part<All>(stored, path, true); }, Fails(Errc::not_found)) << path;
  }
  EXPECT_THAT([&] { merged_part<All>(stored, "child.child.child", true); },
              Fails(Errc::not_found, HasSubstr("has nothing at child.child.child")));
  EXPECT_THAT([&] { merged_part<All>(stored, "r_all", true); },
              Fails(Errc::invalid_argument, HasSubstr("'r_all' leads to no message")));
  EXPECT_THAT([&] { merged_part<All>(stored, "f_int32", true); }, Fails(Errc::invalid_argument));
  EXPECT_THAT([&] { merged_part<Leaf>(stored, "child", true); }, Fails(Errc::type_mismatch));
}

TEST(Merger, RefusesChunksThatAreNotAsTheyWereStored) {
  const Stored stored = stored_message();
  All out;
  Merger merger(stored.metadata, out);

  EXPECT_THAT([&] { merger.add(1, "longer"); },
              Fails(Errc::malformed_metadata, HasSubstr("chunk 1 has 6 bytes, and should have 4")));
  EXPECT_THAT([&] { merger.add(3, ""); }, Fails(Errc::invalid_argument, HasSubstr("chunk 3 is not wanted")));
  EXPECT_THAT([&] { static_cast<void>(merger.finish()); },
              Fails(Errc::invalid_argument, HasSubstr("not added")));
  merger.add(1, "long");
  EXPECT_THAT([&] { merger.add(1, "long"); }, Fails(Errc::invalid_argument, HasSubstr("there already")));
}

TEST(Merger, RefusesWhatWasWrittenForLaterMergers) {
  Stored stored = stored_message();
  All out;

  stored.metadata.mutable_version()->set_join_version(1);
  EXPECT_THAT([&] { Merger(stored.metadata, out); }, Fails(Errc::unsupported_version));
  stored.metadata.mutable_version()->set_join_version(0);
  stored.metadata.mutable_version()->add_bad_consumers(0);
  EXPECT_THAT([&] { Merger(stored.metadata, out); }, Fails(Errc::unsupported_version));
}

TEST(Merger, RefusesKindsOfChunksThatDoNotFit) {
  Stored stored = stored_message();
  All out;

  stored.metadata.mutable_chunks(2)->set_type(chunked::ChunkInfo::UNSET);
  EXPECT_THAT([&] { Merger(stored.metadata, out); },
              Fails(Errc::malformed_metadata, HasSubstr("chunk 2 is neither a message nor bytes")));
  stored.metadata.mutable_chunks(2)->set_type(chunked::ChunkInfo::BYTES);
  stored.metadata.mutable_chunks(1)->set_type(chunked::ChunkInfo::MESSAGE);
  Merger merger(stored.metadata, out);
  EXPECT_THAT([&] { merger.add(2, stored.chunks[2]); },
              Fails(Errc::malformed_metadata, HasSubstr("it is bytes")));
  EXPECT_THAT([&] { merger.add(1, stored.chunks[1]); },
              Fails(Errc::malformed_metadata, HasSubstr("it is a message")));
}

}  // namespace
}  // namespace cairn::proto
