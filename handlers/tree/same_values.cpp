// SPDX-License-Identifier: Apache-2.0
#include "same_values.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "cairn/coord/differences.hpp"

namespace cairn::detail {
namespace {

constexpr std::uint64_t kMostArrayBytes = 1024;

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  const std::uint64_t hash = hash_bytes(bytes).low;
  return hash == 0 ? 1 : hash;
}

template <class T>
std::uint64_t hash_of_number(T value) {
  return hash_of(std::as_bytes(std::span<const T>(&value, 1)));
}

std::uint64_t hash_of_array(const ArrayView& array) {
  const bool is_compared = array.device().is_host() && array.byte_count() <= kMostArrayBytes;
  if (!is_compared) {
    return 0;
  }
  return array.is_contiguous() ? hash_of(array.bytes()) : hash_of(Array::copy_of(array).view().bytes());
}

std::uint64_t hash_of_leaf(const Tree& leaf) {
  switch (leaf.kind()) {
    case TreeKind::boolean:
      return hash_of_number(leaf.as<bool>());
    case TreeKind::floating:
      return hash_of_number(leaf.as<double>());
    case TreeKind::integer:
      if (const auto value = leaf.large_integer()) {
        return hash_of_number(*value);
      }
      return hash_of_number(leaf.as<std::int64_t>());
    case TreeKind::string: {
      const auto text = leaf.as<std::string_view>();
      return hash_of(std::as_bytes(std::span(text.data(), text.size())));
    }
    case TreeKind::bytes:
      return hash_of(leaf.as<Bytes>());
    case TreeKind::array:
      return hash_of_array(leaf.array_if()->view());
    case TreeKind::null:
    case TreeKind::map:
    case TreeKind::list:
    case TreeKind::sharded_array:
      break;
  }
  return 0;
}

/// The path in line `number`, as it is shown.
std::string_view path_in(std::string_view lines, std::uint64_t number) {
  for (; number > 0; --number) {
    lines.remove_prefix(std::min(lines.size(), lines.find('\n') + 1));
  }
  const std::string_view line = lines.substr(0, lines.find('\n'));
  return line.substr(0, line.rfind(": "));
}

std::string sentence(const Differences& differences, std::string_view lines) {
  if (differences.by_value.empty()) {
    return {};
  }
  std::string leaves;
  for (const auto& [leaf, ranks] : differences.by_value) {
    leaves += fmt::format("{}{} on {}", leaves.empty() ? "" : "; ", path_in(lines, leaf), to_string(ranks));
  }
  return fmt::format(
      "values that are not sharded were saved as rank 0 has them, and are others elsewhere: {}{}", leaves,
      differences.has_more ? "; and further ones" : "");
}

}  // namespace

void SameValues::add(const Tree& leaf) {
  hashes_.push_back(hash_of_leaf(leaf));
}

Hash128 SameValues::hash() const noexcept {
  return hash_bytes(std::as_bytes(std::span(hashes_)));
}

// outlives: the caller keeps the subject until this has ended.
Awaitable<std::string> name_differences(Subject& ranks, SameValues mine, std::string lines) {
  const Differences differences = co_await find_differences(ranks, mine.hashes());
  co_return sentence(differences, lines);
}

}  // namespace cairn::detail
