// SPDX-License-Identifier: Apache-2.0
#include "megatron/common_state.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/array_view.hpp"
#include "cairn/array/format.hpp"
#include "cairn/base/device.hpp"

#include "base/internal/packed.hpp"
#include "base/internal/value_groups.hpp"

namespace cairn::megatron::detail {
namespace {

Hash128 hash_of_array(const Array& array) {
  const std::string head = fmt::format("array {} {}", array.dtype(), array.shape());
  if (array.view().device().kind != Device::Kind::cpu) {
    return hash_text(head);
  }
  const auto elements = [](const ArrayView& view) { return hash_bytes(view.bytes()); };
  const Hash128 bytes =
      array.view().is_contiguous() ? elements(array.view()) : elements(array.clone().view());
  return hash_text(head + to_hex(bytes));
}

Hash128 hash_of_leaf(const Tree& leaf) {
  switch (leaf.kind()) {
    case TreeKind::boolean:
      return hash_text(leaf.as<bool>() ? "true" : "false");
    case TreeKind::integer:
      return hash_text(leaf.large_integer() ? fmt::format("integer {}", *leaf.large_integer())
                                            : fmt::format("integer {}", leaf.as<std::int64_t>()));
    case TreeKind::floating:
      return hash_text(fmt::format("floating {}", std::bit_cast<std::uint64_t>(leaf.as<double>())));
    case TreeKind::string:
      return hash_text("string " + leaf.as<std::string>());
    case TreeKind::bytes:
      return hash_text("bytes " + to_hex(hash_bytes(leaf.as<Bytes>())));
    case TreeKind::array:
      return hash_of_array(*leaf.array_if());
    default:
      return hash_text(fmt::format("{} {}", name(leaf.kind()), leaf.size()));
  }
}

std::string listed(const std::vector<std::string>& paths) {
  constexpr std::size_t kMostNamed = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(paths.size(), kMostNamed); ++i) {
    text += fmt::format("{}'{}'", text.empty() ? "" : ", ", paths[i]);
  }
  if (paths.size() > kMostNamed) {
    text += fmt::format(" and {} more", paths.size() - kMostNamed);
  }
  return text.empty() ? "-" : text;
}

std::string encode_leaves(std::span<const HashedLeaf> leaves) {
  std::string text;
  for (const HashedLeaf& leaf : leaves) {
    put_text(text, leaf.path);
    put(text, leaf.hash.high);
    put(text, leaf.hash.low);
  }
  return text;
}

std::vector<HashedLeaf> decode_leaves(std::string_view text) {
  std::vector<HashedLeaf> leaves;
  while (!text.empty()) {
    HashedLeaf& leaf = leaves.emplace_back();
    leaf.path = take_text(text);
    leaf.hash.high = take<std::uint64_t>(text);
    leaf.hash.low = take<std::uint64_t>(text);
  }
  return leaves;
}

}  // namespace

std::vector<HashedLeaf> hashed_leaves(const Tree& common) {
  std::vector<HashedLeaf> leaves;
  visit_leaves(common, [&leaves](std::string_view path, const Tree& leaf) {
    leaves.push_back({std::string(path), hash_of_leaf(leaf)});
  });
  std::sort(leaves.begin(), leaves.end(),
            [](const HashedLeaf& a, const HashedLeaf& b) { return a.path < b.path; });
  return leaves;
}

Hash128 hash_of(std::span<const HashedLeaf> leaves) {
  std::string text;
  for (const HashedLeaf& leaf : leaves) {
    text += fmt::format("{}\n{}\n", leaf.path, to_hex(leaf.hash));
  }
  return hash_text(text);
}

Differences compare(std::span<const HashedLeaf> left, std::span<const HashedLeaf> right) {
  Differences differences;
  auto a = left.begin();
  auto b = right.begin();
  while (a != left.end() || b != right.end()) {
    if (b == right.end() || (a != left.end() && a->path < b->path)) {
      differences.only_left.push_back((a++)->path);
    } else if (a == left.end() || b->path < a->path) {
      differences.only_right.push_back((b++)->path);
    } else {
      if (a->hash != b->hash) {
        differences.mismatched.push_back(a->path);
      }
      ++a;
      ++b;
    }
  }
  return differences;
}

std::string summary_of(const Differences& from_rank_0) {
  std::string summary;
  put_text(summary, listed(from_rank_0.only_left));
  put_text(summary, listed(from_rank_0.only_right));
  put_text(summary, listed(from_rank_0.mismatched));
  return summary;
}

std::string text_of(std::string_view summary, const SomeRanks& ranks) {
  const std::string_view only_on_rank_0 = take_text(summary);
  const std::string_view only_there = take_text(summary);
  const std::string_view mismatched = take_text(summary);
  const std::string who = to_string(ranks);
  return fmt::format(
      "common state of {} differs from rank 0's: only on rank 0: {}; only on {}: {}; other values: {}", who,
      only_on_rank_0, who, only_there, mismatched);
}

// outlives: the caller keeps the channel until this has ended.
Awaitable<std::string> name_common_differences(coord::Channel& ranks, std::vector<HashedLeaf> mine) {
  std::string text = ranks.rank() == 0 ? encode_leaves(mine) : std::string();
  const std::string of_rank_0 = co_await ranks.broadcast(std::move(text));
  const Differences differences = compare(decode_leaves(of_rank_0), mine);
  const std::string summary = summary_of(differences);
  std::vector<ValueGroup> groups;
  if (!differences.empty()) {
    groups.emplace_back().ranks.add(ranks.rank());
    groups.back().value = summary;
  }
  std::string said = encode_value_groups(groups);
  coord::Channel::Merge merge = [](const std::vector<std::string>& texts) {
    return merge_encoded_value_groups(texts);
  };
  const std::string all = co_await ranks.reduce(std::move(said), std::move(merge));
  std::string words;
  if (ranks.rank() == 0) {
    for (const ValueGroup& group : decode_value_groups(all)) {
      words += (words.empty() ? "" : "; ") + text_of(group.value, group.ranks);
    }
  }
  co_return co_await ranks.broadcast(std::move(words));
}

}  // namespace cairn::megatron::detail
