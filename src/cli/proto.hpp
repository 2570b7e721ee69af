// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cairn/contract/registry.hpp"

namespace cairn::cli {

/// The handlers of protobuf messages, where the tool was built with protobuf; else none.
[[nodiscard]] RegistrySnapshot optional_proto_handlers();

}  // namespace cairn::cli
