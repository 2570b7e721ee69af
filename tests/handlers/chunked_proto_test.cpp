// SPDX-License-Identifier: Apache-2.0
// Messages that are stored in chunks.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <google/protobuf/util/message_differencer.h>

#include "cairn/handlers/proto.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/testing/handler_conformance.hpp"

#include "core/internal/start.hpp"
#include "handlers/store.hpp"
#include "messages.pb.h"
#include "proto/chunk_file.hpp"
#include "proto/message_load.hpp"

namespace cairn {
namespace {

using google::protobuf::util::MessageDifferencer;
using test::Other;
using test::Settings;
using testing::Fails;
using ::testing::HasSubstr;
using testing::read_text;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

SaveOptions chunked_from(std::uint64_t bytes) {
  ProtoOptions options;
  options.chunked_from_bytes = bytes;
  SaveOptions result;
  result.handler_options.set(options);
  return result;
}

Settings named(std::string name) {
  Settings settings;
  settings.set_name(std::move(name));
  return settings;
}

/// Has strings with chunks of their own, a child with pages of its own, and pages that fill several runs.
Settings large_settings() {
  Settings settings = named(std::string(2 * kMiB, 'n'));
  for (int i = 0; i < 3000; ++i) {
    Settings& child = *settings.add_children();
    child.set_name(std::string(static_cast<std::size_t>(i), static_cast<char>('a' + i % 26)));
    (*child.mutable_limits())["k" + std::to_string(i)] = i;
  }
  for (int i = 0; i < 3000; ++i) {
    *settings.mutable_children(1000)->add_children() = named(std::string(1000, 'c'));
  }
  settings.mutable_children(1001)->set_name(std::string(5 * kMiB, 'l'));
  settings.mutable_children(1002)->set_rate(0.5);
  return settings;
}

bool equal(const Settings& one, const Settings& other) {
  return MessageDifferencer::Equals(one, other);
}

/// Saves a small message in chunks.
struct ChunkedProtoTraits {
  using Handler = ProtoHandler;
  using Subject = Settings;

  static Settings make() {
    Settings settings = named("run");
    settings.set_rate(0.5);
    *settings.add_children() = named("child");
    return settings;
  }
  static void change(Settings& settings) { settings.set_name("other"); }
  static bool equal(const Settings& a, const Settings& b) { return MessageDifferencer::Equals(a, b); }
  static Request wrong(std::string name) { return {std::move(name), abstract_message<Other>()}; }
  static SaveOptions save_options() { return chunked_from(0); }
};

struct LargeProtoTraits : ChunkedProtoTraits {
  static Settings make() { return large_settings(); }
};

/// Writes files as ProtoHandler would not.
class RawChunks final : public CheckpointableHandler<std::pair<std::string, std::string>> {
 public:
  using Files = std::pair<std::string, std::string>;  // What describes the chunks, and the chunks.

  std::string_view id() const noexcept override { return "cairn.proto/2"; }
  // outlives: used before the first suspension.
  Awaitable<Background<>> save(SaveContext context, const Files& files) const override {
    std::vector<Background<>> writes;
    writes.push_back(context.write_file("type.txt", std::string("cairn.test.Settings\n")));
    writes.push_back(context.write_file("chunks.binpb", files.first));
    writes.push_back(context.write_file("message.chunks", files.second));
    co_return all(std::move(writes));
  }
  Awaitable<Background<Files>> load(LoadContext, std::optional<Files>) const override { co_return nothing(); }
  Awaitable<Files> metadata(LoadContext) const override { co_return Files(); }

 private:
  static Background<> all(std::vector<Background<>> writes) { co_await async::when_all(std::move(writes)); }
  static Background<Files> nothing() { co_return Files(); }
};

class ChunkedProto : public testing::StoreTest {
 protected:
  ChunkedProto() { handlers_ = proto_handlers(); }

  Settings load_raw(const chunked::ChunkMetadata& metadata, const std::string& chunks) {
    return load_raw(metadata.SerializeAsString(), chunks);
  }

  Settings load_raw(std::string metadata, std::string chunks) {
    const RawChunks::Files files(std::move(metadata), std::move(chunks));
    SaveOptions options;
    options.overwrite = true;
    core::start_save(path(), Checkpointables{{"item", files}}, HandlerRegistry().add<RawChunks>().snapshot(),
                     options, context_)
        .wait();
    return load<Settings>();
  }

  void damage(std::uint64_t offset) const {
    std::fstream file(item("message.chunks"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(byte ^ 1));
  }
};

TEST_F(ChunkedProto, IsStoredSoFromTheLimitOn) {
  const Settings settings = ChunkedProtoTraits::make();
  const std::uint64_t bytes = settings.ByteSizeLong();
  SaveOptions options = chunked_from(bytes);

  save(settings, options);
  EXPECT_EQ(item_metadata().handler_id, "cairn.proto/2");
  EXPECT_EQ(read_text(item("type.txt")), "cairn.test.Settings\n");
  EXPECT_FALSE(std::filesystem::exists(item("message.binpb")));
  EXPECT_FALSE(std::filesystem::exists(item("message.txtpb")));
  EXPECT_TRUE(equal(load<Settings>(), settings));

  options = chunked_from(bytes + 1);
  options.overwrite = true;
  save(settings, options);
  EXPECT_EQ(item_metadata().handler_id, "cairn.proto/1");
  EXPECT_TRUE(std::filesystem::exists(item("message.binpb")));
  EXPECT_FALSE(std::filesystem::exists(item("message.chunks")));
}

TEST_F(ChunkedProto, IsNotStoredSoByDefaultWhenItIsSmall) {
  save(large_settings());
  EXPECT_EQ(item_metadata().handler_id, "cairn.proto/1");
  EXPECT_TRUE(equal(load<Settings>(), large_settings()));
}

TEST_F(ChunkedProto, RefusesALimitThatProtobufCannotSerialise) {
  EXPECT_THAT([&] { save(ChunkedProtoTraits::make(), chunked_from(std::uint64_t{1} << 31)); },
              Fails(Errc::invalid_argument, HasSubstr("chunked_from_bytes is 2147483648")));
}

TEST_F(ChunkedProto, IsTheSameFromEachSnapshot) {
  const auto settings = std::make_shared<Settings>(large_settings());
  std::string chunks;
  for (const Snapshot snapshot : {Snapshot::copy, Snapshot::borrow, Snapshot::share}) {
    SaveOptions options = chunked_from(0);
    options.snapshot = snapshot;
    options.overwrite = true;
    save(ProtoMessage(settings), options);

    EXPECT_TRUE(equal(load<Settings>(), *settings));
    const std::string written = read_text(item("message.chunks"));
    EXPECT_TRUE(chunks.empty() || chunks == written);
    chunks = written;
  }
}

TEST_F(ChunkedProto, MayBeDroppedByTheCallerWhenItIsShared) {
  auto settings = std::make_shared<Settings>(large_settings());
  SaveOptions options = chunked_from(0);
  options.snapshot = Snapshot::share;

  auto message = std::make_unique<ProtoMessage>(std::move(settings));
  AsyncResponse saving = start(*message, options);
  saving.wait_staged();
  message.reset();
  saving.wait();

  EXPECT_TRUE(equal(load<Settings>(), large_settings()));
}

TEST_F(ChunkedProto, LoadsAsADynamicMessage) {
  save(large_settings(), chunked_from(0));

  const auto message = load<ProtoMessage>({"item", AbstractProto(*Settings::descriptor())});

  EXPECT_EQ(message.get().SerializeAsString().size(), large_settings().ByteSizeLong());
}

TEST_F(ChunkedProto, IsDescribedWithItsChunks) {
  save(large_settings(), chunked_from(0));

  const auto stored = metadata<AbstractProto>();
  const Description description = item_metadata().description();

  ASSERT_NE(stored.chunks(), nullptr);
  EXPECT_EQ(stored.full_name(), "cairn.test.Settings");
  EXPECT_GT(stored.size_bytes(), 12 * kMiB);
  EXPECT_GE(stored.chunks()->chunks_size(), 8);
  EXPECT_GT(stored.chunks()->message().chunked_fields_size(), 3);
  EXPECT_EQ(description.kind, "protobuf message cairn.test.Settings");
  EXPECT_TRUE(description.texts.empty());
  ASSERT_EQ(description.values.size(), 2U);
  EXPECT_EQ(description.values[0].name, "chunks");
}

TEST(ChunkedProtoDescription, LeavesPathsOutThatAreTooLongTogether) {
  for (const int chunks : {10, 30'000}) {
    const auto stored = std::make_shared<chunked::ChunkMetadata>();
    chunked::ChunkedField& far = *stored->mutable_message()->add_chunked_fields();
    for (int i = 0; i < 900; ++i) {
      far.add_field_tag()->set_field(71);
    }
    for (int i = 0; i < chunks; ++i) {
      far.mutable_message()->add_chunked_fields()->mutable_message()->set_chunk_index(
          static_cast<std::uint64_t>(i));
      stored->add_chunks();
    }

    const Description described = ProtoHandler().describe(AbstractProto::named("some.Type", 0, stored));

    EXPECT_EQ(described.parts.size(), chunks == 10 ? 10U : 0U);
    EXPECT_EQ(std::get<std::uint64_t>(described.values.front().value), static_cast<std::uint64_t>(chunks));
  }
}

TEST_F(ChunkedProto, RefusesElementsThatNoPageHas) {
  chunked::ChunkMetadata metadata;
  chunked::ChunkedField& field = *metadata.mutable_message()->add_chunked_fields();
  field.add_field_tag()->set_field(Settings::kChildrenFieldNumber);
  field.add_field_tag()->set_index(1);
  field.mutable_message()->set_chunk_index(0);
  metadata.add_chunks()->set_type(chunked::ChunkInfo::MESSAGE);
  const auto load =
      std::make_shared<detail::MessageLoad>(std::make_shared<const chunked::ChunkMetadata>(metadata),
                                            "message.chunks", std::make_shared<Settings>(), proto::Path());
  static_cast<void>(load->pieces());

  EXPECT_THAT([&] { static_cast<void>(load->finish()); },
              Fails(Errc::malformed_metadata, HasSubstr("1 elements before it are in no chunk, and 0")));
}

TEST_F(ChunkedProto, HasNoPageInTwoRunsAndBytesAtMultiplesOf64) {
  save(large_settings(), chunked_from(0));

  const auto stored = metadata<AbstractProto>();
  for (const chunked::ChunkInfo& chunk : stored.chunks()->chunks()) {
    if (chunk.type() == chunked::ChunkInfo::BYTES) {
      EXPECT_EQ(chunk.offset() % 64, 0U);
    } else if (chunk.size() > 0) {
      EXPECT_EQ(chunk.offset() / (4 * kMiB), (chunk.offset() + chunk.size() - 1) / (4 * kMiB));
    }
  }
}

TEST_F(ChunkedProto, LoadsAPart) {
  const Settings settings = large_settings();
  for (const std::uint64_t limit : {std::uint64_t{0}, 100 * kMiB}) {
    SaveOptions options = chunked_from(limit);
    options.overwrite = true;
    save(settings, options);
    const auto part = [&](const char* path) {
      return load<Settings>({"item", abstract_message<Settings>().part(path)});
    };

    EXPECT_TRUE(equal(part("children[999]"), settings.children(999)));
    EXPECT_TRUE(equal(part("children[1000]"), settings.children(1000)));
    EXPECT_TRUE(equal(part("children[1000].children[2999]"), settings.children(1000).children(2999)));
    EXPECT_TRUE(equal(part("children[1001]"), settings.children(1001)));
    EXPECT_TRUE(equal(part("children[1002]"), settings.children(1002)));
    EXPECT_TRUE(equal(part(""), settings));
    EXPECT_THAT([&] { part("children[3000]"); }, Fails(Errc::not_found, HasSubstr("children[3000]")));
    const AbstractProto child = abstract_message<Settings>().part("children[1000]").part("children[1]");
    EXPECT_TRUE(equal(load<Settings>({"item", child}), settings.children(1000).children(1)));
  }
}

TEST_F(ChunkedProto, RefusesPathsThatLeadToNoMessage) {
  for (const char* path : {"name", "children", "limits[\"k1\"]", "rate.x", "none", "children[1"}) {
    EXPECT_THAT([&] { static_cast<void>(abstract_message<Settings>().part(path)); },
                Fails(Errc::invalid_argument))
        << path;
  }
  save(large_settings(), chunked_from(0));
  EXPECT_THAT(
      [&] {
        load<Settings>({"item", AbstractProto::named("cairn.test.Settings").part("name")});
      },
      Fails(Errc::invalid_argument, HasSubstr("leads to no message")));
}

TEST_F(ChunkedProto, ReadsTheChunksOfAPartOnly) {
  save(large_settings(), chunked_from(0));
  damage(0);  // The first page of the root.

  const auto part = load<Settings>({"item", abstract_message<Settings>().part("children[1000]")});

  EXPECT_EQ(part.children_size(), 3000);
  EXPECT_THAT([&] { load<Settings>(); }, Fails(Errc::checksum_mismatch, HasSubstr("message.chunks")));
  EXPECT_THAT(
      [&] {
        load<Settings>({"item", abstract_message<Settings>().part("children[0]")});
      },
      Fails(Errc::checksum_mismatch));
}

TEST_F(ChunkedProto, RefusesDescriptionsThatDoNotFit) {
  const auto refuses = [&](const chunked::ChunkMetadata& metadata, Errc code, const char* why) {
    EXPECT_THAT([&] { load_raw(metadata, std::string(100, '\0')); }, Fails(code, HasSubstr(why)));
  };
  chunked::ChunkMetadata metadata;
  metadata.mutable_message()->set_chunk_index(0);
  refuses(metadata, Errc::malformed_metadata, "there is no chunk 0 among 0");
  chunked::ChunkInfo& chunk = *metadata.add_chunks();
  chunk.set_type(chunked::ChunkInfo::MESSAGE);
  refuses(metadata, Errc::malformed_metadata, "required fields");
  chunk.set_size(100);
  refuses(metadata, Errc::malformed_metadata,
          "message.chunks: chunk 0 at the message itself: the bytes are not a");
  chunk.set_size(101);
  refuses(metadata, Errc::malformed_metadata, "101 bytes at 0 reaches beyond a file of 100 bytes");
  chunk.set_size(~std::uint64_t{0});
  chunk.set_offset(1);
  refuses(metadata, Errc::malformed_metadata, "reaches beyond");
  chunk.set_size(50);
  chunked::ChunkInfo& other = *metadata.add_chunks();
  other.set_type(chunked::ChunkInfo::BYTES);
  other.set_size(50);
  other.set_offset(50);
  refuses(metadata, Errc::malformed_metadata, "two chunks overlap behind byte 1");
  metadata.mutable_version()->set_join_version(1);
  other.set_size(0);
  refuses(metadata, Errc::unsupported_version, "version 1");
  EXPECT_THAT([&] { load_raw(std::string("\xff"), ""); },
              Fails(Errc::malformed_metadata, HasSubstr("chunks.binpb")));
}

TEST_F(ChunkedProto, IsRefusedByNameByAProgramThatIsOlder) {
  class Old final : public CheckpointableHandler<Settings> {
   public:
    std::string_view id() const noexcept override { return "cairn.proto/1"; }
    Awaitable<Background<>> save(SaveContext, const Settings&) const override { co_return Background<>(); }
    Awaitable<Background<Settings>> load(LoadContext, std::optional<Settings>) const override {
      co_return none();
    }
    Awaitable<Settings> metadata(LoadContext) const override { co_return Settings(); }

   private:
    static Background<Settings> none() { co_return Settings(); }
  };
  save(ChunkedProtoTraits::make(), chunked_from(0));
  handlers_ = HandlerRegistry().add<Old>().snapshot();

  EXPECT_THAT([&] { load<Settings>(); }, Fails(Errc::unknown_handler_id, HasSubstr("'cairn.proto/2'")));
}

/// Runs that begin and end anywhere, as others than the data plane may ask for them.
TEST(ChunkFile, IsTheSameInPartsOfAnySize) {
  const Settings settings = large_settings();
  const detail::ChunkFile file = detail::cut_message(ProtoMessage::borrow(settings));
  std::vector<std::byte> whole(file.bytes);
  gather(file.pieces, 0, whole);

  for (const std::size_t step : {std::size_t{300'007}, std::size_t{2'000'003}}) {
    std::vector<std::byte> parts(file.bytes);
    const auto load =
        std::make_shared<detail::MessageLoad>(detail::parse_chunks(file.metadata, file.bytes, "chunks"),
                                              "chunks", std::make_shared<Settings>(), proto::Path());
    load->make_room();
    std::vector<DestinationPiece> places = load->pieces();
    arrange(places, file.bytes);
    for (std::size_t at = 0; at < parts.size(); at += step) {
      const std::span<std::byte> part = std::span(parts).subspan(at, std::min(step, parts.size() - at));
      gather(file.pieces, at, part);
      scatter(places, at, part);
    }

    EXPECT_TRUE(parts == whole);
    EXPECT_TRUE(equal(load->finish().as<Settings>(), settings));
  }
}

TEST(ProtoMessage, HandsItsMessageOverWhereNobodyElseHoldsIt) {
  auto settings = std::make_shared<Settings>(named(std::string(1000, 'x')));
  const char* bytes = settings->name().data();
  EXPECT_EQ(ProtoMessage(settings).take<Settings>().name(), settings->name());

  ProtoMessage message(std::move(settings));
  const auto taken = std::move(message).take<Settings>();
  EXPECT_EQ(taken.name().data(), bytes);

  const auto copied = ProtoMessage::borrow(taken).take<Settings>();
  EXPECT_EQ(copied.name(), taken.name());
  EXPECT_EQ(taken.name().data(), bytes);
}

}  // namespace

namespace testing {
INSTANTIATE_TYPED_TEST_SUITE_P(ChunkedProto, HandlerConformance, ChunkedProtoTraits);
INSTANTIATE_TYPED_TEST_SUITE_P(LargeProto, HandlerConformance, LargeProtoTraits);
}  // namespace testing

}  // namespace cairn
