// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "cairn/handlers/tree.hpp"
#include "cairn/megatron/factory.hpp"
#include "cairn/megatron/state_dict.hpp"

namespace cairn::megatron::detail {

/// How what factories have built becomes their tensors again, by the paths of the factories.
using Merges = std::map<std::string, ShardedTensorFactory::Merge, std::less<>>;

/// As apply_factories; adds the merges of all factories to `merges`.
void build_factories(StateDict& dict, Merges& merges);

/// A factory's `merge` makes this of the parts that were loaded.
///
/// Errors: naming the path of the factory. What `merge` throws; Errc::invalid_argument where it is empty.
[[nodiscard]] Tree merged(const ShardedTensorFactory::Merge& merge, Tree built, std::string_view path);

}  // namespace cairn::megatron::detail
