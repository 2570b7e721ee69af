// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "cairn/proto/auto_splitter.hpp"
#include "cairn/proto/chunked_file.hpp"
#include "cairn/records/record_options.hpp"

#include "proto/random_message.hpp"
#include "support/dice.hpp"
#include "support/number_from.hpp"
#include "support/sampling.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_dir.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::Message;
using testing::Dice;
using testing::serialised;

/// Writes files of each codec, and reads them with some threads.
void expect_same_from_files(AutoSplitter& splitter, const Message& message) {
  for (const records::Codec codec :
       {records::Codec::none, records::Codec::brotli, records::Codec::zstd, records::Codec::snappy}) {
    if (!records::is_built_in(codec)) {
      continue;
    }
    const testing::TempDir temp;
    WriteOptions write_options;
    write_options.records = records::name(codec);
    splitter.write(temp / "message", write_options);
    for (const unsigned threads : {1U, 2U, 8U}) {
      MergeOptions options;
      options.threads = threads;
      const std::unique_ptr<Message> again(message.New());
      static_cast<void>(read(temp / "message", *again, options));
      EXPECT_EQ(serialised(*again), serialised(message)) << write_options.records << ' ' << threads;
    }
  }
}

TEST(ChunkedFile, OfARandomMessageMergesToTheSameAgain) {
  testing::Prototypes prototypes;
  const std::uint64_t first = testing::number_from("CAIRN_PROTO_FIRST", 0);
  const std::uint64_t count = testing::number_from("CAIRN_PROTO_MESSAGES", 100'000);
  const testing::Sample sample(testing::kHasSanitizer ? 40 : 1);
  for (std::uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) {
    if (!sample.takes(seed)) {
      continue;
    }
    SCOPED_TRACE(seed);
    Dice dice(seed, 2);
    const std::unique_ptr<Message> message(prototypes.pick(dice).New());
    testing::fill_randomly(*message, dice, 1 + static_cast<int>(dice.below(3)));
    SplitOptions options;
    options.max_size = 100 + dice.below(3000);
    AutoSplitter splitter(*message, options);
    MergeOptions merge_options;
    merge_options.threads = 1;

    const std::unique_ptr<Message> again(message->New());
    static_cast<void>(read_string(splitter.write_to_string().first, *again, merge_options));

    EXPECT_EQ(serialised(*again), serialised(*message));
    if (seed % 200 == 0) {
      expect_same_from_files(splitter, *message);
    }
  }
}

}  // namespace
}  // namespace cairn::proto
