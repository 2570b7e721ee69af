// SPDX-License-Identifier: Apache-2.0
#include "coord/internal/differences.hpp"

#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "base/internal/packed.hpp"

namespace cairn::coord {
namespace {

constexpr std::size_t kMostValues = 4;  // That are named.

/// Counts all ranks of the values that stay: what differs in one of the first values is among the first of each
/// message, too.
void add(Differences& differences, std::uint64_t value, const SomeRanks& ranks) {
  differences.by_value[value].add(ranks);
  if (differences.by_value.size() > kMostValues) {
    differences.by_value.erase(std::prev(differences.by_value.end()));
    differences.has_more = true;
  }
}

std::string encode(const Differences& differences) {
  std::string text;
  put(text, static_cast<std::uint8_t>(differences.has_more));
  for (const auto& [value, ranks] : differences.by_value) {
    put(text, value);
    put_ranks(text, ranks);
  }
  return text;
}

void add_encoded(Differences& differences, std::string_view text) {
  differences.has_more |= take<std::uint8_t>(text) != 0;
  while (!text.empty()) {
    const auto value = take<std::uint64_t>(text);
    add(differences, value, take_ranks(text));
  }
}

std::string merge_differences(const std::vector<std::string>& texts) {
  Differences merged;
  for (const std::string& text : texts) {
    add_encoded(merged, text);
  }
  return encode(merged);
}

std::string encode_hashes(std::span<const std::uint64_t> hashes) {
  std::string text;
  for (const std::uint64_t hash : hashes) {
    put(text, hash);
  }
  return text;
}

Differences differences_from(std::string_view of_primary, std::span<const std::uint64_t> mine,
                             std::size_t rank) {
  Differences differences;
  for (std::uint64_t value = 0; value < mine.size(); ++value) {
    const auto theirs = take<std::uint64_t>(of_primary);
    if (theirs != mine[value] && theirs != 0 && mine[value] != 0) {
      SomeRanks own;
      own.add(rank);
      add(differences, value, own);
    }
  }
  return differences;
}

}  // namespace

// outlives: the caller keeps the channel until this has ended.
Awaitable<Differences> find_differences(Channel& channel, std::vector<std::uint64_t> hashes) {
  std::string of_primary;
  if (channel.rank() == 0) {
    of_primary = encode_hashes(hashes);
  }
  of_primary = co_await channel.broadcast(std::move(of_primary));
  std::string own = encode(differences_from(of_primary, hashes, channel.rank()));
  Channel::Merge merge = merge_differences;
  Awaitable<std::string> merging = channel.reduce(std::move(own), std::move(merge));
  const std::string merged = co_await std::move(merging);
  const std::string of_all = co_await channel.broadcast(merged);
  Differences differences;
  add_encoded(differences, of_all);
  co_return differences;
}

}  // namespace cairn::coord
