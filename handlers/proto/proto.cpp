// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/proto.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/text_format.h>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"
#include "cairn/proto/chunk.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/merger.hpp"
#include "cairn/proto/splitter.hpp"

#include "chunk_file.hpp"
#include "message_load.hpp"

namespace cairn {
namespace {

using detail::MessageLoad;
using google::protobuf::Message;

constexpr std::string_view kBinaryFile = "message.binpb";
constexpr std::string_view kTypeFile = "type.txt";
constexpr std::string_view kTextFile = "message.txtpb";
constexpr std::string_view kChunkedId = "cairn.proto/2";
constexpr std::size_t kMostBytesAsText = 1 << 20;
constexpr std::uint64_t kMostMetadataBytes = std::uint64_t{256} << 20;
constexpr std::size_t kRoomMakers = 16;
constexpr auto kMostBytesOfOneFile = static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max());

/// Takes a message as it is, when it can be loaded again.
class Uncut final : public proto::ComposableSplitter {
 public:
  using ComposableSplitter::ComposableSplitter;
  void build_chunks() override {}
};

/// The binary form; maps are sorted, so that equal messages have equal bytes.
std::string serialise(const Message& message) {
  proto::SplitOptions options;
  options.max_size = kMostBytesOfOneFile;
  Uncut splitter(message, options);
  return splitter.chunks().front().to_string();
}

std::string as_text(const Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  std::string text;
  printer.PrintToString(message, &text);
  return fmt::format("# proto-message: {}\n{}", message.GetTypeName(), text);
}

/// The type to load: the one asked for, or the recorded one among those that the program was compiled with.
AbstractProto type_to_load(const std::string& recorded, const std::optional<AbstractProto>& wanted,
                           const std::string& name) {
  if (wanted && wanted->full_name() != recorded) {
    throw Error(Errc::type_mismatch, fmt::format("'{}': stored is a message of type {}, wanted {}", name,
                                                 recorded, wanted->full_name()));
  }
  if (wanted && wanted->make()) {
    return *wanted;
  }
  const auto* descriptor =
      google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(recorded);
  const Message* prototype =
      descriptor ? google::protobuf::MessageFactory::generated_factory()->GetPrototype(descriptor) : nullptr;
  if (!prototype) {
    throw Error(Errc::not_found,
                fmt::format("'{}': this program was compiled without the message type {}; ask for it "
                            "with an AbstractProto made of its descriptor",
                            name, recorded));
  }
  return AbstractProto(*prototype);
}

/// The files of a message in a checkpoint.
struct StoredMessage {
  std::string type;
  std::string_view file;
  std::string path;  // Of the file, for messages.
  std::uint64_t file_bytes = 0;
  bool is_cut = false;
  std::shared_ptr<const chunked::ChunkMetadata> chunks;
};

Awaitable<StoredMessage> read_stored(LoadContext context) {
  StoredMessage stored;
  const auto metadata_bytes = context.file_bytes(detail::kMetadataFile);
  stored.is_cut = metadata_bytes.has_value();
  stored.file = stored.is_cut ? detail::kChunksFile : kBinaryFile;
  stored.path = (context.path() / stored.file).string();
  const auto file_bytes = context.file_bytes(stored.file);
  if (!file_bytes) {
    throw Error(Errc::not_found, fmt::format("{}: there is no such file", stored.path));
  }
  stored.file_bytes = *file_bytes;
  const std::string path = (context.path() / detail::kMetadataFile).string();
  if (metadata_bytes.value_or(0) > kMostMetadataBytes) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: {} bytes are too many to describe chunks", path, *metadata_bytes));
  }
  std::vector<Background<std::string>> reads;  // At once: each waits for several threads.
  reads.push_back(context.read_file(kTypeFile));
  if (stored.is_cut) {
    reads.push_back(context.read_file(detail::kMetadataFile));
  }
  std::vector<std::string> texts = co_await async::when_all(std::move(reads));
  stored.type = detail::parse_type_name(std::move(texts.front()), (context.path() / kTypeFile).string());
  if (!stored.is_cut) {
    stored.chunks = detail::one_chunk(stored.file_bytes, stored.path);
    co_return stored;
  }
  const std::function<void()> parse = [&] {
    stored.chunks = detail::parse_chunks(texts.back(), stored.file_bytes, path);
  };
  co_await context.run(parse);
  co_return stored;
}

Awaitable<ProtoMessage> read(LoadContext context, std::optional<AbstractProto> wanted) {
  const StoredMessage stored = co_await read_stored(context);
  const AbstractProto type = type_to_load(stored.type, wanted, context.name());
  const proto::Path part = wanted ? wanted->part_path() : proto::Path();
  std::shared_ptr<MessageLoad> load;
  const std::function<void()> plan = [&] {
    load = std::make_shared<MessageLoad>(stored.chunks, stored.path, type.make(), part);
  };
  co_await context.run(plan);
  const std::function<void()> make_room = [&load] { load->make_room(); };
  std::vector<Background<>> makers;
  for (std::size_t i = 0; i < std::min(kRoomMakers, load->strings()); ++i) {
    makers.push_back(context.run(make_room));
  }
  co_await async::when_all(std::move(makers));
  PiecesByFile files;
  files.emplace(stored.file, load->pieces());
  co_await context.read_files(std::move(files));
  ProtoMessage message;
  const std::function<void()> merge = [&] { message = load->finish(); };
  co_await context.run(merge);
  co_return message;
}

Awaitable<AbstractProto> read_metadata(LoadContext context) {
  const StoredMessage stored = co_await read_stored(context);
  std::uint64_t bytes = 0;
  for (const chunked::ChunkInfo& chunk : stored.chunks->chunks()) {
    bytes += chunk.size();
  }
  co_return AbstractProto::named(stored.type, bytes, stored.is_cut ? stored.chunks : nullptr);
}

/// Describes the chunks with their paths; as nothing where these have too many characters in all.
std::vector<DescribedPart> parts_of(const chunked::ChunkMetadata& stored, const proto::ChunkPaths& paths) {
  constexpr std::size_t kMostBytesOfPaths = std::size_t{64} << 20;
  std::vector<DescribedPart> parts;
  std::size_t bytes_of_paths = 0;
  for (int i = 0; i < stored.chunks_size(); ++i) {
    const chunked::ChunkInfo& chunk = stored.chunks(i);
    if (std::optional<std::string> path = paths.text(static_cast<std::size_t>(i))) {
      bytes_of_paths += path->size();
      if (bytes_of_paths > kMostBytesOfPaths) {
        return {};
      }
      parts.push_back({std::move(*path), chunk.type() == chunked::ChunkInfo::BYTES ? "bytes" : "message",
                       std::string(detail::kChunksFile), chunk.offset(), chunk.size()});
    }
  }
  return parts;
}

Background<> finish(std::vector<Background<>> writes) {
  co_await async::when_all(std::move(writes));
}

// outlives: `message` refers to the value, whose pieces the blocking phase has read, or that is borrowed.
Awaitable<Background<>> save_in_chunks(SaveContext context, ProtoMessage message) {
  detail::ChunkFile file;
  const std::function<void()> cut = [&] { file = detail::cut_message(message); };
  co_await context.run(cut);
  std::vector<Background<>> writes;
  writes.push_back(context.write_file(kTypeFile, message.get().GetTypeName() + '\n'));
  writes.push_back(context.write_file(detail::kMetadataFile, std::move(file.metadata)));
  Awaitable<Background<>> staging =
      context.write_pieces(detail::kChunksFile, std::move(file.pieces), file.bytes);
  writes.push_back(co_await std::move(staging));
  context.record_id(kChunkedId);
  co_return finish(std::move(writes));
}

}  // namespace

ProtoMessage ProtoMessage::borrow(const Message& message) {
  ProtoMessage borrowed;
  borrowed.message_ = std::shared_ptr<const Message>(std::shared_ptr<void>(), &message);  // Owns nothing.
  return borrowed;
}

void ProtoMessage::throw_mismatch(const std::string& wanted) const {
  throw Error(Errc::type_mismatch, fmt::format("the message is of type {}, which is not the C++ class of {}",
                                               has_value() ? message_->GetTypeName() : "none", wanted));
}

AbstractProto::AbstractProto(const Message& prototype)
    : full_name_(prototype.GetTypeName()), prototype_(prototype.New()) {}

AbstractProto::AbstractProto(const google::protobuf::Descriptor& descriptor)
    : full_name_(descriptor.full_name()) {
  factory_ = std::make_shared<google::protobuf::DynamicMessageFactory>();
  prototype_.reset(factory_->GetPrototype(&descriptor)->New());
}

AbstractProto AbstractProto::named(std::string full_name, std::uint64_t size_bytes,
                                   std::shared_ptr<const chunked::ChunkMetadata> chunks) {
  AbstractProto type;
  type.full_name_ = std::move(full_name);
  type.size_bytes_ = size_bytes;
  type.chunks_ = std::move(chunks);
  return type;
}

AbstractProto AbstractProto::part(std::string_view path) const {
  AbstractProto result = *this;
  const proto::Path further = proto::parse_path(path);
  result.part_.insert(result.part_.end(), further.begin(), further.end());
  if (prototype_) {
    static_cast<void>(proto::part_type(*prototype_->GetDescriptor(), result.part_));
  }
  return result;
}

std::shared_ptr<Message> AbstractProto::make() const {
  if (!prototype_) {
    return nullptr;
  }
  // A dynamic message uses its factory until it is gone.
  return {prototype_->New(), [factory = factory_](Message* message) { delete message; }};
}

std::span<const std::string_view> ProtoHandler::other_ids() const noexcept {
  static constexpr std::array<std::string_view, 1> kOtherIds = {kChunkedId};
  return kOtherIds;
}

// outlives: `value` is serialised before the first suspension, or handed on.
Awaitable<Background<>> ProtoHandler::save(SaveContext context, const ProtoMessage& value) const {
  const Message& message = value.get();
  const auto* options = context.option<ProtoOptions>();
  const std::uint64_t limit = (options != nullptr ? *options : ProtoOptions()).chunked_from_bytes;
  if (limit > kMostBytesOfOneFile) {
    throw Error(Errc::invalid_argument,
                fmt::format("chunked_from_bytes is {}, and may be up to 2^31 - 1", limit));
  }
  if (message.ByteSizeLong() >= limit) {
    Awaitable<Background<>> saving = save_in_chunks(std::move(context), value);
    co_return co_await std::move(saving);
  }
  std::string bytes = serialise(message);
  std::vector<Background<>> writes;
  writes.push_back(context.write_file(kTypeFile, message.GetTypeName() + '\n'));
  if (bytes.size() <= kMostBytesAsText) {
    writes.push_back(context.write_file(kTextFile, as_text(message)));
  }
  writes.push_back(context.write_file(kBinaryFile, std::move(bytes)));
  co_return finish(std::move(writes));
}

Awaitable<Background<ProtoMessage>> ProtoHandler::load(LoadContext context,
                                                       std::optional<AbstractProto> wanted) const {
  co_return read(std::move(context), std::move(wanted));
}

Awaitable<AbstractProto> ProtoHandler::metadata(LoadContext context) const {
  return read_metadata(std::move(context));
}

Description ProtoHandler::describe(const AbstractProto& stored) const {
  Description description;
  description.kind = "protobuf message " + stored.full_name();
  if (stored.chunks() == nullptr) {
    description.texts = {std::string(kTextFile)};
    return description;
  }
  const auto describe_number = [&description](const char* name, std::uint64_t number) {
    DescribedValue& value = description.values.emplace_back();
    value.name = name;
    value.kind = "integer";
    value.value = number;
  };
  describe_number("chunks", static_cast<std::uint64_t>(stored.chunks()->chunks_size()));
  describe_number("size_bytes", stored.size_bytes());
  const auto* type =
      google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(stored.full_name());
  description.parts = parts_of(*stored.chunks(), proto::ChunkPaths(*stored.chunks(), type));
  return description;
}

const ProtoMessage* WatchedCopy<ProtoMessage>::make(const ProtoMessage& value,
                                                    const std::shared_ptr<WatchedMemory>& memory) {
  std::shared_ptr<Message> copied(value.get().New());
  copied->CopyFrom(value.get());
  return &memory->make<ProtoMessage>(std::move(copied));
}

RegistrySnapshot proto_handlers() {
  return HandlerRegistry().add<ProtoHandler>().snapshot();
}

}  // namespace cairn
