// SPDX-License-Identifier: Apache-2.0
#include "cairn/proto/splitter.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/auto_splitter.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/chunked_file.hpp"
#include "cairn/proto/merger.hpp"

#include "proto/nesting.hpp"
#include "shapes.pb.h"
#include "shapes3.pb.h"
#include "support/fails.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_dir.hpp"

namespace cairn::proto {
namespace {

using cairn::test::shapes::All;
using cairn::test::shapes::Strict;
using cairn::test::shapes3::A;
using cairn::test::shapes3::Graph;
using cairn::test::shapes3::Layer;
using cairn::test::shapes3::ModelConfig;
using cairn::test::shapes3::Modern;
using cairn::test::shapes3::Node;
using google::protobuf::Message;
using google::protobuf::TextFormat;
using testing::Fails;
using ::testing::HasSubstr;

template <class M>
M from_text(const std::string& text) {
  M message;
  EXPECT_TRUE(TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

std::string as_text(const Message& message) {
  TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(message, &text);
  return text;
}

std::string as_text(const Chunk& chunk) {
  return chunk.type() == nullptr ? "'" + std::string(chunk.bytes()) + "'" : as_text(*chunk.to_message());
}

std::vector<std::string> as_texts(std::span<const Chunk> chunks) {
  std::vector<std::string> texts;
  for (const Chunk& chunk : chunks) {
    texts.push_back(as_text(chunk));
    while (!texts.back().empty() && texts.back().back() == ' ') {
      texts.back().pop_back();
    }
  }
  return texts;
}

void expect_tree(const chunked::ChunkedMessage& tree, const std::string& text) {
  const auto expected = from_text<chunked::ChunkedMessage>(text);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(tree, expected)) << tree.DebugString();
}

/// A splitter whose cuts a test writes down.
class ByHand final : public ComposableSplitter {
 public:
  using Cuts = std::function<void(ByHand&)>;

  ByHand(const Message& message, Cuts cuts, SplitOptions options = {})
      : ComposableSplitter(message, options), cuts_(std::move(cuts)) {}
  ByHand(const Message& message, ComposableSplitter& parent, const Path& path, Cuts cuts)
      : ComposableSplitter(message, parent, path), cuts_(std::move(cuts)) {}

  void build_chunks() override { cuts_(*this); }

  using ComposableSplitter::add_chunk;
  using ComposableSplitter::add_range;
  using ComposableSplitter::message;
  using ComposableSplitter::set_base;

 private:
  Cuts cuts_;
};

template <class M>
void expect_same_when_merged(ComposableSplitter& splitter, const M& message) {
  M merged;
  const Merged notices = merge(splitter.chunks(), splitter.chunked_message(), merged);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(merged, message)) << merged.DebugString();
  EXPECT_TRUE(notices.unused_chunks.empty());
  EXPECT_TRUE(notices.remarks.empty());
}

class LayerSplitter : public ComposableSplitter {
 public:
  using ComposableSplitter::ComposableSplitter;

  void build_chunks() override { add_chunk(Chunk::borrow(message()), {}); }
};

class ModelConfigSplitter : public ComposableSplitter {
 public:
  using ComposableSplitter::ComposableSplitter;

  void build_chunks() override {
    const auto& proto = static_cast<const ModelConfig&>(message());
    for (const auto& [k, v] : proto.hyperparameters()) {
      add_chunk(Chunk(fmt::format("{}", v)), {"hyperparameters", k});
    }
    for (int i = 0; const Layer& layer : proto.hidden_layers()) {
      LayerSplitter(layer, *this, {"hidden_layers", i++}).build_chunks();
    }
  }
};

TEST(ComposableSplitter, CutsTheModelConfigOfTheGuide) {
  const auto model = from_text<ModelConfig>(
      "model_name: 'm' input_shape: 3 output_units: 10 output_activation: TANH"
      " hidden_layers { name: 'a' num_units: 5 activation_function: SIGMOID } hidden_layers { name: 'b' "
      "num_units: 6 }"
      " hyperparameters { key: 'rate' value: 0.001 }");
  ModelConfigSplitter splitter(model);

  const auto [chunks, chunked_message] = splitter.split();

  EXPECT_THAT(
      as_texts(chunks),
      ::testing::ElementsAre(
          "model_name: \"m\" input_shape: 3 hidden_layers { } hidden_layers { } output_units: 10 "
          "output_activation: TANH",
          "'0.001'", "name: \"a\" num_units: 5 activation_function: SIGMOID", "name: \"b\" num_units: 6"));
  expect_tree(chunked_message,
              "chunk_index: 0"
              " chunked_fields { field_tag { field: 3 } field_tag { index: 0 } message { chunk_index: 2 } }"
              " chunked_fields { field_tag { field: 3 } field_tag { index: 1 } message { chunk_index: 3 } }"
              " chunked_fields { field_tag { field: 6 } field_tag { map_key { s: 'rate' } }"
              " message { chunk_index: 1 } }");
  expect_same_when_merged(splitter, model);
}

TEST(ComposableSplitter, WritesTheModelConfigOfTheGuideIntoFiles) {
  const auto model = from_text<ModelConfig>(
      "model_name: 'm' hidden_layers { name: 'a' num_units: 5 } hidden_layers { name: 'b' num_units: 6 }"
      " hyperparameters { key: 'momentum' value: 0.9 } hyperparameters { key: 'rate' value: 0.001 }");
  int files = 0;
  for (const char* codec : {"uncompressed", "brotli:6", "zstd:3", "snappy"}) {
    const testing::TempDir temp;
    WriteOptions options;
    options.records = codec;
    ModelConfigSplitter splitter(model);
    try {
      EXPECT_EQ(splitter.write(temp / "model", options).path, temp / "model.cpb");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::feature_missing) << error.what();
      continue;
    }
    ++files;
    ModelConfig read;
    EXPECT_THAT(proto::read(temp / "model", read).remarks, ::testing::IsEmpty()) << codec;
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(read, model)) << read.DebugString();
    Layer layer;
    static_cast<void>(read_part(temp / "model", *ModelConfig::descriptor(), {"hidden_layers", 1}, layer));
    EXPECT_EQ(layer.name(), "b") << codec;
  }
  if (files == 0) {
    GTEST_SKIP() << "this build has no files of records";
  }
}

/// The examples of the guide, with the chunks and the tree that it shows.
struct GuideExample {
  const char* name;
  const char* message;
  ByHand::Cuts cuts;
  std::vector<std::string> chunks;
  const char* tree;
};

std::vector<GuideExample> guide_examples() {
  return {
      {"ranges of a repeated field",
       "numbers: [1, 2, 3, 4, 5]",
       [](ByHand& splitter) {
         splitter.add_range({"numbers"}, 0, 2);
         splitter.add_range({"numbers"}, 2, 5);
       },
       {"numbers: 1 numbers: 2", "numbers: 3 numbers: 4 numbers: 5"},
       "chunked_fields { message { chunk_index: 0 } } chunked_fields { message { chunk_index: 1 } }"},
      {"ranges of a map",
       "values { key: 1 value: 2 } values { key: 3 value: 4 } values { key: 5 value: 6 }",
       [](ByHand& splitter) {
         splitter.add_range({"values"}, 1, 2);
         splitter.add_range({"values"}, 0, 1);
         splitter.add_range({"values"}, 2, 3);
       },
       {"values { key: 3 value: 4 }", "values { key: 1 value: 2 }", "values { key: 5 value: 6 }"},
       "chunked_fields { message { chunk_index: 0 } } chunked_fields { message { chunk_index: 1 } }"
       " chunked_fields { message { chunk_index: 2 } }"},
      {"values of a map",  // The guide has the tag [m, 3] for the first of them, whose key is 1: a slip.
       "m { key: 1 value { i: 3 } } m { key: 2 value { i: 4 } }",
       [](ByHand& splitter) {
         splitter.add_chunk({"m", 1});
         splitter.add_chunk({"m", 2});
       },
       {"i: 3", "i: 4"},
       "chunked_fields { field_tag { field: 3 } field_tag { map_key { i32: 1 } } message { chunk_index: 0 } }"
       " chunked_fields { field_tag { field: 3 } field_tag { map_key { i32: 2 } } message { chunk_index: 1 } "
       "}"},
      {"a parent that is not blank",
       "numbers: 7 b { i: 1 } c { i: 2 }",
       [](ByHand& splitter) {
         splitter.add_chunk({"b"});
         splitter.add_chunk({"c"});
       },
       {"numbers: 7", "i: 1", "i: 2"},
       "chunk_index: 0 chunked_fields { field_tag { field: 4 } message { chunk_index: 1 } }"
       " chunked_fields { field_tag { field: 5 } message { chunk_index: 2 } }"},
      {"a blank parent",
       "b { i: 1 } c { i: 2 }",
       [](ByHand& splitter) {
         splitter.add_chunk({"b"});
         splitter.add_chunk({"c"});
       },
       {"i: 1", "i: 2"},
       "chunked_fields { field_tag { field: 4 } message { chunk_index: 0 } }"
       " chunked_fields { field_tag { field: 5 } message { chunk_index: 1 } }"},
  };
}

TEST(ComposableSplitter, CutsTheExamplesOfTheGuide) {
  for (const GuideExample& example : guide_examples()) {
    SCOPED_TRACE(example.name);
    const A message = from_text<A>(example.message);
    ByHand splitter(message, example.cuts);

    EXPECT_EQ(as_texts(splitter.chunks()), example.chunks);
    expect_tree(splitter.chunked_message(), example.tree);
    expect_same_when_merged(splitter, message);
  }
}

TEST(ComposableSplitter, LeavesWhatWasCutOutBeforeOutOfALargerCut) {
  const auto message = from_text<All>(
      "f_int32: 1 child { f_string: 'in' f_leaf { name: 'leaf' content: 'c' } r_string: ['a', 'b', 'c'] }");
  ByHand splitter(message, [](ByHand& self) {
    self.add_chunk({"child", "f_leaf", "content"});
    self.add_chunk({"child", "r_string", 1});
    self.add_range({"child", "r_string"}, 1, 3);
    self.add_chunk({"child"});
  });

  EXPECT_THAT(as_texts(splitter.chunks()),
              ::testing::ElementsAre("f_int32: 1", "'c'", "'b'", "r_string: \"\" r_string: \"c\"",
                                     "f_string: \"in\" f_leaf { name: \"leaf\" } r_string: \"a\""));
  All merged;
  merge(splitter.chunks(), splitter.chunked_message(), merged);
  EXPECT_EQ(as_text(merged), as_text(message));
}

TEST(ComposableSplitter, PutsAChunkAtAPositionInFrontOfOthers) {
  const auto message = from_text<A>("numbers: 7 b { i: 1 } c { i: 2 }");
  ByHand splitter(message, [&message](ByHand& self) {
    self.add_chunk({"b"});
    self.add_chunk(Chunk::borrow(message.c()), {"c"}, 0);
  });

  EXPECT_THAT(as_texts(splitter.chunks()), ::testing::ElementsAre("numbers: 7", "i: 2", "i: 1"));
  expect_same_when_merged(splitter, message);
}

TEST(ComposableSplitter, HasTheBaseChunkThatItIsTold) {
  const auto message = from_text<A>("numbers: [1, 2] b { i: 1 }");
  const auto first = from_text<A>("numbers: 1");
  const auto rest = from_text<A>("numbers: 2 b { i: 1 }");
  ByHand splitter(message, [&](ByHand& self) {
    self.set_base(Chunk::borrow(first));
    self.add_chunk(Chunk::borrow(rest), {});
  });

  expect_tree(splitter.chunked_message(), "chunk_index: 0 chunked_fields { message { chunk_index: 1 } }");
  expect_same_when_merged(splitter, message);
}

TEST(ComposableSplitter, NestsWithAnAutoSplitter) {
  All message;
  message.set_f_int32(1);
  for (int i = 0; i < 100; ++i) {
    message.mutable_child()->add_r_string(std::string(50, 'x'));
    message.mutable_child()->add_r_all()->set_f_bytes(std::string(200, static_cast<char>(i)));
  }
  SplitOptions options;
  options.max_size = 300;
  ByHand splitter(
      message, [&message](ByHand& self) { AutoSplitter(message.child(), self, {"child"}).build_chunks(); },
      options);

  EXPECT_GT(splitter.chunks().size(), 20U);
  EXPECT_THAT(as_text(splitter.chunks().front()), HasSubstr("f_int32: 1"));
  expect_same_when_merged(splitter, message);
}

TEST(ComposableSplitter, HangsChunksBelowOneValueOfAMapFromANodeOfItsOwn) {
  All message;
  All& value = (*message.mutable_m_string())["k"];
  value.set_f_string(std::string(40, 's'));
  value.mutable_f_leaf()->set_name("n");
  ByHand splitter(message, [](ByHand& self) {
    self.add_chunk({"m_string", "k", "f_string"});
    self.add_chunk({"m_string", "k", "f_leaf"});
  });

  expect_tree(
      splitter.chunked_message(),
      "chunk_index: 0 chunked_fields { field_tag { field: 51 } field_tag { map_key { s: 'k' } } message {"
      " chunked_fields { field_tag { field: 15 } message { chunk_index: 1 } }"
      " chunked_fields { field_tag { field: 17 } message { chunk_index: 2 } } } }");
  expect_same_when_merged(splitter, message);
}

TEST(ComposableSplitter, RefusesWhatCannotBeCut) {
  const auto message = from_text<All>(
      "f_int32: 1 f_string: 's' f_leaf { name: 'n' } r_string: ['a', 'b', 'c'] r_all { f_int32: 1 }"
      " m_string { key: 'k' value { f_int32: 2 } } m_sint32 { key: 1 value: 1 }");
  struct Case {
    const char* why;
    ByHand::Cuts cuts;
  };
  const std::vector<Case> cases = {
      {"has no field 'nothing'", [](ByHand& self) { self.add_chunk({"nothing"}); }},
      {"has no field 999", [](ByHand& self) { self.add_chunk({999}); }},
      {"a field is a name or a number", [](ByHand& self) { self.add_chunk({true}); }},
      {"is not a repeated field or a map", [](ByHand& self) { self.add_range({"f_leaf"}, 0, 1); }},
      {"'f_int32' is not a message",
       [](ByHand& self) {
         self.add_chunk({"f_int32", "x"});
       }},
      {"an index is missing",
       [](ByHand& self) {
         self.add_chunk({"r_all", "f_int32"});
       }},
      {"a key of 'm_string' is of type string",
       [](ByHand& self) {
         self.add_chunk({"m_string", 5});
       }},
      {"a key of 'm_sint32' is of type sint32",
       [](ByHand& self) {
         self.add_chunk({"m_sint32", 1ULL << 40});
       }},
      {"there is no element 3 among 3",
       [](ByHand& self) {
         self.add_chunk({"r_string", 3});
       }},
      {"add_range cuts out elements", [](ByHand& self) { self.add_chunk({"r_string"}); }},
      {"nothing is there", [](ByHand& self) { self.add_chunk({"child"}); }},
      {"nothing is there",
       [](ByHand& self) {
         self.add_chunk({"m_string", "other"});
       }},
      {"only messages and strings", [](ByHand& self) { self.add_chunk({"f_int32"}); }},
      {"'f_leaf': it is cut out twice",
       [](ByHand& self) {
         self.add_chunk({"f_leaf"});
         self.add_chunk({"f_leaf"});
       }},
      {"'f_leaf.name': it lies in 'f_leaf'",
       [](ByHand& self) {
         self.add_chunk({"f_leaf"});
         self.add_chunk({"f_leaf", "name"});
       }},
      {"there is a cairn.test.shapes.Leaf, and the chunk is bytes",
       [](ByHand& self) { self.add_chunk(Chunk(std::string("x")), {"f_leaf"}); }},
      {"there is no message, and the chunk is a cairn.test.shapes.All",
       [](ByHand& self) { self.add_chunk(Chunk::borrow(self.message()), {"f_string"}); }},
      {"there is no position 1 among 0",
       [](ByHand& self) { self.add_chunk(Chunk(std::string("1")), {"f_int32"}, 1); }},
      {"'m_string[\"other\"].r_string': there is no message that has it",
       [](ByHand& self) {
         self.add_range({"m_string", "other", "r_string"}, 0, 0);
       }},
      {"'m_int32[7].numbers': there is no message that has it",
       [](ByHand& self) {
         self.add_range({"m_int32", 7, "numbers"}, 0, 0);
       }},
      {"'child.r_all': there is no message that has it",
       [](ByHand& self) {
         self.add_range({"child", "r_all"}, 0, 0);
       }},
      {"there are no elements [1, 4) among 3", [](ByHand& self) { self.add_range({"r_string"}, 1, 4); }},
      {"elements [1, 3) are cut out twice",
       [](ByHand& self) {
         self.add_range({"r_string"}, 0, 2);
         self.add_range({"r_string"}, 1, 3);
       }},
      {"elements [2, 3) are in no range", [](ByHand& self) { self.add_range({"r_string"}, 1, 2); }},
      {"do not begin where the range before ends",
       [](ByHand& self) {
         self.add_range({"r_string"}, 2, 3);
         self.add_range({"r_string"}, 1, 2);
       }},
      {"set_base has not said", [](ByHand& self) { self.add_chunk(Chunk::borrow(self.message()), {}); }},
      {"the base chunk is not a", [](ByHand& self) { self.set_base(Chunk(std::string("x"))); }},
      {"there is no message of type",
       [&message](ByHand& self) {
         ByHand(message, self, {"f_leaf"}, [](ByHand& /*self*/) {}).build_chunks();
       }},
      {"a part of it was cut out before",
       [&message](ByHand& self) {
         self.add_chunk({"r_all", 0});
         AutoSplitter(message.r_all(0), self, {"r_all", 0}).build_chunks();
       }},
  };
  for (const Case& one : cases) {
    ByHand splitter(message, one.cuts);

    EXPECT_THAT([&] { (void)splitter.chunks(); }, Fails(Errc::invalid_argument, HasSubstr(one.why)));
  }
}

TEST(ComposableSplitter, RefusesLimitsThatAreNone) {
  const All message;
  for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{1} << 31}) {
    SplitOptions options;
    options.max_size = limit;
    EXPECT_THAT([&] { AutoSplitter splitter(message, options); },
                Fails(Errc::invalid_argument, HasSubstr("max_size")));
  }
}

TEST(ComposableSplitter, RefusesAChunkAboveTheLimit) {
  const auto message = from_text<All>("f_leaf { name: '12345678901234567890' }");
  SplitOptions options;
  options.max_size = 10;
  ByHand splitter(
      message, [](ByHand& self) { self.add_chunk({"f_leaf"}); }, options);

  EXPECT_THAT(
      [&] { (void)splitter.chunks(); },
      Fails(Errc::invalid_argument, HasSubstr("'f_leaf': a chunk of 22 bytes is larger than max_size, 10")));
}

TEST(ComposableSplitter, RefusesMessagesWithoutTheirRequiredFields) {
  Strict message;
  AutoSplitter splitter(message);

  EXPECT_THAT([&] { (void)splitter.chunks(); }, Fails(Errc::invalid_argument, HasSubstr("name")));
}

TEST(ComposableSplitter, RefusesToSplitAsAChild) {
  const auto message = from_text<A>("b { i: 1 }");
  ByHand parent(message, [](ByHand& /*self*/) {});
  ByHand child(message.b(), parent, {"b"}, [](ByHand& /*self*/) {});

  EXPECT_THAT([&] { (void)child.split(); }, Fails(Errc::invalid_argument, HasSubstr("split the parent")));
}

TEST(ComposableSplitter, BeginsAgainAfterItHasThrown) {
  const auto message = from_text<A>("b { i: 1 }");
  int calls = 0;
  ByHand splitter(message, [&calls](ByHand& self) {
    self.add_chunk({"b"});
    if (calls++ == 0) {
      throw std::runtime_error("not now");
    }
  });

  EXPECT_THROW((void)splitter.split(), std::runtime_error);
  EXPECT_EQ(splitter.chunks().size(), 1U);
  EXPECT_EQ(splitter.chunks().size(), 1U);
  EXPECT_EQ(calls, 2);
}

TEST(Chunk, RefusesAMessageThatWasChangedSinceItWasPlanned) {
  auto message = from_text<All>("f_string: 's' child { f_string: 't' }");
  ByHand splitter(message, [](ByHand& self) { self.add_chunk({"child"}); });
  const auto chunks = splitter.chunks();

  message.mutable_child()->set_f_string("longer");

  std::vector<std::byte> room(chunks[1].size_bytes());
  EXPECT_THAT([&] { chunks[1].write(room); }, Fails(Errc::invalid_argument, HasSubstr("was changed")));
  room.pop_back();
  EXPECT_THAT([&] { chunks[1].write(room); }, Fails(Errc::invalid_argument, HasSubstr("was given room for")));
}

TEST(Chunk, RefusesAMessageThatHasFewerElementsThanWhenItWasPlanned) {
  const std::vector<std::function<void(All&)>> changes = {
      [](All& message) { message.clear_r_int32(); },
      [](All& message) { message.clear_several(); },
      [](All& message) { message.clear_m_sint32(); },
      [](All& message) { message.mutable_unknown_fields()->DeleteSubrange(0, 1); },
  };
  for (const auto& change : changes) {
    All message;
    for (int i = 0; i < 20; ++i) {
      message.add_r_int32(i);
      message.add_several()->set_text("text");
      (*message.mutable_m_sint32())[i] = i;
      message.mutable_unknown_fields()->AddVarint(90'000, 5);
    }
    SplitOptions options;
    options.max_size = 50;
    AutoSplitter splitter(message, options);
    const auto chunks = splitter.chunks();
    change(message);

    EXPECT_THAT(
        [&] {
          for (const Chunk& chunk : chunks) {
            std::vector<std::byte> room(chunk.size_bytes());
            chunk.write(room);
          }
        },
        Fails(Errc::invalid_argument, HasSubstr("was changed")));
  }
}

TEST(AutoSplitter, MakesABytesChunkOfEachLargeString) {
  All message;
  message.set_f_bytes(std::string(1000, 'b'));
  (*message.mutable_m_uint32())[7] = std::string(900, 'm');
  message.add_r_string("short");
  message.add_r_string(std::string(800, 's'));
  SplitOptions options;
  options.max_size = 100;
  AutoSplitter splitter(message, options);

  EXPECT_THAT(as_texts(splitter.chunks()),
              ::testing::ElementsAre("r_string: \"short\" r_string: \"\"", "'" + std::string(1000, 'b') + "'",
                                     "'" + std::string(800, 's') + "'", "'" + std::string(900, 'm') + "'"));
  expect_same_when_merged(splitter, message);
  EXPECT_EQ(splitter.chunks()[1].bytes().data(), message.f_bytes().data()) << "the bytes were copied";
}

/// Messages below `message`, each in the one before.
Modern& nest(Modern& message, int levels) {
  Modern* inner = &message;
  for (int i = 0; i < levels; ++i) {
    inner = inner->mutable_child();
  }
  return *inner;
}

TEST(AutoSplitter, RefusesMessagesThatCouldNotBeReadAgain) {
  Modern deepest;
  nest(deepest, 1000);
  AutoSplitter splitter(deepest);
  expect_same_when_merged(splitter, deepest);
  Modern again;
  EXPECT_TRUE(parse(deepest.SerializeAsString(), again, kMostNesting));

  Modern deeper;
  nest(deeper, 1001);
  Modern by_map = deepest;
  (*nest(by_map, 999).mutable_children())["k"].set_boolean(true);
  Modern by_scalar_map = deepest;
  (*nest(by_scalar_map, 1000).mutable_enums())["k"] = cairn::test::shapes3::TANH;
  Modern by_list = deepest;
  (void)nest(by_list, 1000).add_list();
  Modern by_unknown = deepest;
  by_unknown.GetReflection()->MutableUnknownFields(&nest(by_unknown, 1000))->AddGroup(5000);
  for (const Modern& message : {deeper, by_map, by_scalar_map, by_list, by_unknown}) {
    // Small enough for one page, which is never taken apart.
    AutoSplitter too_deep(message);
    EXPECT_THAT([&] { (void)too_deep.chunks(); },
                Fails(Errc::invalid_argument, HasSubstr("more than 1000 levels deep")));
    Modern read;
    EXPECT_FALSE(parse(message.SerializeAsString(), read, kMostNesting));
  }
}

TEST(AutoSplitter, RefusesAChildThatIsTooDeepWhereItLies) {
  Modern message;
  nest(message, 500);
  Modern part;
  nest(part, 600);
  ByHand splitter(message, [&part](ByHand& self) {
    Path path;
    for (int i = 0; i < 500; ++i) {
      path.emplace_back("child");
    }
    AutoSplitter(part, self, path).build_chunks();
  });

  EXPECT_THAT([&] { (void)splitter.chunks(); },
              Fails(Errc::invalid_argument, HasSubstr("more than 1000 levels deep")));
}

TEST(AutoSplitter, PlansTheCutsOfManyNodes) {
  const int nodes = testing::kHasSanitizer ? 10'000 : 1'000'000;
  Graph graph;
  for (int i = 0; i < nodes; ++i) {
    Node& node = *graph.add_nodes();
    node.set_name(fmt::format("node/{}", i));
    node.set_operation("MatMul");
    (*node.mutable_attributes())["T"].set_i(i);
  }
  SplitOptions options;
  options.max_size = 1 << 20;
  AutoSplitter splitter(graph, options);

  const auto begin = std::chrono::steady_clock::now();
  const auto chunks = splitter.chunks();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;

  fmt::print("planning the cuts of {} nodes took {:.3f} s\n", nodes, taken.count());
  std::uint64_t bytes = 0;
  for (const Chunk& chunk : chunks) {
    bytes += chunk.size_bytes();
    EXPECT_LE(chunk.size_bytes(), options.max_size);
  }
  EXPECT_EQ(bytes, graph.ByteSizeLong());
  EXPECT_LE(chunks.size(), 2 + bytes / options.max_size);
}

TEST(AutoSplitter, CutsMessagesThatLieDeepInEachOther) {
  All message;
  All* inner = &message;
  for (int i = 0; i < 300; ++i) {
    (*inner->mutable_m_string())["k"].set_f_string(std::string(100, 'x'));
    inner = &(*inner->mutable_m_string())["k"];
  }
  SplitOptions options;
  options.max_size = 200;
  AutoSplitter splitter(message, options);

  All merged;
  merge(splitter.chunks(), splitter.chunked_message(), merged);
  EXPECT_EQ(merged.SerializeAsString(), message.SerializeAsString());
  chunked::ChunkedMessage read;
  EXPECT_TRUE(read.ParseFromString(splitter.chunked_message().SerializeAsString()))
      << "too deep for protobuf";
}

}  // namespace
}  // namespace cairn::proto
