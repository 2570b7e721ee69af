// SPDX-License-Identifier: Apache-2.0
#include "cairn/proto/auto_splitter.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/dynamic_message.h>
#include <gtest/gtest.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/merger.hpp"

#include "proto/by_hand.hpp"
#include "proto/nesting.hpp"
#include "proto/scalars.hpp"
#include "shapes.pb.h"
#include "shapes3.pb.h"
#include "support/fails.hpp"
#include "support/sanitizer.hpp"

namespace cairn::proto {
namespace {

using cairn::test::shapes::All;
using cairn::test::shapes3::Graph;
using cairn::test::shapes3::Modern;
using cairn::test::shapes3::Node;
using testing::Fails;
using ::testing::HasSubstr;

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

/// A message with a map whose three keys lie twice in the binary form.
void parse_doubled(google::protobuf::Message& out) {
  All first;
  All second;
  for (const int key : {0, 1, 2}) {
    (*first.mutable_m_sint32())[key] = 2;
    (*second.mutable_m_sint32())[key] = 3;
  }
  ASSERT_TRUE(
      out.ParsePartialFromString(first.SerializePartialAsString() + second.SerializePartialAsString()));
}

TEST(AutoSplitter, CountsAKeyOnceThatADynamicMessageHasTwice) {
  google::protobuf::DynamicMessageFactory factory;
  for (const std::uint64_t max_size : {7U, 14U, 20U, 100U}) {
    SCOPED_TRACE(max_size);
    const std::unique_ptr<google::protobuf::Message> message(factory.GetPrototype(All::descriptor())->New());
    parse_doubled(*message);
    SplitOptions options;
    options.max_size = max_size;
    AutoSplitter splitter(*message, options);
    const SplitResult split = splitter.split();

    All merged;
    merge(split.chunks, split.chunked_message, merged);
    EXPECT_EQ(merged.m_sint32_size(), 3);
    EXPECT_EQ(merged.m_sint32().at(0), 3);
    EXPECT_EQ(AutoSplitter(*message, options).split().chunks.size(), split.chunks.size());
  }
}

TEST(AutoSplitter, CountsSuchKeysOnceInRangesAndInWhatIsLeft) {
  google::protobuf::DynamicMessageFactory factory;
  const std::unique_ptr<google::protobuf::Message> message(factory.GetPrototype(All::descriptor())->New());
  parse_doubled(*message);
  ByHand too_many(*message, [](ByHand& cuts) { cuts.add_range({"m_sint32"}, 0, 4); });
  EXPECT_THAT([&] { static_cast<void>(too_many.split()); },
              Fails(Errc::invalid_argument, HasSubstr("among 3")));

  ByHand splitter(*message, [](ByHand& cuts) { cuts.add_range({"m_sint32"}, 1, 3); });
  const SplitResult split = splitter.split();
  All merged;
  merge(split.chunks, split.chunked_message, merged);
  EXPECT_EQ(merged.m_sint32_size(), 3);
  EXPECT_EQ(merged.m_sint32().at(2), 3);
}

TEST(AutoSplitter, WritesWithinItsLimitWhereAKeyThatADynamicMessageHasTwiceTakesItAboveIt) {
  google::protobuf::DynamicMessageFactory factory;
  const std::unique_ptr<google::protobuf::Message> message(factory.GetPrototype(All::descriptor())->New());
  parse_doubled(*message);
  SplitOptions options;
  options.max_size = message->ByteSizeLong() - 1;
  AutoSplitter splitter(*message, options);

  ASSERT_EQ(splitter.chunks().size(), 1U);
  EXPECT_EQ(splitter.chunks()[0].size_bytes(), message->ByteSizeLong() / 2);
}

TEST(AutoSplitter, MakesListsOfMapsThatItCutsOnly) {
  All message;
  for (std::uint32_t key = 0; key < 100; ++key) {
    (*message.mutable_m_uint32())[key] = "value";
  }
  const auto space = message.SpaceUsedLong();

  static_cast<void>(AutoSplitter(message).split());
  EXPECT_EQ(message.SpaceUsedLong(), space);

  SplitOptions options;
  options.max_size = 100;
  static_cast<void>(AutoSplitter(message, options).split());
  EXPECT_GT(message.SpaceUsedLong(), space);
}

TEST(AutoSplitter, MergesToMapsThatAreInMemoryOnce) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  All message;
  (*message.mutable_m_uint64())[1] = std::string(kBytes, 'x');
  (*message.mutable_m_int32())[1].set_content(std::string(kBytes, 'y'));
  (*message.mutable_m_int32())[2].set_name("small");
  SplitOptions options;
  options.max_size = 1000;
  AutoSplitter splitter(message, options);

  All merged;
  merge(splitter.chunks(), splitter.chunked_message(), merged);
  EXPECT_EQ(merged.m_uint64().at(1), message.m_uint64().at(1));
  EXPECT_EQ(merged.m_int32().at(1).content(), message.m_int32().at(1).content());
  EXPECT_EQ(merged.m_int32().at(2).name(), "small");
  EXPECT_LT(merged.SpaceUsedLong(), kBytes * 5 / 2);
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

TEST(AutoSplitter, FillsPagesWithLongListsOfNumbersOfEachKind) {
  All message;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < All::descriptor()->field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *All::descriptor()->field(i);
    if (!is_number_list(field)) {
      continue;
    }
    with_scalar(field, [&]<class T>(const ScalarFunctions<T>& functions) {
      if constexpr (std::is_arithmetic_v<T>) {
        for (int number = 0; number < 3000; ++number) {
          const int value = field.enum_type() != nullptr ? field.enum_type()->value(number % 2)->number()
                                                         : (number - 100) * 5000;
          (reflection.*functions.add)(&message, &field, static_cast<T>(value));
        }
      }
    });
  }
  SplitOptions options;
  options.max_size = 1000;
  AutoSplitter splitter(message, options);

  std::size_t full = 0;
  for (const Chunk& chunk : splitter.chunks()) {
    std::string bytes(chunk.size_bytes(), '\0');
    chunk.write(std::as_writable_bytes(std::span(bytes)));
    EXPECT_LE(bytes.size(), options.max_size);
    full += bytes.size() > 950 ? 1 : 0;
  }
  EXPECT_GE(full + 1, splitter.chunks().size());
  expect_same_when_merged(splitter, message);
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

TEST(AutoSplitter, PacksALargeMessageIntoItsPageSize) {
  All message;
  message.set_f_string(std::string(300, 'f'));
  for (int i = 0; i < 20; ++i) {
    message.add_r_string(std::string(200, 's'));
    message.add_r_int32(i);
  }
  SplitOptions options;
  options.max_size = 3000;
  options.page_size = 150;

  AutoSplitter splitter(message, options);

  std::vector<std::string> texts;
  for (const Chunk& chunk : splitter.chunks()) {
    if (chunk.type() == nullptr) {
      texts.emplace_back(chunk.bytes());
    } else {
      EXPECT_LE(chunk.size_bytes(), 150U + 200U);  // A string of a list stays in a page.
    }
  }
  EXPECT_EQ(texts, std::vector<std::string>{message.f_string()});
  EXPECT_GT(splitter.chunks().size(), 20U);
  expect_same_when_merged(splitter, message);
}

TEST(AutoSplitter, LeavesAMessageWholeThatIsLargerThanAPageOnly) {
  All message;
  for (int i = 0; i < 100; ++i) {
    message.add_r_all()->set_f_int32(i);
  }
  SplitOptions options;
  options.page_size = 50;

  EXPECT_EQ(AutoSplitter(message, options).chunks().size(), 1U);
}

}  // namespace
}  // namespace cairn::proto
