// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include <google/protobuf/descriptor.h>

#include "cairn/base/error.hpp"
#include "cairn/handlers/proto.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/merger.hpp"

#include "cli/proto.hpp"

namespace cairn::cli {
namespace {

MessageChunks described(const chunked::ChunkMetadata& stored, const google::protobuf::Descriptor* type) {
  MessageChunks message;
  message.path_of = [paths = proto::ChunkPaths(stored, type)](std::size_t i) { return paths.text(i); };
  for (const chunked::ChunkInfo& chunk : stored.chunks()) {
    message.chunks.push_back({chunk.type() == chunked::ChunkInfo::MESSAGE, chunk.offset(), chunk.size()});
  }
  message.tree = stored.message().ShortDebugString();
  message.splitter_version = stored.version().splitter_version();
  message.join_version = stored.version().join_version();
  message.bad_consumers.assign(stored.version().bad_consumers().begin(),
                               stored.version().bad_consumers().end());
  return message;
}

}  // namespace

RegistrySnapshot optional_proto_handlers() {
  return proto_handlers();
}

std::optional<MessageChunks> chunks_of(const ItemMetadata& item) {
  const auto* stored = item.abstract.as<AbstractProto>();
  if (stored == nullptr || stored->chunks() == nullptr) {
    return std::nullopt;
  }
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  return described(*stored->chunks(), pool->FindMessageTypeByName(stored->full_name()));
}

std::optional<MessageChunks> chunks_of_record(std::string_view record) {
  chunked::ChunkMetadata stored;
  if (!stored.ParseFromString(std::string(record))) {
    throw Error(Errc::malformed_metadata, "the last record does not say where chunks belong");
  }
  return described(stored, nullptr);
}

std::string record_of_chunks(const ItemMetadata& item, std::span<const std::uint64_t> positions) {
  chunked::ChunkMetadata stored = *item.as<AbstractProto>().chunks();
  for (std::size_t i = 0; i < positions.size(); ++i) {
    stored.mutable_chunks(static_cast<int>(i))->set_offset(positions[i]);
  }
  return stored.SerializeAsString();
}

}  // namespace cairn::cli
