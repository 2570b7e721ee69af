// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/proto.hpp"

#include "cli/proto.hpp"

namespace cairn::cli {

RegistrySnapshot optional_proto_handlers() {
  return proto_handlers();
}

std::optional<std::string> message_type(const ItemMetadata& item) {
  const auto* proto = item.abstract.as<AbstractProto>();
  return proto != nullptr ? std::optional(proto->full_name()) : std::nullopt;
}

}  // namespace cairn::cli
