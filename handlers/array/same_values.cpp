// SPDX-License-Identifier: Apache-2.0
#include "same_values.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "coord/internal/differences.hpp"
#include "formats/internal/index.hpp"

namespace cairn::detail {
namespace {

constexpr std::uint64_t kMostLeafBytes = std::uint64_t{64} << 10;
constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  const std::uint64_t hash = hash_bytes(bytes).low;
  return hash == 0 ? 1 : hash;
}

template <class T>
std::uint64_t hash_of_number(T value) {
  return hash_of(std::as_bytes(std::span<const T>(&value, 1)));
}

std::uint64_t hash_of_array(const ArrayView& array) {
  return array.is_contiguous() ? hash_of(array.bytes()) : hash_of(Array::copy_of(array).view().bytes());
}

/// The bytes of a text, of bytes or of an array; nothing for all other leaves.
std::optional<std::uint64_t> bytes_of(const Tree& leaf) {
  if (const Array* array = leaf.array_if()) {
    return array->byte_count();
  }
  if (leaf.kind() == TreeKind::string) {
    return leaf.as<std::string_view>().size();
  }
  const Bytes* bytes = leaf.bytes_if();
  return bytes != nullptr ? std::optional<std::uint64_t>(bytes->size()) : std::nullopt;
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
      return hash_of(*leaf.bytes_if());
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

std::string sentence(const coord::Differences& differences, const SameValues& values,
                     const sharding::LeafList& all) {
  if (differences.by_value.empty()) {
    return {};
  }
  std::string leaves;
  for (const auto& [number, ranks] : differences.by_value) {
    const std::string path = all.path(values.leaf_of(static_cast<std::size_t>(number)));
    leaves += fmt::format("{}{} on {}", leaves.empty() ? "" : "; ", formats::shown(path), to_string(ranks));
  }
  return fmt::format(
      "values that are not sharded were saved as rank 0 has them, and are others elsewhere: {}{} "
      "(of_each_rank saves what each "
      "rank has of its own)",
      leaves, differences.has_more ? "; and further ones" : "");
}

}  // namespace

void SameValues::add(const Tree& leaf) {
  const std::optional<std::uint64_t> bytes = bytes_of(leaf);
  if (!bytes) {
    hashes_.push_back(hash_of_leaf(leaf));
    return;
  }
  const bool is_on_host = !leaf.is_array() || leaf.array_if()->view().device().is_host();
  if (is_on_host && *bytes <= kMostLeafBytes) {
    sized_.push_back({*bytes, hashes_.size(), &leaf});
  } else {
    not_compared_.push_back(hashes_.size());
  }
  hashes_.push_back(0);
}

void SameValues::choose(std::span<const std::uint32_t> numbers) {
  std::unordered_map<std::size_t, std::size_t> places;
  std::vector<std::uint64_t> hashes;
  for (const std::uint32_t number : numbers) {
    places.emplace(number, hashes.size());
    hashes.push_back(hashes_.at(number));
  }
  hashes_ = std::move(hashes);
  chosen_.assign(numbers.begin(), numbers.end());
  std::erase_if(sized_, [&places](const Sized& one) { return !places.contains(one.number); });
  for (Sized& one : sized_) {
    one.number = places.at(one.number);
  }
  std::erase_if(not_compared_, [&places](std::size_t number) { return !places.contains(number); });
}

void SameValues::compute() {
  std::stable_sort(sized_.begin(), sized_.end(),
                   [](const Sized& a, const Sized& b) { return a.bytes < b.bytes; });
  std::uint64_t left = kMostBytes;
  for (const Sized& one : sized_) {
    if (one.bytes > left) {
      not_compared_.push_back(one.number);  // So are all that come after it, which are as large.
      continue;
    }
    left -= one.bytes;
    hashes_[one.number] = hash_of_leaf(*one.leaf);
  }
  sized_.clear();
}

Hash128 SameValues::hash() const noexcept {
  return hash_bytes(std::as_bytes(std::span(hashes_)));
}

// outlives: the caller keeps the channel until this has ended.
Awaitable<std::string> name_differences(coord::Channel& ranks, SameValues mine, sharding::LeafList leaves) {
  const coord::Differences differences = co_await coord::find_differences(ranks, mine.hashes());
  co_return sentence(differences, mine, leaves);
}

}  // namespace cairn::detail
