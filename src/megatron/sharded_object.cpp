// SPDX-License-Identifier: Apache-2.0
#include "cairn/megatron/sharded_object.hpp"

#include <charconv>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "megatron/unique_key.hpp"

namespace cairn::megatron {
namespace {

constexpr std::string_view kShard = "shard";

std::string joined(const Shape& numbers) {
  std::string text;
  for (const std::uint64_t number : numbers) {
    text += fmt::format("{}{}", text.empty() ? "" : ".", number);
  }
  return text;
}

/// Numbers with dots between them, as `joined` makes them; nothing for any other text.
std::optional<Shape> parse_numbers(std::string_view text) {
  std::vector<std::uint64_t> numbers;
  for (bool has_more = !text.empty(); has_more;) {
    std::uint64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [parsed_end, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || numbers.size() == kMaxRank) {
      return std::nullopt;
    }
    numbers.push_back(number);
    has_more = parsed_end != end;
    if (has_more && *parsed_end != '.') {
      return std::nullopt;
    }
    text.remove_prefix(static_cast<std::size_t>(parsed_end - text.data()) + (has_more ? 1 : 0));
  }
  return Shape(std::span<const std::uint64_t>(numbers));
}

/// Cuts off what lies before `separator`; nothing when that is not there.
std::optional<std::string_view> cut_before(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + 1);
  return before;
}

}  // namespace

void ShardedObject::validate() const {
  bool is_within = global_offset.size() == global_shape.size();
  for (std::size_t axis = 0; is_within && axis < global_shape.size(); ++axis) {
    is_within = global_offset[axis] < global_shape[axis];
  }
  if (!is_within) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}': a grid of {} objects has none at {}", key, global_shape, global_offset));
  }
}

std::string ShardedObject::unique_key() const {
  return fmt::format("{}/{}_{}_{}", key, kShard, joined(global_offset), joined(global_shape));
}

std::optional<detail::UniqueKey> detail::parse_unique_key(std::string_view text) {
  const std::size_t slash = text.rfind('/');
  if (slash == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view place = text.substr(slash + 1);
  if (cut_before(place, '_') != kShard) {
    return std::nullopt;
  }
  const auto offset = parse_numbers(cut_before(place, '_').value_or("?"));
  const auto shape = parse_numbers(place);
  if (!offset || !shape) {
    return std::nullopt;
  }
  return UniqueKey{text.substr(0, slash), *offset, *shape};
}

ShardedObject ShardedObject::empty_from_unique_key(std::string_view unique_key, ReplicaId replica_id) {
  const auto parsed = detail::parse_unique_key(unique_key);
  if (!parsed) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}' is not the name of an object, which ends in '/shard_<offset>_<shape>'",
                            unique_key));
  }
  ShardedObject object{std::string(parsed->key), std::nullopt, parsed->shape, parsed->offset,
                       std::move(replica_id)};
  object.validate();
  return object;
}

}  // namespace cairn::megatron
