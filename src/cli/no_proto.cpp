// SPDX-License-Identifier: Apache-2.0
#include "cli/proto.hpp"

namespace cairn::cli {

RegistrySnapshot optional_proto_handlers() {
  return {};
}

}  // namespace cairn::cli
