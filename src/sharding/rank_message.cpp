// SPDX-License-Identifier: Apache-2.0
#include "sharding/rank_message.hpp"

#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "base/internal/packed.hpp"

namespace cairn::sharding_detail {
namespace {

Structure take_structure(std::string_view& text) {
  Structure structure;
  structure.leaves = take_text(text);
  structure.same = take_text(text);
  std::string_view groups = take_text(text);
  while (!groups.empty()) {
    RuleGroup& group = structure.groups.emplace_back();
    group.rules = take_text(groups);
    std::string_view records = take_text(groups);
    while (!records.empty()) {
      Record& record = group.records.emplace_back();
      record.rank = take<std::uint32_t>(records);
      record.group = take_group(records);
      record.boxes = take_text(records);
    }
  }
  return structure;
}

void put_structure(std::string& text, const Structure& structure) {
  std::string groups;
  for (const RuleGroup& group : structure.groups) {
    put_text(groups, group.rules);
    std::string records;
    for (const Record& record : group.records) {
      put(records, record.rank);
      put_group(records, record.group);
      put_text(records, record.boxes);
    }
    put_text(groups, records);
  }
  put_text(text, structure.leaves);
  put_text(text, structure.same);
  put_text(text, groups);
}

bool has_ranks(const Structure& structure) {
  bool has_all = !structure.groups.empty();
  for (const RuleGroup& group : structure.groups) {
    has_all = has_all && !group.records.empty();
  }
  return has_all;
}

}  // namespace

bool Leaf::is_like(const Leaf& other) const {
  return kind == other.kind && words == other.words && size == other.size && dtype == other.dtype &&
         shape == other.shape;
}

void put_leaf(std::string& text, const Leaf& leaf) {
  put(text, static_cast<std::uint8_t>(leaf.kind));
  put_text(text, leaf.path);
  switch (leaf.kind) {
    case Leaf::Kind::value:
      return put_text(text, leaf.words);
    case Leaf::Kind::empty_map:
      return;
    case Leaf::Kind::list:
      return put(text, leaf.size);
    case Leaf::Kind::array:
    case Leaf::Kind::array_in_parts:
      put(text, static_cast<std::uint8_t>(leaf.dtype));
      put(text, static_cast<std::uint8_t>(leaf.shape.size()));
      for (const std::uint64_t extent : leaf.shape) {
        put(text, extent);
      }
      return;
  }
}

Leaf take_leaf(std::string_view& text) {
  Leaf leaf;
  leaf.kind = static_cast<Leaf::Kind>(take<std::uint8_t>(text));
  leaf.path = take_text(text);
  switch (leaf.kind) {
    case Leaf::Kind::value:
      leaf.words = take_text(text);
      return leaf;
    case Leaf::Kind::empty_map:
      return leaf;
    case Leaf::Kind::list:
      leaf.size = take<std::uint64_t>(text);
      return leaf;
    case Leaf::Kind::array:
    case Leaf::Kind::array_in_parts:
      break;
    default:
      throw Error(Errc::malformed_metadata,
                  fmt::format("{}: leaf of kind {}", shown(leaf.path), static_cast<unsigned>(leaf.kind)));
  }
  leaf.dtype = static_cast<DType>(take<std::uint8_t>(text));
  const std::size_t rank = take<std::uint8_t>(text);
  if (!is_valid(leaf.dtype) || rank > kMaxRank) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: array of dtype {} and {} dimensions", shown(leaf.path),
                            static_cast<unsigned>(leaf.dtype), rank));
  }
  leaf.shape = Shape(rank, 0);
  for (std::uint64_t& extent : leaf.shape) {
    extent = take<std::uint64_t>(text);
  }
  return leaf;
}

std::string describe(const Leaf& leaf) {
  switch (leaf.kind) {
    case Leaf::Kind::value:
      return std::string(leaf.words);
    case Leaf::Kind::empty_map:
      return "map";
    case Leaf::Kind::list:
      return fmt::format("list of {}", leaf.size);
    case Leaf::Kind::array:
      return fmt::format("array of {} {}", leaf.dtype, leaf.shape);
    case Leaf::Kind::array_in_parts:
      break;
  }
  return fmt::format("sharded array of {} {}", leaf.dtype, leaf.shape);
}

std::string shown(std::string_view path) {
  return path.empty() ? "the root" : fmt::format("'{}'", path);
}

SomeRanks Structure::ranks() const {
  SomeRanks ranks;
  for (const RuleGroup& group : groups) {
    for (const Record& record : group.records) {
      ranks.add(record.rank);
    }
  }
  return ranks;
}

RankMessage::RankMessage(std::string_view text) : kind(static_cast<Kind>(take<std::uint8_t>(text))) {
  if (kind == Kind::different) {
    different = decode_value_groups(text);
  } else if (kind != Kind::alike && kind != Kind::joined) {
    throw Error(Errc::malformed_metadata,
                fmt::format("message about leaves of kind {}", static_cast<unsigned>(kind)));
  } else {
    while (!text.empty()) {
      structures.push_back(take_structure(text));
    }
  }
  const bool has_all = kind == Kind::different ? different.size() >= 2 : !structures.empty();
  bool names_ranks = has_all && (kind != Kind::alike || structures.size() == 1);
  for (const Structure& structure : structures) {
    names_ranks = names_ranks && has_ranks(structure);
  }
  if (!names_ranks) {
    throw Error(Errc::malformed_metadata, "message does not name its rank");
  }
}

std::string RankMessage::encode() const {
  std::string text;
  put(text, static_cast<std::uint8_t>(kind));
  if (kind == Kind::different) {
    return text + encode_value_groups(different);
  }
  for (const Structure& structure : structures) {
    put_structure(text, structure);
  }
  return text;
}

void put_box(std::string& text, const Box& box) {
  for (std::size_t d = 0; d < box.offsets().size(); ++d) {
    put(text, box.offsets()[d]);
    put(text, box.extents()[d]);
  }
}

Box take_box(std::string_view& text, const Shape& shape) {
  Shape offsets = shape;
  Shape extents = shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    offsets[d] = take<std::uint64_t>(text);
    extents[d] = take<std::uint64_t>(text);
  }
  return {std::move(offsets), std::move(extents)};
}

std::string encode_firsts(std::span<const std::optional<std::uint32_t>> same_as) {
  std::string text;
  bool are_all_own = true;
  for (std::uint32_t number = 0; number < same_as.size(); ++number) {
    put(text, same_as[number].value_or(number));
    are_all_own = are_all_own && !same_as[number];
  }
  return are_all_own ? std::string() : text;
}

Firsts decode_firsts(std::string_view text) {
  Firsts firsts;
  while (!text.empty()) {
    firsts.push_back(take<std::uint32_t>(text));
  }
  for (std::size_t number = 0; number < firsts.size(); ++number) {
    const std::uint32_t first = firsts[number];
    if (first >= firsts.size() || firsts[first] != first) {
      throw Error(Errc::malformed_metadata, fmt::format("array {} is the same as array {}", number, first));
    }
  }
  return firsts;
}

void put_numbers(std::string& text, std::span<const std::uint32_t> numbers) {
  std::string runs;
  for (std::size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    while (end < numbers.size() && numbers[end] - numbers[begin] == end - begin) {
      ++end;
    }
    put(runs, numbers[begin]);
    put(runs, static_cast<std::uint32_t>(end - begin));
  }
  put_text(text, runs);
}

std::vector<std::uint32_t> take_numbers(std::string_view& text, std::size_t limit) {
  std::string_view runs = take_text(text);
  std::vector<std::uint32_t> numbers;
  while (!runs.empty()) {
    const auto first = take<std::uint32_t>(runs);
    const auto count = take<std::uint32_t>(runs);
    if (first >= limit || count > limit - first) {
      throw Error(Errc::malformed_metadata, fmt::format("{} leaves from {} on, of {}", count, first, limit));
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      numbers.push_back(first + i);
    }
  }
  return numbers;
}

}  // namespace cairn::sharding_detail
