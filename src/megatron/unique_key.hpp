// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "cairn/array/shape.hpp"

namespace cairn::megatron::detail {

/// The parts of an object's name, "key/shard_<offset>_<shape>".
struct UniqueKey {
  std::string_view key;
  Shape offset;
  Shape shape;
};

/// Nothing when the text is not such a name.
///
/// Ownership: `key` is a part of `text`.
[[nodiscard]] std::optional<UniqueKey> parse_unique_key(std::string_view text);

}  // namespace cairn::megatron::detail
