// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Everything that programs commonly need. Not included: handlers/json.hpp, handlers/proto.hpp (what speaks of
/// nlohmann's and protobuf's types), handlers/describe.hpp (structs as trees), array/dlpack.hpp.

#include "cairn/api/context.hpp"
#include "cairn/api/copy.hpp"
#include "cairn/api/find.hpp"
#include "cairn/api/load.hpp"
#include "cairn/api/maintain.hpp"
#include "cairn/api/offload.hpp"
#include "cairn/api/save.hpp"
#include "cairn/array/array.hpp"
#include "cairn/base/error.hpp"
#include "cairn/contract/checkpointable.hpp"
#include "cairn/contract/handler.hpp"
#include "cairn/contract/registry.hpp"
#include "cairn/core/context.hpp"
#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/array_rules.hpp"
#include "cairn/handlers/builtin.hpp"
#include "cairn/handlers/into.hpp"
#include "cairn/handlers/sharded_array.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/handlers/tree_handler.hpp"
