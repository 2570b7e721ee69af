// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <google/protobuf/arena.h>
#include <gtest/gtest.h>

#include "cairn/proto/auto_splitter.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/merger.hpp"

#include "proto/random_message.hpp"
#include "proto/splice.hpp"
#include "shapes.pb.h"
#include "shapes3.pb.h"
#include "support/dice.hpp"
#include "support/number_from.hpp"
#include "support/sampling.hpp"
#include "support/sanitizer.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::Message;
using testing::Dice;
using testing::fill_randomly;
using testing::Prototypes;
using testing::serialised;

// Most bytes of a key, of an unknown field, and of what comes with them, in the messages of this test.
constexpr std::uint64_t kMostOfOnePiece = 60;

/// Lists the chunks of each node in another order: they are sorted by their tags, and only those of one path by number.
void shuffle(chunked::ChunkedMessage& node, Dice& dice) {
  auto& fields = *node.mutable_chunked_fields();
  for (int i = fields.size() - 1; i > 0; --i) {
    const int other = static_cast<int>(dice.below(static_cast<std::size_t>(i) + 1));
    fields.SwapElements(i, other);
  }
  for (auto& field : fields) {
    shuffle(*field.mutable_message(), dice);
  }
}

std::string written(const Chunk& chunk) {
  std::string bytes(chunk.size_bytes(), '\0');
  chunk.write(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

/// Puts each chunk through its binary form, as a file does.
std::vector<Chunk> through_bytes(std::span<const Chunk> chunks) {
  std::vector<Chunk> read;
  for (const Chunk& chunk : chunks) {
    if (chunk.type() == nullptr) {
      read.emplace_back(std::string(chunk.bytes()));
      continue;
    }
    std::shared_ptr<Message> message = chunk.to_message();
    const std::string copied = serialised(*message);
    message->Clear();
    EXPECT_TRUE(message->ParsePartialFromString(written(chunk)));
    EXPECT_EQ(serialised(*message), copied);
    read.emplace_back(std::shared_ptr<const Message>(message));
  }
  return read;
}

void expect_round_trip(std::uint64_t seed, Prototypes& prototypes) {
  SCOPED_TRACE(seed);
  Dice dice(seed);
  const std::unique_ptr<Message> message(prototypes.pick(dice).New());
  fill_randomly(*message, dice, 1 + static_cast<int>(dice.below(4)));
  const std::string before = serialised(*message);
  SplitOptions options;
  options.max_size = kMostOfOnePiece + (dice.one_in(2) ? dice.below(100) : dice.below(6000));

  AutoSplitter splitter(*message, options);
  const SplitResult split = splitter.split();
  chunked::ChunkedMessage tree = split.chunked_message;
  for (const Chunk& chunk : split.chunks) {
    if (chunk.type() != nullptr) {
      EXPECT_LE(chunk.size_bytes(), options.max_size);
    }
  }
  const std::vector<Chunk> read = dice.one_in(4)
                                      ? through_bytes(split.chunks)
                                      : std::vector<Chunk>(split.chunks.begin(), split.chunks.end());
  shuffle(tree, dice);
  google::protobuf::Arena arena;
  Message* merged = message->New(dice.one_in(2) ? &arena : nullptr);
  const std::unique_ptr<Message> owned(merged->GetArena() == nullptr ? merged : nullptr);
  MergeOptions merge_options;
  merge_options.threads = dice.one_in(50) ? 3 : 1;
  const Merged notices = merge(read, tree, *merged, merge_options);

  EXPECT_EQ(serialised(*merged), before);
  EXPECT_TRUE(notices.unused_chunks.empty());
  EXPECT_EQ(serialised(*message), before) << "the input was changed";
}

TEST(AutoSplitter, CutsRandomMessagesThatMergeToTheSameAgain) {
  Prototypes prototypes;
  const std::uint64_t first = testing::number_from("CAIRN_PROTO_FIRST", 0);
  const std::uint64_t count = testing::number_from("CAIRN_PROTO_MESSAGES", 40'000);
  const testing::Sample sample(testing::kHasSanitizer ? 40 : 1);

  for (std::uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) {
    if (sample.takes(seed)) {
      expect_round_trip(seed, prototypes);
    }
  }
}

TEST(AutoSplitter, GivesTheSameChunksForTheSameMessage) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Dice dice(seed);
    cairn::test::shapes::All message;
    fill_randomly(message, dice, 3);
    cairn::test::shapes::All copy;
    ASSERT_TRUE(copy.ParseFromString(message.SerializeAsString()));  // With maps in another order.
    SplitOptions options;
    options.max_size = 200;
    AutoSplitter one(message, options);
    AutoSplitter two(copy, options);

    ASSERT_EQ(one.chunks().size(), two.chunks().size());
    EXPECT_EQ(serialised(one.chunked_message()), serialised(two.chunked_message()));
    for (std::size_t i = 0; i < one.chunks().size(); ++i) {
      const Chunk& left = one.chunks()[i];
      const Chunk& right = two.chunks()[i];
      ASSERT_EQ(left.type(), right.type());
      EXPECT_EQ(written(left), written(right));
    }
  }
}

TEST(Splice, MergesAsProtobufDoes) {
  Prototypes prototypes;
  for (std::uint64_t seed = 0; seed < 2000 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed, 1);
    const Message& prototype = prototypes.pick(dice);
    google::protobuf::Arena arena;
    google::protobuf::Arena* where = dice.one_in(2) ? &arena : nullptr;
    Message* to = prototype.New(where);
    Message* from = prototype.New(where);
    const std::unique_ptr<Message> own_to(where == nullptr ? to : nullptr);
    const std::unique_ptr<Message> own_from(where == nullptr ? from : nullptr);
    fill_randomly(*to, dice, 3);
    fill_randomly(*from, dice, 3);
    const std::unique_ptr<Message> expected(prototype.New());
    expected->MergeFrom(*to);
    expected->MergeFrom(*from);

    splice(*from, *to, [] { return "a page"; });

    EXPECT_EQ(serialised(*to), serialised(*expected));
  }
}

}  // namespace
}  // namespace cairn::proto
