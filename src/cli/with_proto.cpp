// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/proto.hpp"

#include "cli/proto.hpp"

namespace cairn::cli {

RegistrySnapshot optional_proto_handlers() {
  return proto_handlers();
}

}  // namespace cairn::cli
