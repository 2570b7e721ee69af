// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cairn/cairn.hpp"
#include "cairn/handlers/proto.hpp"
#include "cairn/proto/auto_splitter.hpp"
#include "cairn/proto/chunked_file.hpp"
#include "cairn/records/record_options.hpp"

#include "proto/chunk_file.hpp"
#include "proto/internal/chunked_file.hpp"
#include "proto/message_load.hpp"
#include "proto/random_message.hpp"
#include "support/dice.hpp"
#include "support/number_from.hpp"
#include "support/sampling.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_dir.hpp"
#include "support/unsynced_syscalls.hpp"

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
    write_message(testing::unsynced_syscalls(), splitter.split(), temp / "message", write_options);
    for (const unsigned threads : {1U, 2U, 8U}) {
      MergeOptions options;
      options.threads = threads;
      const std::unique_ptr<Message> again(message.New());
      static_cast<void>(read(temp / "message", *again, options));
      EXPECT_EQ(serialised(*again), serialised(message)) << write_options.records << ' ' << threads;
    }
  }
}

/// Cuts it as a checkpoint has it, at a limit as small as the message, and puts it together again.
void expect_same_from_chunks(const Message& message, std::uint64_t page_bytes) {
  const detail::ChunkFile file = detail::cut_message(ProtoMessage::borrow(message), page_bytes);
  std::vector<std::byte> bytes(file.bytes);
  gather(file.pieces, 0, bytes);
  const auto load =
      std::make_shared<detail::MessageLoad>(detail::parse_chunks(file.metadata, file.bytes, "chunks"),
                                            "chunks", std::shared_ptr<Message>(message.New()), Path());
  load->make_room();
  std::vector<DestinationPiece> places = load->pieces();
  arrange(places, file.bytes);
  scatter(places, 0, bytes);
  const ProtoMessage loaded = load->finish();
  EXPECT_EQ(serialised(loaded.get()), serialised(message));
}

/// Goes through a checkpoint.
class Checkpoints {
 public:
  Checkpoints() {
    ContextOptions options;
    options.engine = io::EngineKind::threads;
    options.worker_threads = 2;
    options.staging_bytes = std::size_t{16} << 20;
    options.syscalls = std::make_shared<testing::UnsyncedSyscalls>();
    options.registry.add<ProtoHandler>();
    context_.emplace(std::move(options));
    ProtoOptions proto;
    proto.chunked_from_bytes = 0;
    options_.handler_options.set(proto);
    options_.overwrite = true;
  }

  void expect_same(const Message& message) {
    const ProtoMessage borrowed = ProtoMessage::borrow(message);
    const AbstractProto type(message);
    save_checkpointables(temp_ / "checkpoint", {{"message", borrowed}}, options_, *context_);
    Loaded loaded = load_checkpointables(temp_ / "checkpoint", {{"message", type}}, LoadOptions(), *context_);
    const auto read = loaded.take<ProtoMessage>("message");
    EXPECT_EQ(serialised(read.get()), serialised(message));
  }

 private:
  const testing::TempDir temp_;
  std::optional<Context> context_;
  SaveOptions options_;
};

// CAIRN_PROTO_THROUGH_FILES: one in so many goes through files and checkpoints, too.
TEST(ChunkedFile, OfARandomMessageMergesToTheSameAgain) {
  testing::Prototypes prototypes;
  const std::uint64_t first = testing::number_from("CAIRN_PROTO_FIRST", 0);
  const std::uint64_t count = testing::number_from("CAIRN_PROTO_MESSAGES", 40'000);
  const std::uint64_t one_in = testing::number_from("CAIRN_PROTO_THROUGH_FILES", 200);
  const testing::Sample sample(testing::kHasSanitizer ? 40 : 1);
  Checkpoints checkpoints;
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
    if (seed % one_in == 0) {
      expect_same_from_files(splitter, *message);
      expect_same_from_chunks(*message, options.max_size);
      checkpoints.expect_same(*message);
    }
  }
}

}  // namespace
}  // namespace cairn::proto
