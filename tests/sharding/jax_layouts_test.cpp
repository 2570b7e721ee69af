// SPDX-License-Identifier: Apache-2.0
// Shardings against what JAX says of the same specs; tests/data/sharding/make_jax_layouts.py has asked it.
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/array/format.hpp"
#include "cairn/sharding/sharding.hpp"

#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace cairn {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<std::uint64_t> numbers(std::string_view text) {
  std::vector<std::uint64_t> values;
  for (const std::string& part : split(text, 'x')) {
    values.push_back(number(part));
  }
  return values;
}

Mesh mesh_of(std::string_view extents) {
  const auto sizes = numbers(extents);
  std::vector<std::string> axes;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    axes.push_back("d" + std::to_string(i));
  }
  return {Shape(sizes), std::move(axes)};
}

/// "d1,d0;;d2".
Sharding of_spec(std::string_view mesh, std::string_view rule) {
  std::vector<std::vector<std::string>> spec;
  for (const std::string& dimension : split(rule, ';')) {
    spec.push_back(dimension.empty() ? std::vector<std::string>() : split(dimension, ','));
  }
  return Sharding::of_spec(mesh_of(mesh), std::move(spec));
}

/// What a rank holds, as the table has it.
std::string held_by(const Sharding& sharding, std::uint32_t rank, const Shape& shape) {
  std::string boxes;
  for (const PlacedBox& placed : sharding.boxes(rank, shape)) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      boxes +=
          (d == 0 ? "" : ",") + std::to_string(placed.box.begin(d)) + ":" + std::to_string(placed.box.end(d));
    }
  }
  return boxes;
}

TEST(ShardingOfSpec, GivesWhatJaxGives) {
  const std::string table = testing::read_text(testing::test_data() / "sharding/jax_layouts.txt");
  std::size_t cases = 0;
  for (const std::string& line : split(table, '\n')) {
    if (line.empty() || line[0] == '#') {
      continue;
    }
    const std::vector<std::string> fields = split(line, '|');
    const Sharding sharding = of_spec(fields[0], fields[1]);
    const auto extents = numbers(fields[2]);
    const Shape shape(extents);
    ASSERT_EQ(sharding.ranks(), fields.size() - 3) << line;
    for (std::uint32_t rank = 0; rank < sharding.ranks(); ++rank) {
      EXPECT_EQ(held_by(sharding, rank, shape), fields[3 + rank]) << "rank " << rank << " of " << line;
    }
    ++cases;
  }
  EXPECT_GT(cases, 100u);
}

}  // namespace
}  // namespace cairn
