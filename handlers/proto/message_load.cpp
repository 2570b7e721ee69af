// SPDX-License-Identifier: Apache-2.0
#include "message_load.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <google/protobuf/arena.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/chunked.pb.h"

#include "chunk_file.hpp"

namespace cairn::detail {
namespace {

using chunked::ChunkInfo;
using chunked::ChunkMetadata;
using google::protobuf::Arena;
using google::protobuf::Message;

constexpr auto kMostMessageBytes = static_cast<std::uint64_t>(std::numeric_limits<int>::max());

[[noreturn]] void refuse(std::string_view path, const std::string& why) {
  throw Error(Errc::malformed_metadata, fmt::format("{}: {}", path, why));
}

/// Parses a page from the buffer that it was read into; one that comes in parts is collected first.
class PageSink final : public ByteSink {
 public:
  PageSink(std::shared_ptr<MessageLoad> load, std::uint64_t chunk, std::uint64_t bytes)
      : load_(std::move(load)), chunk_(chunk), bytes_(bytes) {}

  void write(std::uint64_t offset_bytes, std::span<const std::byte> in) override {
    if (in.size() == bytes_) {
      return load_->add(chunk_, in);
    }
    std::call_once(has_room_, [this] { collected_.resize(bytes_); });
    std::copy(in.begin(), in.end(), collected_.data() + offset_bytes);
    if (missing_.fetch_sub(in.size()) == in.size()) {
      load_->add(chunk_, collected_);
      collected_ = {};
    }
  }

 private:
  const std::shared_ptr<MessageLoad> load_;
  const std::uint64_t chunk_;
  const std::uint64_t bytes_;
  std::once_flag has_room_;
  std::vector<std::byte> collected_;
  std::atomic<std::uint64_t> missing_{bytes_};
};

void check_places(const ChunkMetadata& metadata, std::uint64_t file_bytes, std::string_view path) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;  // From … to.
  for (const ChunkInfo& chunk : metadata.chunks()) {
    if (chunk.offset() > file_bytes || chunk.size() > file_bytes - chunk.offset()) {
      refuse(path, fmt::format("a chunk of {} bytes at {} reaches beyond a file of {} bytes", chunk.size(),
                               chunk.offset(), file_bytes));
    }
    if (chunk.type() == ChunkInfo::MESSAGE && chunk.size() > kMostMessageBytes) {
      refuse(path, fmt::format("{} bytes are too many for a message", chunk.size()));
    }
    if (chunk.size() > 0) {
      places.emplace_back(chunk.offset(), chunk.offset() + chunk.size());
    }
  }
  std::sort(places.begin(), places.end());
  const auto overlap =
      std::adjacent_find(places.begin(), places.end(),
                         [](const auto& one, const auto& next) { return next.first < one.second; });
  if (overlap != places.end()) {
    refuse(path, fmt::format("two chunks overlap behind byte {}", overlap->first));
  }
}

}  // namespace

std::string parse_type_name(std::string text, std::string_view path) {
  constexpr std::size_t kLongestName = 4096;
  const std::size_t end = text.find('\n');
  if (end == 0 || end == std::string::npos || end + 1 != text.size() || text.size() > kLongestName) {
    refuse(path, "not the name of one message type");
  }
  text.pop_back();
  return text;
}

std::shared_ptr<const ChunkMetadata> parse_chunks(std::string_view bytes, std::uint64_t file_bytes,
                                                  std::string_view path) {
  const auto arena = std::make_shared<Arena>();
  auto* metadata = Arena::CreateMessage<ChunkMetadata>(arena.get());
  if (bytes.size() > kMostMessageBytes ||
      !metadata->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    refuse(path, "the bytes do not describe chunks");
  }
  check_places(*metadata, file_bytes, path);
  return {arena, metadata};
}

std::shared_ptr<const ChunkMetadata> one_chunk(std::uint64_t file_bytes, std::string_view path) {
  auto metadata = std::make_shared<ChunkMetadata>();
  metadata->mutable_message()->set_chunk_index(0);
  metadata->mutable_chunks()->Reserve(1);  // Else protobuf loses the element where the list cannot grow.
  ChunkInfo& chunk = *metadata->add_chunks();
  chunk.set_type(ChunkInfo::MESSAGE);
  chunk.set_size(file_bytes);
  check_places(*metadata, file_bytes, path);
  return metadata;
}

MessageLoad::MessageLoad(std::shared_ptr<const ChunkMetadata> stored, std::string path,
                         std::shared_ptr<Message> whole, const proto::Path& part)
    : stored_(std::move(stored)), path_(std::move(path)), message_(std::move(whole)) {
  const auto* type = message_->GetDescriptor();
  if (!part.empty()) {
    const Message* prototype =
        message_->GetReflection()->GetMessageFactory()->GetPrototype(&proto::part_type(*type, part));
    // The owner of the factory of the whole message keeps that of the part.
    message_ = {prototype->New(), [owner = message_](Message* message) { delete message; }};
  }
  proto::MergeOptions options;
  options.parts_are_whole = true;
  options.most_bytes =
      std::numeric_limits<std::uint64_t>::max();  // They lie in the file, each in its own place.
  options.most_empty_elements = 0;  // Pages have empty elements where others have chunks of their own.
  in_file([&] { merger_.emplace(*stored_, *type, part, *message_, options); });
  for (const std::uint64_t chunk : merger_->wanted()) {
    if (!is_page(chunk)) {
      texts_.push_back({chunk, {}});
    }
  }
}

bool MessageLoad::is_page(std::uint64_t chunk) const {
  const ChunkInfo& info = stored_->chunks(static_cast<int>(chunk));
  return info.type() == ChunkInfo::MESSAGE && info.size() <= kRunBytes;
}

void MessageLoad::in_file(const std::function<void()>& work) const {
  try {
    work();
  } catch (const Error& error) {
    if (error.code() != Errc::malformed_metadata) {
      throw;
    }
    refuse(path_, error.detail());
  }
}

void MessageLoad::make_room() {
  for (std::size_t i = next_text_++; i < texts_.size(); i = next_text_++) {
    texts_[i].bytes.resize(stored_->chunks(static_cast<int>(texts_[i].chunk)).size());
  }
}

std::vector<DestinationPiece> MessageLoad::pieces() {
  std::vector<DestinationPiece> pieces;
  const auto add_piece = [&](std::uint64_t chunk) -> DestinationPiece& {
    DestinationPiece& piece = pieces.emplace_back();
    piece.offset_bytes = stored_->chunks(static_cast<int>(chunk)).offset();
    piece.size_bytes = stored_->chunks(static_cast<int>(chunk)).size();
    return piece;
  };
  for (const std::uint64_t chunk : merger_->wanted()) {
    const std::uint64_t bytes = stored_->chunks(static_cast<int>(chunk)).size();
    if (is_page(chunk) && bytes > 0) {
      add_piece(chunk).sink = std::make_shared<PageSink>(shared_from_this(), chunk, bytes);
    } else if (is_page(chunk)) {
      add(chunk, {});  // Nobody reads no bytes.
    }
  }
  for (Text& text : texts_) {
    DestinationPiece& piece = add_piece(text.chunk);
    piece.data = reinterpret_cast<std::byte*>(text.bytes.data());
    piece.owner = shared_from_this();
  }
  return pieces;
}

void MessageLoad::add(std::uint64_t chunk, std::span<const std::byte> bytes) {
  in_file([&] { merger_->add(chunk, bytes); });
}

ProtoMessage MessageLoad::finish() {
  in_file([this] {
    for (Text& text : texts_) {
      merger_->add(text.chunk, std::move(text.bytes));
    }
    static_cast<void>(merger_->finish());
  });
  return ProtoMessage(std::move(message_));
}

}  // namespace cairn::detail
