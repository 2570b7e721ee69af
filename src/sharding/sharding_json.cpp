// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/base/error.hpp"
#include "cairn/sharding/sharding.hpp"

#include "base/internal/json_reader.hpp"
#include "base/internal/json_writer.hpp"
#include "sharding/rules.hpp"

namespace cairn {
namespace sharding_detail {
namespace {

constexpr std::string_view kKindNames[] = {"replicated", "spec", "placements", "grid", "table"};

void write_numbers(JsonWriter& json, std::string_view key, std::span<const std::uint64_t> numbers) {
  json.key(key).begin_list();
  for (const std::uint64_t number : numbers) {
    json.value(number);
  }
  json.end();
}

void write_ranks(JsonWriter& json, std::string_view key, std::span<const std::uint32_t> numbers) {
  json.key(key).begin_list();
  for (const std::uint32_t number : numbers) {
    json.value(number == Sharding::kNoPart ? JsonScalar(nullptr) : JsonScalar(std::uint64_t{number}));
  }
  json.end();
}

std::vector<std::uint64_t> read_numbers(JsonReader& json) {
  std::vector<std::uint64_t> numbers;
  json.begin_list();
  while (json.next_element()) {
    numbers.push_back(json.read_unsigned());
  }
  return numbers;
}

std::uint32_t read_u32(JsonReader& json) {
  const std::uint64_t number = json.read_unsigned();
  if (number >= UINT32_MAX) {
    json.fail("the number is too large");
  }
  return static_cast<std::uint32_t>(number);
}

std::vector<std::uint32_t> read_ranks(JsonReader& json) {
  std::vector<std::uint32_t> numbers;
  json.begin_list();
  while (json.next_element()) {
    numbers.push_back(json.skip_null() ? Sharding::kNoPart : read_u32(json));
  }
  return numbers;
}

std::vector<std::string> read_texts(JsonReader& json) {
  std::vector<std::string> texts;
  json.begin_list();
  while (json.next_element()) {
    texts.emplace_back(json.read_string());
  }
  return texts;
}

Shape as_shape(const std::vector<std::uint64_t>& numbers) {
  return Shape(std::span(numbers));
}

/// A member that an object must have, and what reads its value.
struct Member {
  std::string_view key;
  std::function<void()> read;
  bool is_optional = false;
};

void read_members(JsonReader& json, std::initializer_list<Member> members) {
  std::size_t found = 0;
  std::size_t needed = 0;
  for (const Member& member : members) {
    needed += member.is_optional ? 0 : 1;
  }
  while (const std::optional<std::string_view> key = json.next_key()) {
    const auto* member = members.begin();
    while (member != members.end() && member->key != *key) {
      ++member;
    }
    if (member == members.end()) {
      json.fail("an unknown member");
    }
    found += member->is_optional ? 0 : 1;
    member->read();
  }
  if (found != needed) {
    json.fail("a member is missing");
  }
}

Mesh read_mesh(JsonReader& json) {
  std::vector<std::uint64_t> extents;
  std::vector<std::string> axes;
  std::vector<std::uint32_t> ranks;
  json.begin_object();
  read_members(json, {{"extents", [&] { extents = read_numbers(json); }},
                      {"axes", [&] { axes = read_texts(json); }},
                      {"ranks", [&] { ranks = read_ranks(json); }, true}});
  return {as_shape(extents), std::move(axes), std::move(ranks)};
}

Sharding read_spec(JsonReader& json) {
  std::optional<Mesh> mesh;
  std::vector<std::vector<std::string>> spec;
  const auto read_dimensions = [&] {
    json.begin_list();
    while (json.next_element()) {
      spec.push_back(read_texts(json));
    }
  };
  read_members(json, {{"mesh", [&] { mesh = read_mesh(json); }}, {"spec", read_dimensions}});
  return Sharding::of_spec(std::move(*mesh), std::move(spec));
}

Sharding read_placements(JsonReader& json) {
  std::optional<Mesh> mesh;
  std::vector<Placement> placements;
  const auto read_list = [&] {
    json.begin_list();
    while (json.next_element()) {
      Placement& placement = placements.emplace_back();
      json.begin_object();
      read_members(json, {{"dimension", [&] { placement.dimension = json.read_unsigned(); }, true},
                          {"split_factor", [&] { placement.split_factor = json.read_unsigned(); }, true}});
    }
  };
  read_members(json, {{"mesh", [&] { mesh = read_mesh(json); }}, {"placements", read_list}});
  return Sharding::of_placements(std::move(*mesh), std::move(placements));
}

Sharding read_grid(JsonReader& json) {
  std::vector<std::uint64_t> parts;
  std::vector<std::uint32_t> part_of_rank;
  read_members(json, {{"parts", [&] { parts = read_numbers(json); }},
                      {"part_of_rank", [&] { part_of_rank = read_ranks(json); }}});
  return Sharding::of_grid(as_shape(parts), std::move(part_of_rank));
}

PlacedBox read_box(JsonReader& json) {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> extents;
  std::uint32_t replica = 0;
  json.begin_object();
  read_members(json, {{"offsets", [&] { offsets = read_numbers(json); }},
                      {"extents", [&] { extents = read_numbers(json); }},
                      {"replica", [&] { replica = read_u32(json); }, true}});
  return {Box(as_shape(offsets), as_shape(extents)), replica};
}

Sharding read_table(JsonReader& json) {
  std::vector<std::vector<PlacedBox>> by_rank;
  const auto read_list = [&] {
    json.begin_list();
    while (json.next_element()) {
      std::vector<PlacedBox>& boxes = by_rank.emplace_back();
      json.begin_list();
      while (json.next_element()) {
        boxes.push_back(read_box(json));
      }
    }
  };
  read_members(json, {{"by_rank", read_list}});
  return Sharding::of_boxes(by_rank);
}

Sharding read_replicated(JsonReader& json) {
  std::uint32_t ranks = 0;
  read_members(json, {{"ranks", [&] { ranks = read_u32(json); }}});
  return Sharding::replicated(ranks);
}

Sharding read_sharding(JsonReader& json) {
  json.begin_object();
  if (json.next_key() != "kind") {
    json.fail("the kind of a sharding must come first");
  }
  constexpr Sharding (*kReaders[])(JsonReader&) = {read_replicated, read_spec, read_placements, read_grid,
                                                   read_table};
  const std::string_view kind = json.read_string();
  for (std::size_t i = 0; i < std::size(kReaders); ++i) {
    if (kKindNames[i] == kind) {
      Sharding sharding = kReaders[i](json);
      json.finish();
      return sharding;
    }
  }
  json.fail("an unknown kind of sharding");
}

}  // namespace

void ReplicatedRule::write(JsonWriter& json) const {
  json.key("ranks").value(std::uint64_t{ranks_});
}

void MeshRule::write(JsonWriter& json) const {
  json.key("mesh").begin_object();
  write_numbers(json, "extents", mesh_.extents());
  json.key("axes").begin_list();
  for (const std::string& axis : mesh_.axes()) {
    json.value(std::string_view(axis));
  }
  json.end();
  if (!mesh_.ranks().empty()) {
    write_ranks(json, "ranks", mesh_.ranks());
  }
  json.end();
}

void SpecRule::write(JsonWriter& json) const {
  MeshRule::write(json);
  json.key("spec").begin_list();
  for (const std::vector<std::size_t>& axes : axes_) {
    json.begin_list();
    for (const std::size_t axis : axes) {
      json.value(std::string_view(mesh().axes()[axis]));
    }
    json.end();
  }
  json.end();
}

void PlacementRule::write(JsonWriter& json) const {
  MeshRule::write(json);
  json.key("placements").begin_list();
  for (const Placement& placement : placements_) {
    json.begin_object();
    if (placement.dimension) {
      json.key("dimension").value(std::uint64_t{*placement.dimension});
    }
    if (placement.split_factor != 1) {
      json.key("split_factor").value(placement.split_factor);
    }
    json.end();
  }
  json.end();
}

void PartsRule::write(JsonWriter& json) const {
  write_numbers(json, "parts", parts_);
  write_ranks(json, "part_of_rank", part_of_rank_);
}

void TableRule::write(JsonWriter& json) const {
  json.key("by_rank").begin_list();
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    json.begin_list();
    for (std::uint32_t i = first(rank); i < first(rank + 1); ++i) {
      json.begin_object();
      write_numbers(json, "offsets", numbers(i).first(dimensions_));
      write_numbers(json, "extents", numbers(i).last(dimensions_));
      if (replicas_[i] != 0) {
        json.key("replica").value(std::uint64_t{replicas_[i]});
      }
      json.end();
    }
    json.end();
  }
  json.end();
}

}  // namespace sharding_detail

std::string Sharding::to_json() const {
  std::string text;
  JsonWriter json(text);
  json.begin_object().key("kind").value(sharding_detail::kKindNames[static_cast<std::size_t>(kind())]);
  rule_->write(json);
  json.end();
  return text;
}

Sharding Sharding::from_json(std::string_view text, std::string_view name) {
  JsonRules rules;
  rules.has_unique_keys = true;
  JsonReader json(text, name, rules);
  try {
    return sharding_detail::read_sharding(json);
  } catch (const Error& error) {
    if (error.code() != Errc::invalid_argument) {
      throw;
    }
    throw Error(Errc::malformed_metadata, std::string(name) + ": " + error.detail());
  }
}

}  // namespace cairn
