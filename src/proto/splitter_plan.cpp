// SPDX-License-Identifier: Apache-2.0
#include "proto/splitter_plan.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "proto/nesting.hpp"
#include "proto/tree.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

Tags field_path(const PlannedChunk& range) {
  Tags path = range.path;
  path.emplace_back(FieldNumber{static_cast<std::uint32_t>(range.field->number())});
  return path;
}

}  // namespace

/// Leaves out of the pages of a message what was cut out of it.
class ComposableSplitter::Plan::Leftovers final : public Pager {
 public:
  Leftovers(const Plan& plan, Tags path)
      : Pager(std::move(path), std::numeric_limits<std::uint64_t>::max()), plan_(plan) {}

  Selection page(const Message& message, std::uint64_t bytes) {
    return std::move(pages(message, bytes).front());
  }

 private:
  [[nodiscard]] std::uint64_t asked_from(const FieldDescriptor& /*field*/) const override {
    return plan_.touches(path(), true) ? 0 : kNever;
  }

  Kept keep(const PageValue& value) override {
    Kept kept;
    if (plan_.cuts.contains(path())) {
      // An element holds its place; a number keeps its value, which is set again.
      const bool is_number = value.message == nullptr && value.text == nullptr;
      kept.what = !std::holds_alternative<ElementIndex>(path().back()) ? Kept::What::nothing
                  : is_number                                          ? Kept::What::whole
                                                                       : Kept::What::blank;
    } else if (plan_.touches(path(), true)) {
      kept.rest = std::make_shared<const Selection>(page(*value.message, value.bytes));
    }
    return kept;
  }

  [[nodiscard]] std::vector<Range> ranges(std::size_t count) const override {
    std::vector<Range> left;
    std::size_t begin = 0;
    if (const auto found = plan_.ranges.find(path()); found != plan_.ranges.end()) {
      std::vector<Range> cut = found->second;
      std::sort(cut.begin(), cut.end(), [](Range one, Range other) { return one.begin < other.begin; });
      for (const Range& range : cut) {
        left.push_back({begin, range.begin});
        begin = range.end;
      }
    }
    left.push_back({begin, count});
    return left;
  }

  const Plan& plan_;
};

void ComposableSplitter::Plan::refuse(const Tags& path, std::string_view why) const {
  throw Error(Errc::invalid_argument, fmt::format("'{}': {}", to_text(root.GetDescriptor(), path), why));
}

bool ComposableSplitter::Plan::touches(const Tags& path, bool itself) const {
  const auto found = itself ? cuts.lower_bound(path) : cuts.upper_bound(path);
  const auto range = ranges.lower_bound(path);
  return (found != cuts.end() && begins_with(*found, path)) ||
         (range != ranges.end() && begins_with(range->first, path));
}

void ComposableSplitter::Plan::check_untouched(const Tags& path) const {
  if (touches(path, true)) {
    refuse(path, "a part of it was cut out before");
  }
}

void ComposableSplitter::Plan::check_building() const {
  if (!is_building) {
    throw Error(Errc::invalid_argument,
                "chunks are added while split calls build_chunks; here they would be lost");
  }
}

void ComposableSplitter::Plan::check_nesting(const Message& message, std::uint64_t bytes,
                                             const Tags& path) const {
  if (!nests_at_most(kMostNesting - levels(path), message, bytes)) {
    refuse(path, fmt::format("messages lie in each other more than {} levels deep", kMostNesting));
  }
}

/// Checks that no path of less than `length` tags above was cut out.
void ComposableSplitter::Plan::check_not_below_a_cut(const Tags& path, std::size_t length) const {
  for (std::size_t i = 0; i < length; ++i) {
    const Tags above(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(i));
    if (cuts.contains(above)) {
      refuse(path,
             fmt::format("it lies in '{}', which was cut out before", to_text(root.GetDescriptor(), above)));
    }
  }
}

void ComposableSplitter::Plan::cut(const Tags& path) {
  check_not_below_a_cut(path, path.size());
  if (!cuts.insert(path).second) {
    refuse(path, "it is cut out twice");
  }
}

void ComposableSplitter::Plan::add(PlannedChunk chunk, std::optional<std::size_t> position) {
  check_building();
  const std::size_t at = position.value_or(planned.size());
  if (at > planned.size()) {
    refuse(chunk.path, fmt::format("there is no position {} among {} chunks", at, planned.size()));
  }
  planned.insert(planned.begin() + static_cast<std::ptrdiff_t>(at), std::move(chunk));
}

void ComposableSplitter::Plan::add_range(PlannedChunk range) {
  check_building();
  const Tags path = field_path(range);
  const auto [begin, end] = range.range;
  check_not_below_a_cut(path, path.size());
  for (const Range& other : ranges[path]) {
    if (begin < other.end && other.begin < end) {
      refuse(path, fmt::format("elements [{}, {}) are cut out twice", begin, end));
    }
  }
  ranges[path].push_back(range.range);
  planned.push_back(std::move(range));
}

const MapEntries& ComposableSplitter::Plan::entries_of(const Message& message, const FieldDescriptor& field) {
  const auto [known, is_new] = maps.try_emplace({&message, &field});
  MapEntries& entries = known->second;
  // A message that is gone may have lain at the same place.
  const auto is_there = [&](const MapEntry& entry) { return find_listed(message, field, entry) != nullptr; };
  if (is_new || entries.listed != message.GetReflection()->FieldSize(message, &field) ||
      (!entries.sorted.empty() && !(is_there(entries.sorted.front()) && is_there(entries.sorted.back())))) {
    entries = proto::entries_of(message, field);
  }
  return entries;
}

void ComposableSplitter::Plan::begin_again() {
  maps.clear();
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
  std::map<Tags, Range> rests;  // Of each field, behind the last range.
  for (const PlannedChunk& chunk : planned) {
    if (!chunk.is_part() || chunk.field->is_map()) {
      continue;
    }
    const int size = chunk.message->GetReflection()->FieldSize(*chunk.message, chunk.field);
    const Tags path = field_path(chunk);
    Range& rest =
        rests.try_emplace(path, Range{chunk.range.begin, static_cast<std::size_t>(size)}).first->second;
    if (rest.begin != chunk.range.begin) {
      refuse(path, fmt::format("elements [{}, {}) do not begin where the range before ends",
                               chunk.range.begin, chunk.range.end));
    }
    rest.begin = chunk.range.end;
  }
  for (const auto& [path, rest] : rests) {
    if (rest.begin != rest.end) {
      refuse(path, fmt::format("elements [{}, {}) are in no range, and would come before those that are",
                               rest.begin, rest.end));
    }
  }
}

Chunk ComposableSplitter::Plan::make_chunk(const PlannedChunk& planned_chunk) const {
  const auto& [path, chunk, message, field, range, has_limit] = planned_chunk;
  if (chunk) {
    return *chunk;
  }
  Leftovers leftovers(*this, path);
  if (field != nullptr) {
    return Chunk(std::make_shared<const Selection>(leftovers.page_of(*message, *field, range)));
  }
  // `path` itself is among the cuts.
  return touches(path, false)
             ? Chunk(std::make_shared<const Selection>(leftovers.page(*message, message->ByteSizeLong())))
             : Chunk::borrow(*message);
}

std::optional<Chunk> ComposableSplitter::Plan::make_base() const {
  if (is_base_given) {
    return base;
  }
  const bool is_divided = std::any_of(planned.begin(), planned.end(), [](const PlannedChunk& chunk) {
    return chunk.path.empty() && !chunk.is_part();
  });
  if (is_divided) {
    throw Error(Errc::invalid_argument,
                "a chunk is a part of the message itself, and set_base has not said what the base chunk is");
  }
  if (cuts.empty() && ranges.empty()) {
    return Chunk::borrow(root);
  }
  Selection page = Leftovers(*this, {}).page(root, root_bytes);
  return page.items.empty() ? std::nullopt
                            : std::optional(Chunk(std::make_shared<const Selection>(std::move(page))));
}

void ComposableSplitter::Plan::finish() {
  // Protobuf keeps sizes in an int, and serialises nothing larger.
  constexpr std::uint64_t kMostOfProtobuf = std::numeric_limits<std::int32_t>::max() - 1;
  check_ranges();
  std::vector<PlacedChunk> placed;
  const auto take = [&](Chunk chunk, const Tags& path, bool is_part, bool has_limit) {
    if (chunk.type() != nullptr && chunk.size_bytes() > (has_limit ? options.max_size : kMostOfProtobuf)) {
      refuse(path, has_limit ? fmt::format("a chunk of {} bytes is larger than max_size, {}",
                                           chunk.size_bytes(), options.max_size)
                             : fmt::format("a page of {} bytes is too large for protobuf; it has a single "
                                           "key or unknown field",
                                           chunk.size_bytes()));
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
  maps.clear();
}

}  // namespace cairn::proto
