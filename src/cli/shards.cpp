// SPDX-License-Identifier: Apache-2.0
#include "cli/shards.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "cairn/array/stored_slices.hpp"
#include "cairn/base/error.hpp"
#include "cairn/sharding/sharding.hpp"

#include "base/internal/printable.hpp"
#include "cli/text.hpp"

namespace cairn::cli {
namespace {

constexpr std::size_t kMostShards = 16;  // Of an array, for people; `--json` has all.

void write_numbers(JsonWriter& json, std::string_view key, const Shape& numbers) {
  json.key(key).begin_list();
  for (const std::uint64_t number : numbers) {
    json.value(number);
  }
  json.end();
}

}  // namespace

bool is_divided(const ArrayEntry& array) {
  return array.parts != 1 || !array.layout.empty();
}

bool are_divided(const ArrayEntries& arrays) {
  for (const ArrayEntry& array : arrays) {
    if (is_divided(array)) {
      return true;
    }
  }
  return false;
}

std::string layout_text(const ArrayEntry& array) {
  if (array.layout.empty()) {
    return "-";
  }
  try {
    return printable(to_string(Sharding::from_json(array.layout, array.name)));
  } catch (const Error&) {
    return printable(array.layout);  // A program may have layouts of its own.
  }
}

std::optional<std::uint32_t> writer_of(const ItemMetadata& item, std::string_view file) {
  const auto found =
      std::lower_bound(item.files.begin(), item.files.end(), file,
                       [](const FileMetadata& each, std::string_view wanted) { return each.name < wanted; });
  return found == item.files.end() || found->name != file ? std::nullopt : found->rank;
}

std::string rank_text(std::optional<std::uint32_t> rank) {
  return rank ? fmt::to_string(*rank) : "-";
}

std::set<std::uint32_t> writers(const ItemMetadata& item) {
  std::set<std::uint32_t> ranks;
  for (const FileMetadata& file : item.files) {
    if (file.rank) {
      ranks.insert(*file.rank);
    }
  }
  return ranks;
}

std::set<std::uint32_t> writers(const ItemMetadata& item, const ArrayEntry& array) {
  std::set<std::uint32_t> ranks;
  for (std::size_t i = 0; array.stored != nullptr && i < array.stored->size(); ++i) {
    if (const auto rank = writer_of(item, array.stored->file(i))) {
      ranks.insert(*rank);
    }
  }
  return ranks;
}

std::string ranks_text(const std::set<std::uint32_t>& ranks) {
  std::string text;
  for (auto rank = ranks.begin(); rank != ranks.end();) {
    const std::uint32_t first = *rank;
    std::uint32_t last = first;
    while (++rank != ranks.end() && *rank == last + 1) {
      last = *rank;
    }
    text += text.empty() ? "" : ", ";
    text += first == last ? fmt::to_string(first) : fmt::format("{}-{}", first, last);
  }
  return text.empty() ? "-" : text;
}

void write_ranks(JsonWriter& json, const std::set<std::uint32_t>& ranks) {
  if (ranks.empty()) {
    return;
  }
  json.key("ranks").begin_list();
  for (const std::uint32_t rank : ranks) {
    json.value(std::uint64_t{rank});
  }
  json.end();
}

void write_shards(JsonWriter& json, const ItemMetadata& item, const ArrayEntry& array) {
  json.key("shards").begin_list();
  for (std::size_t i = 0; array.stored != nullptr && i < array.stored->size(); ++i) {
    const Box box = array.stored->box(i);
    const std::string_view file = array.stored->file(i);
    json.begin_object(JsonLayout::line);
    write_numbers(json, "offsets", box.offsets());
    write_numbers(json, "extents", box.extents());
    json.key("file").value(file);
    if (const auto rank = writer_of(item, file)) {
      json.key("rank").value(std::uint64_t{*rank});
    }
    json.end();
  }
  json.end();
}

void print_shards(const RowVisitor& row, const ItemMetadata& item, const ArrayEntry& array,
                  const std::string& title) {
  const std::size_t count = array.stored == nullptr ? 0 : array.stored->size();
  for (std::size_t i = 0; i < std::min(count, kMostShards); ++i) {
    const std::string_view file = array.stored->file(i);
    row({title, to_string(array.stored->box(i)), printable(file), rank_text(writer_of(item, file))});
  }
  if (count > kMostShards) {
    row({title, fmt::format("… and {} more", count_text(count - kMostShards)), "", ""});
  }
}

}  // namespace cairn::cli
