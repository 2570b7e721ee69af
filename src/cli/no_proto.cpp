// SPDX-License-Identifier: Apache-2.0
#include "cli/proto.hpp"

namespace cairn::cli {

RegistrySnapshot optional_proto_handlers() {
  return {};
}

std::optional<MessageChunks> chunks_of(const ItemMetadata& /*item*/) {
  return std::nullopt;
}

std::optional<MessageChunks> chunks_of_record(std::string_view /*record*/) {
  return std::nullopt;
}

std::string record_of_chunks(const ItemMetadata& /*item*/, std::span<const std::uint64_t> /*positions*/) {
  return {};
}

}  // namespace cairn::cli
