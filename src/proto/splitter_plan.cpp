// SPDX-License-Identifier: Apache-2.0
#include "proto/splitter_plan.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <google/protobuf/unknown_field_set.h>

#include "cairn/base/error.hpp"

#include "proto/fields.hpp"
#include "proto/tree.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// Whether the first path at or behind `path` begins with it.
template <class Paths>
bool has_below(const Paths& paths, const Tags& path, const auto& path_of) {
  const auto found = paths.lower_bound(path);
  return found != paths.end() && begins_with(path_of(*found), path);
}

Tags field_path(const PlannedChunk& range) {
  Tags path = range.path;
  path.emplace_back(FieldNumber{static_cast<std::uint32_t>(range.field->number())});
  return path;
}

std::uint32_t to_position(std::size_t number) {
  return static_cast<std::uint32_t>(number);  // Protobuf counts elements with int.
}

}  // namespace

void append(SelectedItem item, Selection& page) {
  const bool is_plain = item.rest == nullptr && !item.blank;
  if (!page.items.empty() && is_plain) {
    SelectedItem& last = page.items.back();
    if (last.field == item.field && last.rest == nullptr && !last.blank && last.end == item.begin) {
      last.end = item.end;
      return;
    }
  }
  page.items.push_back(std::move(item));
}

std::string ComposableSplitter::Plan::text(const Tags& path) const {
  return to_text(*root.GetDescriptor(), path);
}

bool ComposableSplitter::Plan::touches(const Tags& path) const {
  return has_below(cuts, path, [](const Tags& of_cut) -> const Tags& { return of_cut; }) ||
         has_below(ranges, path, [](const auto& range) -> const Tags& { return range.first; });
}

bool ComposableSplitter::Plan::touches_below(const Tags& path) const {
  const auto found = cuts.upper_bound(path);
  const auto range = ranges.lower_bound(path);
  return (found != cuts.end() && begins_with(*found, path)) ||
         (range != ranges.end() && begins_with(range->first, path));
}

void ComposableSplitter::Plan::cut(const Tags& path) {
  Tags above;
  for (std::size_t length = 0; length <= path.size(); ++length) {
    above.assign(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(length));
    if (cuts.contains(above)) {
      throw Error(Errc::invalid_argument,
                  length == path.size()
                      ? fmt::format("'{}' is cut out twice", text(path))
                      : fmt::format("'{}' lies in '{}', which was cut out before", text(path), text(above)));
    }
  }
  cuts.insert(path);
}

void ComposableSplitter::Plan::add(PlannedChunk chunk, std::optional<std::size_t> position) {
  if (position && *position > planned.size()) {
    throw Error(Errc::invalid_argument, fmt::format("'{}': there is no position {} among {} chunks",
                                                    text(chunk.path), *position, planned.size()));
  }
  const std::size_t at = position.value_or(planned.size());
  planned.insert(planned.begin() + static_cast<std::ptrdiff_t>(at), std::move(chunk));
}

void ComposableSplitter::Plan::add_range(PlannedChunk range) {
  const Tags path = field_path(range);
  std::vector<Range>& others = ranges[path];
  const bool overlaps = std::any_of(others.begin(), others.end(), [&range](const Range& other) {
    return range.begin < other.end && other.begin < range.end;
  });
  if (overlaps) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}': elements [{}, {}) are cut out twice", text(path), range.begin, range.end));
  }
  others.push_back({range.begin, range.end});
  planned.push_back(std::move(range));
}

void ComposableSplitter::Plan::begin_again() {
  planned.clear();
  cuts.clear();
  ranges.clear();
  is_base_given = false;
  base_has_limit = true;
  base.reset();
  chunks.clear();
  tree.Clear();
}

/// Elements keep their order only when each range begins where the one before ends, and the last ends with the field.
void ComposableSplitter::Plan::check_ranges() const {
  std::map<Tags, std::pair<std::size_t, std::size_t>, TagsBefore>
      ends;  // Where the last range ends, and the field.
  for (const PlannedChunk& range : planned) {
    if (range.field == nullptr || range.field->is_map()) {
      continue;
    }
    const auto size =
        static_cast<std::size_t>(range.message->GetReflection()->FieldSize(*range.message, range.field));
    auto& [end, of_field] = ends.try_emplace(field_path(range), range.begin, size).first->second;
    if (end != range.begin) {
      throw Error(Errc::invalid_argument,
                  fmt::format("'{}': elements [{}, {}) do not begin where the range before ends",
                              text(field_path(range)), range.begin, range.end));
    }
    end = range.end;
  }
  for (const auto& [path, last] : ends) {
    if (last.first != last.second) {
      throw Error(Errc::invalid_argument,
                  fmt::format("'{}': elements [{}, {}) are in no range, and would come before those that are",
                              text(path), last.first, last.second));
    }
  }
}

void ComposableSplitter::Plan::select_elements(const FieldDescriptor& field, std::size_t begin,
                                               std::size_t end, Tags& path, Selection& page) const {
  const auto entries =
      field.is_map() ? std::make_shared<const MapEntries>(sorted_entries(*page.message, field)) : nullptr;
  const bool is_touched = touches(path);
  for (std::size_t i = begin; i < end; ++i) {
    SelectedItem item{&field, to_position(i), to_position(i + 1), entries, nullptr, false};
    if (!is_touched) {
      item.end = to_position(end);
      i = end - 1;
    } else {
      path.push_back(entries != nullptr ? to_tag((*entries)[i].key) : Tag(ElementIndex{i}));
      const bool is_away = is_cut(path);
      if (!is_away && touches(path)) {
        const Message& child = entries != nullptr ? (*entries)[i].value.GetMessageValue()
                                                  : message_of(*page.message, field, static_cast<int>(i));
        item.rest = std::make_shared<const Selection>(select(child, path));
      }
      path.pop_back();
      if (is_away && entries != nullptr) {
        continue;
      }
      // An element holds its place; a number keeps its value, which is set again.
      item.blank =
          is_away && (field.message_type() != nullptr || field.cpp_type() == FieldDescriptor::CPPTYPE_STRING);
    }
    append(std::move(item), page);
  }
}

void ComposableSplitter::Plan::select_field(const FieldDescriptor& field, Tags& path, Selection& page) const {
  if (!field.is_repeated()) {
    if (is_cut(path)) {
      return;
    }
    SelectedItem item{&field, 0, 1, nullptr, nullptr, false};
    if (touches(path)) {
      Selection rest = select(message_of(*page.message, field, {}), path);
      if (rest.items.empty()) {
        return;  // What was cut out of it makes it again.
      }
      item.rest = std::make_shared<const Selection>(std::move(rest));
    }
    append(std::move(item), page);
    return;
  }
  auto left_out = std::vector<Range>();
  if (const auto found = ranges.find(path); found != ranges.end()) {
    left_out = found->second;
    std::sort(left_out.begin(), left_out.end(),
              [](const Range& left, const Range& right) { return left.begin < right.begin; });
  }
  std::size_t begin = 0;
  for (const Range& range : left_out) {
    select_elements(field, begin, range.begin, path, page);
    begin = range.end;
  }
  const auto size = static_cast<std::size_t>(page.message->GetReflection()->FieldSize(*page.message, &field));
  select_elements(field, begin, size, path, page);
}

Selection ComposableSplitter::Plan::select(const Message& message, Tags& path) const {
  Selection page;
  page.message = &message;
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    path.emplace_back(FieldNumber{static_cast<std::uint32_t>(field->number())});
    select_field(*field, path, page);
    path.pop_back();
  }
  const int unknown = message.GetReflection()->GetUnknownFields(message).field_count();
  if (unknown > 0) {
    page.items.push_back({nullptr, 0, static_cast<std::uint32_t>(unknown), nullptr, nullptr, false});
  }
  measure(page, false);
  return page;
}

Chunk ComposableSplitter::Plan::make_chunk(const PlannedChunk& planned_chunk) const {
  if (planned_chunk.chunk) {
    return *planned_chunk.chunk;
  }
  if (!planned_chunk.is_part() && !touches_below(planned_chunk.path)) {
    return Chunk::borrow(*planned_chunk.message);
  }
  Tags path = planned_chunk.is_part() ? field_path(planned_chunk) : planned_chunk.path;
  Selection page;
  page.message = planned_chunk.message;
  if (planned_chunk.is_part()) {
    select_elements(*planned_chunk.field, planned_chunk.begin, planned_chunk.end, path, page);
    measure(page, false);
  } else {
    // Without what lies below; `path` itself is among the cuts.
    page = select(*planned_chunk.message, path);
  }
  return Chunk(std::make_shared<const Selection>(std::move(page)));
}

std::optional<Chunk> ComposableSplitter::Plan::make_base() const {
  if (is_base_given) {
    return base;
  }
  const bool is_divided = std::any_of(planned.begin(), planned.end(), [](const PlannedChunk& chunk) {
    return chunk.path.empty() && chunk.field == nullptr;
  });
  if (is_divided) {
    throw Error(Errc::invalid_argument,
                "a chunk is a part of the message itself, and set_base has not said what the base chunk is");
  }
  if (cuts.empty() && ranges.empty()) {
    return Chunk::borrow(root);
  }
  Tags path;
  Selection page = select(root, path);
  return page.items.empty() ? std::nullopt
                            : std::optional(Chunk(std::make_shared<const Selection>(std::move(page))));
}

void ComposableSplitter::Plan::finish() {
  check_ranges();
  std::vector<PlacedChunk> placed;
  const auto take = [&](Chunk chunk, const Tags& path, bool is_part, bool has_limit) {
    if (has_limit && chunk.type() != nullptr && chunk.size_bytes() > options.max_size) {
      throw Error(Errc::invalid_argument, fmt::format("'{}': a chunk of {} bytes is larger than max_size, {}",
                                                      text(path), chunk.size_bytes(), options.max_size));
    }
    placed.push_back({path, chunks.size(), is_part});
    chunks.push_back(std::move(chunk));
  };
  if (std::optional<Chunk> first = make_base()) {
    take(std::move(*first), {}, false, base_has_limit);
  }
  for (const PlannedChunk& chunk : planned) {
    take(make_chunk(chunk), chunk.path, chunk.is_part(), chunk.has_limit);
  }
  tree = make_tree(std::move(placed));
}

}  // namespace cairn::proto
