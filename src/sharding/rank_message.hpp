// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"

#include "base/internal/rank_groups.hpp"
#include "base/internal/value_groups.hpp"

namespace cairn::sharding_detail {

// What ranks say to each other about their leaves, taken apart: views of the text.

/// A leaf of a rank.
struct Leaf {
  enum class Kind : std::uint8_t { value, empty_map, list, array, array_in_parts };

  std::string_view path;
  Kind kind{};
  std::string_view words;  // Of a value: what it is.
  std::uint64_t size = 0;  // Of a list.
  DType dtype{};           // Of arrays.
  Shape shape;

  /// Returns whether two leaves of one path can be one leaf.
  [[nodiscard]] bool is_like(const Leaf& other) const;
};

void put_leaf(std::string& text, const Leaf& leaf);
/// Errors: Errc::malformed_metadata.
[[nodiscard]] Leaf take_leaf(std::string_view& text);

/// Says what a leaf is: "array of F32 [3]", "list of 2".
[[nodiscard]] std::string describe(const Leaf& leaf);
/// The path of a leaf, as messages show it.
[[nodiscard]] std::string shown(std::string_view path);

/// The boxes of one rank that no rule gives, encoded.
struct Record {
  std::uint32_t rank = 0;
  std::optional<RankGroup> group;
  std::string_view boxes;
};

/// Ranks that bring the same leaves and say the same rules: those, and a record for each rank.
struct RuleGroup {
  std::string_view rules;
  std::vector<Record> records;
};

/// Ranks that bring the same leaves.
struct Structure {
  std::string_view leaves;
  std::string_view same;  ///< Which arrays are one, as encode_firsts writes it.
  std::vector<RuleGroup> groups;

  [[nodiscard]] SomeRanks ranks() const;
};

/// The message of some ranks.
struct RankMessage {
  /// What a message begins with.
  enum class Kind : std::uint8_t { alike, different, joined };

  RankMessage() = default;
  /// Errors: Errc::malformed_metadata.
  explicit RankMessage(std::string_view text);

  [[nodiscard]] std::string encode() const;

  Kind kind = Kind::alike;
  std::vector<ValueGroup>
      different;  ///< Where leaves must be the same and are not: who has which, at least two.
  std::vector<Structure> structures;  ///< Otherwise: one, unless ranks join their leaves.
};

void put_box(std::string& text, const Box& box);
/// A box of an array of that shape.
[[nodiscard]] Box take_box(std::string_view& text, const Shape& shape);

/// For each array the number of the first one that it is the same as, which may be its own; empty where each is its
/// own.
using Firsts = std::vector<std::uint32_t>;

[[nodiscard]] std::string encode_firsts(std::span<const std::optional<std::uint32_t>> same_as);
/// Errors: Errc::malformed_metadata where a number is not that of an array that is its own.
[[nodiscard]] Firsts decode_firsts(std::string_view text);

/// Appends numbers as runs: the first one u32, how many u32.
void put_numbers(std::string& text, std::span<const std::uint32_t> numbers);
/// Takes what `put_numbers` has appended; all are below `limit`.
///
/// Errors: Errc::malformed_metadata.
[[nodiscard]] std::vector<std::uint32_t> take_numbers(std::string_view& text, std::size_t limit);

}  // namespace cairn::sharding_detail
