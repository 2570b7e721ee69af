// SPDX-License-Identifier: Apache-2.0
#include "cairn/proto/splitter.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/auto_splitter.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/chunked_file.hpp"
#include "cairn/proto/merger.hpp"

#include "proto/by_hand.hpp"
#include "proto/internal/chunked_file.hpp"
#include "shapes.pb.h"
#include "shapes3.pb.h"
#include "support/fails.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/temp_dir.hpp"

namespace cairn::proto {
namespace {

using cairn::test::shapes::All;
using cairn::test::shapes::Strict;
using cairn::test::shapes3::A;
using cairn::test::shapes3::Layer;
using cairn::test::shapes3::ModelConfig;
using testing::Fails;
using ::testing::HasSubstr;

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
    for (const auto& entry : proto.hyperparameters()) {
      add_chunk({"hyperparameters", entry.first});
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
    const testing::TempDir temp;
    testing::write_text(temp / "model.cpb", "anything");
    ModelConfig read;
    EXPECT_THAT([&] { static_cast<void>(proto::read(temp / "model", read)); },
                Fails(Errc::feature_missing, HasSubstr("libhighwayhash-dev")));
    EXPECT_THAT([&] { static_cast<void>(read_metadata(temp / "model")); }, Fails(Errc::feature_missing));
    GTEST_SKIP() << "this build has no files of records";
  }
}

/// Another program makes each directory just before.
class MadeByOthers final : public testing::ForwardingSyscalls {
 public:
  int make_directory_at(int directory, const char* name, std::uint32_t mode) noexcept override {
    const int made = ForwardingSyscalls::make_directory_at(directory, name, mode);
    return made == 0 ? -EEXIST : made;
  }
};

TEST(ComposableSplitter, MayFindItsDirectoriesMadeByOthersMeanwhile) {
  const testing::TempDir temp;
  MadeByOthers calls;
  const auto message = from_text<A>("numbers: 7");
  AutoSplitter splitter(message);
  write_message(calls, splitter.split(), temp / "a/b/model", WriteOptions());
  A read;
  static_cast<void>(proto::read(temp / "a/b/model", read));
  EXPECT_EQ(read.numbers(0), 7);
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

TEST(ComposableSplitter, CutsOutNumbersAsTheirShortestExactTexts) {
  auto message = from_text<All>(
      "f_int32: 123 f_int64: -5 f_bool: true f_enum: BLUE r_double: [0.5, 0.1] m_fixed32 { key: 7 value: 0 }"
      " m_sint64 { key: 1 value: BLUE } m_sint32 { key: 2 value: -9 }");
  message.set_f_float(1e-9F);
  message.set_f_double(1.0 / 3);
  (*message.mutable_m_fixed32())[7] = 1e-9;
  ByHand splitter(message, [](ByHand& self) {
    for (const char* field : {"f_double", "f_float", "f_int32", "f_int64", "f_bool", "f_enum"}) {
      self.add_chunk({field});
    }
    self.add_chunk({"r_double", 1});
    self.add_chunk({"m_sint32", 2});
    self.add_chunk({"m_sint64", 1});
    self.add_chunk({"m_fixed32", 7});
  });

  EXPECT_THAT(
      as_texts(splitter.chunks()),
      ::testing::ElementsAre("r_double: 0.5 r_double: 0.1", "'0.3333333333333333'", "'1e-09'", "'123'",
                             "'-5'", "'true'", "'BLUE'", "'0.1'", "'-9'", "'BLUE'", "'1e-09'"));
  expect_same_when_merged(splitter, message);
}

TEST(ComposableSplitter, CutsOutAnEnumWithoutANameAsItsBytes) {
  ModelConfig message;
  message.set_output_activation(static_cast<cairn::test::shapes3::ActivationFunction>(1000));
  ByHand splitter(message, [](ByHand& self) { self.add_chunk({"output_activation"}); });

  EXPECT_EQ(splitter.chunks()[0].bytes(), std::string_view("\xe8\x03\x00\x00", 4));
  expect_same_when_merged(splitter, message);
}

TEST(ComposableSplitter, NamesThePartThatWasChangedSinceItWasSplit) {
  struct Case {
    const char* path;
    std::function<void(All&)> change;
  };
  const std::vector<Case> cases = {
      {"'child'", [](All& message) { message.mutable_child()->add_r_int32(5); }},
      {"'f_leaf.content'", [](All& message) { message.mutable_f_leaf()->set_content("longer"); }},
      {"'m_string[\"k\"]'", [](All& message) { message.mutable_m_string()->clear(); }},
      {"r_all[1]'", [](All& message) { message.mutable_r_all()->RemoveLast(); }},
      {"'the message itself'", [](All& message) { message.set_f_int32(1); }},
  };
  for (const Case& each : cases) {
    auto message = from_text<All>(
        "f_leaf { name: 'n' content: 'c' } r_all { f_int32: 1 } r_all { f_int32: 2 } child { f_int32: 3 }"
        " m_string { key: 'k' value { f_int32: 4 } }");
    ByHand splitter(message, [](ByHand& self) {
      self.add_chunk({"f_leaf", "content"});
      self.add_chunk({"r_all", 1});
      self.add_chunk({"m_string", "k"});
      self.add_chunk({"child"});
    });
    static_cast<void>(splitter.split());
    each.change(message);

    EXPECT_THAT([&] { static_cast<void>(splitter.write_to_string()); },
                Fails(Errc::invalid_argument, HasSubstr(each.path)));
  }
}

TEST(ComposableSplitter, RefusesAMapThatHasOtherKeysSinceItWasSplit) {
  auto message = from_text<All>("m_uint32 { key: 1 value: 'a' } m_uint32 { key: 2 value: 'b' }");
  ByHand splitter(message, [](ByHand& self) { self.add_range({"m_uint32"}, 0, 2); });
  const Chunk range = splitter.chunks().back();
  EXPECT_EQ(as_texts(splitter.chunks()).back(),
            "m_uint32 { key: 1 value: \"a\" } m_uint32 { key: 2 value: \"b\" }");

  message.mutable_m_uint32()->erase(2);
  (*message.mutable_m_uint32())[3] = "b";

  EXPECT_THAT([&] { static_cast<void>(range.to_string()); },
              Fails(Errc::invalid_argument, HasSubstr("its 'm_uint32' has other keys by now")));
}

TEST(ComposableSplitter, CutsManyValuesOutOfOneMap) {
  All message;
  for (std::uint32_t key = 0; key < 2000; ++key) {
    (*message.mutable_m_uint32())[key] = "value";
  }
  ByHand splitter(message, [](ByHand& self) {
    for (std::uint64_t key = 0; key < 2000; ++key) {
      self.add_chunk({"m_uint32", key});
    }
  });

  EXPECT_EQ(splitter.chunks().size(), 2000U);
  expect_same_when_merged(splitter, message);
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

TEST(ComposableSplitter, TakesChunksFromBuildChunksOnlyAndGivesThemAfterwardsOnly) {
  const auto message = from_text<A>("numbers: [1] b { i: 1 }");
  ByHand early(message, [](ByHand& /*self*/) {});
  for (const ByHand::Cuts& cuts : {ByHand::Cuts([](ByHand& self) { self.add_chunk({"b"}); }),
                                   ByHand::Cuts([](ByHand& self) { self.add_range({"numbers"}, 0, 1); }),
                                   ByHand::Cuts([](ByHand& self) { self.set_base(std::nullopt); })}) {
    EXPECT_THAT([&] { cuts(early); }, Fails(Errc::invalid_argument, HasSubstr("would be lost")));
  }
  EXPECT_EQ(early.chunks().size(), 1U);
  EXPECT_THAT([&] { early.add_chunk({"b"}); }, Fails(Errc::invalid_argument, HasSubstr("would be lost")));

  ByHand curious(message, [](ByHand& self) { (void)self.chunks(); });
  EXPECT_THAT([&] { (void)curious.chunks(); },
              Fails(Errc::invalid_argument, HasSubstr("before build_chunks has returned")));
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

}  // namespace
}  // namespace cairn::proto
