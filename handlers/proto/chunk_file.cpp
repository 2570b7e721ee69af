// SPDX-License-Identifier: Apache-2.0
#include "chunk_file.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "cairn/proto/auto_splitter.hpp"
#include "cairn/proto/chunk.hpp"
#include "cairn/proto/chunked.pb.h"

namespace cairn::detail {
namespace {

constexpr std::uint64_t kAlignment = 64;  // Of bytes that are read straight into strings.

/// The chunks of a message, with what they refer to.
struct CutMessage {
  ProtoMessage message;
  std::vector<proto::Chunk> chunks;
};

/// Serialises a page where it is written from.
class PageSource final : public ByteSource {
 public:
  explicit PageSource(std::shared_ptr<const proto::Chunk> page) : page_(std::move(page)) {}

  void read(std::uint64_t offset_bytes, std::span<std::byte> out) const override {
    if (out.size() == page_->size_bytes()) {
      return page_->write(out);
    }
    std::vector<std::byte> whole(page_->size_bytes());
    page_->write(whole);
    std::copy_n(whole.data() + offset_bytes, out.size(), out.data());
  }

 private:
  std::shared_ptr<const proto::Chunk> page_;
};

}  // namespace

ChunkFile cut_message(const ProtoMessage& message, std::uint64_t page_bytes) {
  proto::SplitOptions options;
  options.max_size = page_bytes;
  proto::AutoSplitter splitter(message.get(), options);
  const proto::SplitResult split = splitter.split();
  const auto cut = std::make_shared<CutMessage>();
  cut->message = message;
  cut->chunks.assign(split.chunks.begin(), split.chunks.end());

  ChunkFile file;
  chunked::ChunkMetadata metadata;
  metadata.mutable_version()->set_splitter_version(1);
  *metadata.mutable_message() = split.chunked_message;
  // At once: protobuf loses an element that it has made for a list that cannot grow.
  metadata.mutable_chunks()->Reserve(static_cast<int>(cut->chunks.size()));
  for (proto::Chunk& chunk : cut->chunks) {
    const bool is_message = chunk.type() != nullptr;
    const std::uint64_t bytes = chunk.size_bytes();
    chunked::ChunkInfo& info = *metadata.add_chunks();
    info.set_type(is_message ? chunked::ChunkInfo::MESSAGE : chunked::ChunkInfo::BYTES);
    info.set_size(bytes);
    if (is_message && bytes > kRunBytes) {
      chunk = proto::Chunk(
          chunk.to_string());  // A single key or unknown field; it would be serialised again for each run.
    } else if (is_message) {
      const std::uint64_t left = kRunBytes - file.bytes % kRunBytes;
      file.bytes += bytes > left ? left : 0;
      info.set_offset(file.bytes);
      SourcePiece& piece = file.pieces.emplace_back();
      piece.offset_bytes = file.bytes;
      piece.size_bytes = bytes;
      piece.source = std::make_shared<PageSource>(std::shared_ptr<const proto::Chunk>(cut, &chunk));
      file.bytes += bytes;
    }
  }
  for (std::size_t i = 0; i < cut->chunks.size(); ++i) {
    const proto::Chunk& chunk = cut->chunks[i];
    if (chunk.type() != nullptr) {
      continue;
    }
    file.bytes = (file.bytes + kAlignment - 1) / kAlignment * kAlignment;
    metadata.mutable_chunks(static_cast<int>(i))->set_offset(file.bytes);
    SourcePiece& piece = file.pieces.emplace_back();
    piece.offset_bytes = file.bytes;
    piece.size_bytes = chunk.size_bytes();
    piece.data = reinterpret_cast<const std::byte*>(chunk.bytes().data());
    piece.owner = cut;
    file.bytes += chunk.size_bytes();
  }
  file.metadata = metadata.SerializeAsString();
  return file;
}

}  // namespace cairn::detail
