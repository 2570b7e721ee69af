// SPDX-License-Identifier: Apache-2.0
#include "cairn/sharding/holdings.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"
#include "cairn/sharding/held_arrays.hpp"

#include "base/internal/packed.hpp"

namespace cairn {
namespace {

/// What one rank says of its boxes, encoded.
struct Record {
  std::uint32_t rank = 0;
  std::string_view boxes;
};

/// A message, taken apart: the structure, then a record for each rank.
struct Message {
  explicit Message(std::string_view text) {
    structure = take_bytes(text, take<std::uint64_t>(text));
    while (!text.empty()) {
      Record& record = records.emplace_back();
      record.rank = take<std::uint32_t>(text);
      record.boxes = take_bytes(text, take<std::uint64_t>(text));
    }
  }

  std::string_view structure;
  std::vector<Record> records;
};

void put_record(std::string& text, const Record& record) {
  put(text, record.rank);
  put(text, static_cast<std::uint64_t>(record.boxes.size()));
  text += record.boxes;
}

void put_box(std::string& text, const Box& box) {
  for (std::size_t d = 0; d < box.offsets().size(); ++d) {
    put(text, box.offsets()[d]);
    put(text, box.extents()[d]);
  }
}

/// A box of an array of that shape.
Box take_box(std::string_view& text, const Shape& shape) {
  Shape offsets = shape;
  Shape extents = shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    offsets[d] = take<std::uint64_t>(text);
    extents[d] = take<std::uint64_t>(text);
  }
  return {std::move(offsets), std::move(extents)};
}

std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

[[noreturn]] void refuse_difference(const Message& a, const Message& b) {
  std::string_view rest_a = a.structure;
  std::string_view rest_b = b.structure;
  std::string_view line_a;
  std::string_view line_b;
  do {
    line_a = take_line(rest_a);
    line_b = take_line(rest_b);
  } while (line_a == line_b && !(rest_a.empty() && rest_b.empty()));
  const auto shown = [](std::string_view line) { return line.empty() ? "nothing more" : line; };
  throw Error(Errc::invalid_argument,
              fmt::format("ranks save different things: rank {} has {}, rank {} has {}", a.records.at(0).rank,
                          shown(line_a), b.records.at(0).rank, shown(line_b)));
}

}  // namespace

std::string encode_holdings(std::uint32_t rank, std::string_view structure,
                            std::span<const Holding> holdings) {
  std::string boxes;
  for (const Holding& holding : holdings) {
    put(boxes, static_cast<std::uint32_t>(holding.boxes.size()));
    for (const PlacedBox& placed : holding.boxes) {
      put(boxes, placed.replica);
      put_box(boxes, placed.box);
    }
  }
  std::string text;
  put(text, static_cast<std::uint64_t>(structure.size()));
  text += structure;
  put_record(text, {rank, boxes});
  return text;
}

std::string merge_holdings(std::span<const std::string> texts) {
  std::string merged;
  std::optional<Message> first;
  for (const std::string& text : texts) {
    const Message message(text);
    if (!first) {
      merged = text;
      first.emplace(text);
      continue;
    }
    if (message.structure != first->structure) {
      refuse_difference(*first, message);
    }
    for (const Record& record : message.records) {
      put_record(merged, record);
    }
  }
  return merged;
}

std::vector<PlannedArray> decode_holdings(std::string_view text, std::span<const Holding> mine,
                                          std::uint32_t ranks) {
  Message message(text);
  const auto is_before = [](const Record& a, const Record& b) { return a.rank < b.rank; };
  std::sort(message.records.begin(), message.records.end(), is_before);
  HeldArrays arrays;
  std::vector<PlacedBox> boxes;
  for (Record& record : message.records) {
    for (const Holding& array : mine) {
      boxes.clear();
      for (auto left = take<std::uint32_t>(record.boxes); left > 0; --left) {
        const auto replica = take<std::uint32_t>(record.boxes);
        boxes.push_back({take_box(record.boxes, array.shape), replica});
      }
      arrays.add(record.rank, array.name, array.dtype, array.shape, boxes);
    }
  }
  return arrays.finish(ranks);
}

std::string encode_shares(std::span<const Share> shares) {
  std::string text;
  for (const Share& share : shares) {
    put(text, share.array);
    put_box(text, share.box);
  }
  return text;
}

std::vector<Share> decode_shares(std::string_view text, std::span<const Holding> mine) {
  std::vector<Share> shares;
  while (!text.empty()) {
    const auto array = take<std::uint32_t>(text);
    if (array >= mine.size()) {
      throw Error(Errc::malformed_metadata, fmt::format("a share of array {} of {}", array, mine.size()));
    }
    Share& share = shares.emplace_back();
    share.array = array;
    share.box = take_box(text, mine[array].shape);
    if (!share.box.is_within(mine[array].shape)) {
      throw Error(Errc::malformed_metadata, fmt::format("'{}': a share of box {}, which is not within it",
                                                        mine[array].name, to_string(share.box)));
    }
  }
  return shares;
}

}  // namespace cairn
