// SPDX-License-Identifier: Apache-2.0
// Ranks that load a message in chunks together: each chunk is read by one of them.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>

#include "cairn/cairn.hpp"
#include "cairn/handlers/proto.hpp"

#include "core/joint_job.hpp"
#include "messages.pb.h"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

using google::protobuf::util::MessageDifferencer;
using test::Settings;
using ::testing::HasSubstr;
using testing::JointJob;

/// Pages of more than one run at the root, a child with pages of its own, and strings with chunks of their own.
Settings job_settings() {
  Settings settings;
  settings.set_name(std::string(3 << 20, 'n'));
  for (int i = 0; i < 300; ++i) {
    settings.add_children()->set_name(std::string(20'000, static_cast<char>('a' + i % 26)));
  }
  for (int i = 0; i < 300; ++i) {
    settings.mutable_children(7)->add_children()->set_name(std::string(10'000, 'c'));
  }
  settings.mutable_children(8)->set_name(std::string(2 << 20, 'l'));
  return settings;
}

class ChunkedProtoTogether : public ::testing::Test {
 protected:
  /// The message that a rank has loaded, or why not.
  struct End {
    ProtoMessage message;
    std::uint64_t bytes = 0;
    std::string failure;
  };

  ChunkedProtoTogether() {
    ProtoOptions proto;
    proto.chunked_from_bytes = 0;
    SaveOptions options;
    options.handler_options.set(proto);
    options.registry.add<ProtoHandler>();
    save_checkpointables(target(), {{"message", settings_}}, options);
    options_.registry.add<ProtoHandler>();
    options_.together = true;
  }

  std::vector<End> load(JointJob& job, const std::function<AbstractProto(std::size_t rank)>& wanted) const {
    std::vector<End> ends(job.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < job.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          Loaded loaded =
              load_checkpointables(target(), {{"message", wanted(rank)}}, options_, job.context(rank));
          ends[rank].bytes = loaded.result().bytes;
          ends[rank].message = loaded.take<ProtoMessage>("message");
        } catch (...) {
          ends[rank].failure = describe(std::current_exception());
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    return ends;
  }

  [[nodiscard]] std::filesystem::path target() const { return folder_ / "checkpoint"; }

  [[nodiscard]] std::uint64_t bytes_of(const char* file) const {
    return std::filesystem::file_size(target() / "message" / file);
  }

  const Settings settings_ = job_settings();
  const testing::TempDir folder_;
  LoadOptions options_;
};

TEST_F(ChunkedProtoTogether, ReadEachChunkOnce) {
  for (const std::size_t ranks : {std::size_t{2}, std::size_t{3}, std::size_t{5}}) {
    SCOPED_TRACE(ranks);
    JointJob job{JointJob::Options(ranks)};
    std::uint64_t read = 0;
    for (const End& end : load(job, [](std::size_t) { return abstract_message<Settings>(); })) {
      ASSERT_EQ(end.failure, "");
      EXPECT_TRUE(MessageDifferencer::Equals(end.message.get(), settings_));
      EXPECT_GT(end.bytes, 0U) << "all take their part";
      read += end.bytes;
    }
    const std::uint64_t description = bytes_of("type.txt") + bytes_of("chunks.binpb");
    EXPECT_EQ(read, bytes_of("message.chunks") + ranks * description);
  }
}

TEST_F(ChunkedProtoTogether, MayWantPartsOrADynamicMessage) {
  JointJob job{JointJob::Options(4)};
  const std::vector<End> ends = load(job, [](std::size_t rank) {
    return rank == 0   ? abstract_message<Settings>().part("children[7]")
           : rank == 1 ? abstract_message<Settings>().part("children[8]")
           : rank == 2 ? AbstractProto(*Settings::descriptor())
                       : abstract_message<Settings>().part("children[299]");
  });

  for (const End& end : ends) {
    ASSERT_EQ(end.failure, "");
  }
  EXPECT_TRUE(MessageDifferencer::Equals(ends[0].message.get(), settings_.children(7)));
  EXPECT_TRUE(MessageDifferencer::Equals(ends[1].message.get(), settings_.children(8)));
  EXPECT_EQ(ends[2].message.get().ByteSizeLong(), settings_.ByteSizeLong());
  EXPECT_TRUE(MessageDifferencer::Equals(ends[3].message.get(), settings_.children(299)));
}

TEST_F(ChunkedProtoTogether, FailOnAllWhereOneWantsWhatIsNotThere) {
  JointJob job{JointJob::Options(3)};
  const std::vector<End> ends = load(job, [](std::size_t rank) {
    return abstract_message<Settings>().part(rank == 1 ? "children[300]" : "children[7]");
  });

  for (const End& end : ends) {
    EXPECT_THAT(end.failure, HasSubstr("children[300]"));
  }
}

}  // namespace
}  // namespace cairn
