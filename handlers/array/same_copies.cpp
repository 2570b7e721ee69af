// SPDX-License-Identifier: Apache-2.0
#include "same_copies.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"
#include "cairn/base/some_ranks.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/coord/session.hpp"
#include "cairn/handlers/tree.hpp"

#include "base/internal/packed.hpp"
#include "formats/internal/index.hpp"
#include "same_values.hpp"

namespace cairn::detail {
namespace {

/// Which ranks have which hash of a box.
using RanksByHash = std::map<std::uint64_t, SomeRanks>;
using Boxes = std::map<std::string, RanksByHash>;

std::string encode_boxes(const Boxes& boxes) {
  std::string text;
  for (const auto& [name, hashes] : boxes) {
    put_text(text, name);
    put(text, std::uint64_t{hashes.size()});
    for (const auto& [hash, ranks] : hashes) {
      put(text, hash);
      put_ranks(text, ranks);
    }
  }
  return text;
}

void add_boxes(Boxes& boxes, std::string_view text) {
  while (!text.empty()) {
    RanksByHash& hashes = boxes[std::string(take_text(text))];
    for (auto left = take<std::uint64_t>(text); left > 0; --left) {
      const auto hash = take<std::uint64_t>(text);
      hashes[hash].add(take_ranks(text));
    }
  }
}

std::string merge_boxes(const std::vector<std::string>& texts) {
  Boxes all;
  for (const std::string& text : texts) {
    add_boxes(all, text);
  }
  return encode_boxes(all);
}

/// Names the first few boxes whose copies differ; empty where none do.
std::string differing(std::string_view text) {
  constexpr std::size_t kMostNamed = 5;
  Boxes boxes;
  add_boxes(boxes, text);
  std::erase_if(boxes, [](const auto& box) { return box.second.size() < 2; });
  std::string words;
  std::size_t named = 0;
  for (const auto& [name, hashes] : boxes) {
    if (named++ == kMostNamed) {
      words += fmt::format("; and {} more", boxes.size() - kMostNamed);
      break;
    }
    words += fmt::format("{}{}: ", words.empty() ? "" : "; ", name);
    bool is_first = true;
    for (const auto& [hash, ranks] : hashes) {
      words += fmt::format("{}{}", is_first ? "" : ", other values on ", to_string(ranks));
      is_first = false;
    }
  }
  return words;
}

std::string merge_sums(const std::vector<std::string>& texts) {
  std::uint64_t sum = 0;
  for (std::string_view text : texts) {
    sum += take<std::uint64_t>(text);
  }
  std::string merged;
  put(merged, sum);
  return merged;
}

}  // namespace

void SameCopies::add(std::span<const HeldArray> arrays,
                     std::span<const sharding::WriteAssignment> assignments) {
  auto assignment = assignments.begin();
  std::uint32_t number = 0;
  for (const HeldArray& array : arrays) {
    if (array.sharded == nullptr) {
      continue;
    }
    const auto& shards = array.sharded->shards();
    std::size_t near =
        0;  // Assignments are in the order of boxes, as a rule: the next one lies in this shard or behind.
    for (; assignment != assignments.end() && assignment->array == number; ++assignment) {
      const Box& part = assignment->box;
      for (std::size_t i = 0; i < shards.size(); ++i) {
        const std::size_t at = (near + i) % shards.size();
        const Shard& shard = shards[at];
        if (!shard.box.contains(part)) {
          continue;
        }
        near = at;
        if (shard.box == part) {
          break;
        }
        const std::uint64_t elements = element_count(part.extents()).value_or(0);
        const bool is_first = part.offsets() == shard.box.offsets();
        const std::uint64_t all = is_first ? element_count(shard.box.extents()).value_or(0) : 0;
        copies_.push_back({fmt::format("{} {}", formats::shown(array.path), to_string(shard.box)),
                           elements - all, shard.data, 0});
        break;  // A box that this rank holds as several replicas is one copy.
      }
    }
    ++number;
  }
}

void SameCopies::compute() {
  for (Copy& copy : copies_) {
    const Tree leaf(std::exchange(copy.elements, Array()));
    SameValues value;
    value.add(leaf);
    value.compute();
    copy.hash = value.hashes().front();
    sum_ += copy.factor * copy.hash;
  }
}

std::string SameCopies::encode(std::uint32_t rank) const {
  Boxes boxes;
  for (const Copy& copy : copies_) {
    if (copy.hash != 0) {  // It was compared.
      SomeRanks& ranks = boxes[copy.name][copy.hash];
      ranks = SomeRanks();  // This rank may write several parts of the box.
      ranks.add(rank);
    }
  }
  return encode_boxes(boxes);
}

Awaitable<> require_same_copies(SaveContext context, SameCopies mine) {
  coord::Channel ranks = *context.channel("copies");
  std::string said;
  put(said, mine.sum());
  coord::Channel::Merge add = [](const std::vector<std::string>& texts) { return merge_sums(texts); };
  std::string total = co_await ranks.reduce(std::move(said), std::move(add));
  total = co_await ranks.broadcast(std::move(total));
  std::string_view sum = total;
  if (take<std::uint64_t>(sum) == 0) {
    co_return;
  }
  std::string boxes = mine.encode(static_cast<std::uint32_t>(ranks.rank()));
  coord::Channel::Merge merge = [](const std::vector<std::string>& texts) { return merge_boxes(texts); };
  const std::string all = co_await ranks.reduce(std::move(boxes), std::move(merge));
  std::string words = ranks.rank() == 0 ? differing(all) : std::string();
  if (!words.empty()) {
    ranks.refuse_together(Error(
        Errc::ranks_differ,
        fmt::format("'{}': copies of one box differ, and each rank writes a part of it, so that the stored "
                    "values would be nobody's: {}; make the copies alike, or let each main replica be "
                    "written by its rank (ReplicaChoice::main)",
                    context.name(), words)));
  }
  static_cast<void>(co_await ranks.broadcast(std::move(words)));
}

}  // namespace cairn::detail
