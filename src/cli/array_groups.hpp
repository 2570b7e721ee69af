// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cairn/contract/handler.hpp"

#include "base/internal/json_writer.hpp"

namespace cairn::cli {

/// An array with the name that people read.
struct NamedArray {
  std::string name;
  ArrayEntry entry;
};

/// Arrays of one dtype and shape whose names differ in numbers only.
struct ArrayGroup {
  std::string name;         ///< "layers.[0-31].attn.q"; of one array its name.
  std::size_t first = 0;    ///< The position of the first of them.
  std::uint64_t count = 1;  ///< How many they are.
};

/// Folds arrays into groups, in the order of the first array of each. A group has at least three for each number;
/// arrays that are further names of others stay by themselves.
[[nodiscard]] std::vector<ArrayGroup> fold(std::span<const NamedArray> arrays);

/// How many arrays have something in common, and how many bytes they take. Further names of an array take none.
struct ArrayTotal {
  std::string name;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

/// The totals of each dtype, in the order of their names.
[[nodiscard]] std::vector<ArrayTotal> totals_by_dtype(std::span<const NamedArray> arrays);

/// The totals of what has the same first `depth` keys ("layers/0/**"), in natural order. Keys are joined by '/', in a
/// name without one by points.
[[nodiscard]] std::vector<ArrayTotal> totals_by_group(std::span<const NamedArray> arrays, std::size_t depth);

/// Writes the key "totals" with both.
void write_totals(JsonWriter& json, std::span<const NamedArray> arrays, std::size_t depth);

}  // namespace cairn::cli
