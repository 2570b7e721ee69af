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
constexpr std::size_t kPlaces = 64;  // Of a leaf that is not compared whole.
constexpr std::size_t kPlaceBytes = 64;

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

/// Calls `take` with the first of each run of `units` that is compared of `count` units.
template <class Take>
void visit_places(std::uint64_t count, std::uint64_t units, Take take) {
  const std::uint64_t step = (count - units) / (kPlaces - 1);
  for (std::size_t i = 0; i + 1 < kPlaces; ++i) {
    take(i * step);
  }
  take(count - units);
}

std::uint64_t hash_of_places(std::span<const std::byte> bytes) {
  std::vector<std::byte> taken;
  taken.reserve(kPlaces * kPlaceBytes);
  visit_places(bytes.size(), kPlaceBytes, [&](std::uint64_t first) {
    const auto place = bytes.subspan(static_cast<std::size_t>(first), kPlaceBytes);
    taken.insert(taken.end(), place.begin(), place.end());
  });
  return hash_of(taken);
}

/// Where the element with this number in row-major order lies.
const std::byte* element_at(const ArrayView& array, std::uint64_t number) {
  const std::byte* at = array.data();
  for (std::size_t i = array.rank(); i-- > 0;) {
    at += static_cast<std::ptrdiff_t>(number % array.shape()[i]) * array.strides()[i];
    number /= array.shape()[i];
  }
  return at;
}

/// The same for the same elements, however they lie in memory.
std::uint64_t hash_of_places(const ArrayView& array) {
  if (is_packed(array.dtype())) {
    return hash_of_places(array.bytes());
  }
  const std::uint64_t elements = array.element_count();
  const auto element_bytes = static_cast<std::size_t>(array.byte_count() / elements);
  const std::uint64_t units = std::max<std::uint64_t>(kPlaceBytes / element_bytes, 1);
  std::vector<std::byte> taken;
  taken.reserve(kPlaces * kPlaceBytes);
  const bool is_contiguous = array.is_contiguous();
  const std::uint64_t run = is_contiguous ? units : 1;  // So many elements lie side by side.
  visit_places(elements, units, [&](std::uint64_t first) {
    for (std::uint64_t number = first; number < first + units; number += run) {
      const std::byte* at = is_contiguous ? array.data() + number * element_bytes : element_at(array, number);
      taken.insert(taken.end(), at, at + run * element_bytes);
    }
  });
  return hash_of(taken);
}

/// Of a leaf that has a size, of more bytes than kMostLeafBytes or so many beside others.
std::uint64_t hash_of_places(const Tree& leaf, std::uint64_t bytes) {
  if (bytes < 2 * kPlaces * kPlaceBytes) {
    return hash_of_leaf(leaf);  // Whole: it takes no longer.
  }
  if (const Array* array = leaf.array_if()) {
    return hash_of_places(array->view());
  }
  if (const Bytes* own = leaf.bytes_if()) {
    return hash_of_places(std::span<const std::byte>(*own));
  }
  const auto text = leaf.as<std::string_view>();
  return hash_of_places(std::as_bytes(std::span(text.data(), text.size())));
}

NamedDifferences named(const coord::Differences& differences, const SameValues& values,
                       const sharding::LeafList& all) {
  NamedDifferences found;
  for (const auto& [number, ranks] : differences.by_value) {
    const auto hash = static_cast<std::size_t>(number);
    const std::string path = all.path(values.leaf_of(hash));
    found.words +=
        fmt::format("{}{} on {}", found.words.empty() ? "" : "; ", formats::shown(path), to_string(ranks));
    found.is_mixed = found.is_mixed || values.must_be_same(hash);
  }
  found.words += differences.has_more ? "; and further ones" : "";
  return found;
}

}  // namespace

void SameValues::add(const Tree& leaf, bool must_be_same) {
  if (must_be_same) {
    must_be_same_.insert(hashes_.size());
  }
  const std::optional<std::uint64_t> bytes = bytes_of(leaf);
  if (!bytes) {
    hashes_.push_back(hash_of_leaf(leaf));
    return;
  }
  const bool is_on_host = !leaf.is_array() || leaf.array_if()->view().device().is_host();
  if (is_on_host) {
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
    const bool is_whole =
        one.bytes <= std::min(kMostLeafBytes, left);  // Not of those after it, which are as large.
    left -= is_whole ? one.bytes : left;
    hashes_[one.number] = is_whole ? hash_of_leaf(*one.leaf) : hash_of_places(*one.leaf, one.bytes);
  }
  sized_.clear();
}

Hash128 SameValues::hash() const noexcept {
  return hash_bytes(std::as_bytes(std::span(hashes_)));
}

// outlives: the caller keeps the channel until this has ended.
Awaitable<NamedDifferences> name_differences(coord::Channel& ranks, SameValues mine,
                                             sharding::LeafList leaves) {
  const coord::Differences differences = co_await coord::find_differences(ranks, mine.hashes());
  co_return named(differences, mine, leaves);
}

}  // namespace cairn::detail
