// SPDX-License-Identifier: Apache-2.0
#include "proto/merge_plan.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/merger.hpp"

#include "proto/nesting.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::Descriptor;

/// Most tags of a path and most nodes in each other.
constexpr std::size_t kMostTags = 2000;
constexpr int kMostNodeDepth = 1000;

class MergePlanner {
 public:
  MergePlanner(const Descriptor* root, std::size_t chunks, std::span<const Tag> part)
      : root_(root), part_(part), is_used_(chunks) {}

  MergePlan plan(const chunked::ChunkedMessage& tree) {
    visit(tree, PathTree::kRoot, Walk(root_, Errc::malformed_metadata), true, 0, true);
    for (std::size_t i = 0; i < is_used_.size(); ++i) {
      if (!is_used_[i]) {
        plan_.unused_chunks.push_back(i);
      }
    }
    return std::move(plan_);
  }

 private:
  struct TaggedField {
    Tags tags;
    std::uint64_t chunk = 0;
    const chunked::ChunkedMessage* message = nullptr;
  };

  [[noreturn]] void refuse(PathTree::Place place, const std::string& why) const {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: {}", to_text(root_, plan_.paths.path(place)), why));
  }

  void take_chunk(std::uint64_t chunk, PathTree::Place place, const Walk& at, bool has_no_tags,
                  bool is_wanted) {
    if (chunk >= is_used_.size()) {
      refuse(place, fmt::format("there is no chunk {} among {}", chunk, is_used_.size()));
    }
    if (is_used_[static_cast<std::size_t>(chunk)]) {
      refuse(place, fmt::format("chunk {} is used twice", chunk));
    }
    is_used_[static_cast<std::size_t>(chunk)] = true;
    if (is_wanted) {
      plan_.steps.push_back({chunk, place, at.type(), at.value(), has_no_tags});
    }
  }

  /// Checks what is not wanted, and does no more with it; the last place that is wanted stands for it.
  void visit(const chunked::ChunkedMessage& node, PathTree::Place place, const Walk& at, bool has_no_tags,
             int depth, bool is_wanted) {
    if (depth > kMostNodeDepth) {
      refuse(place,
             fmt::format("chunked messages lie in each other more than {} levels deep", kMostNodeDepth));
    }
    if (node.has_chunk_index()) {
      take_chunk(node.chunk_index(), place, at, has_no_tags, is_wanted);
    }
    std::vector<TaggedField> fields;
    fields.reserve(static_cast<std::size_t>(node.chunked_fields_size()));
    for (const chunked::ChunkedField& field : node.chunked_fields()) {
      TaggedField& tagged = fields.emplace_back();
      tagged.message = &field.message();
      tagged.chunk = field.message().chunk_index();
      tagged.tags.reserve(static_cast<std::size_t>(field.field_tag_size()));
      for (const chunked::FieldIndex& tag : field.field_tag()) {
        tagged.tags.push_back(to_tag(tag));
      }
    }
    const auto comes_first = [](const TaggedField& left, const TaggedField& right) {
      return std::tie(left.tags, left.chunk) < std::tie(right.tags, right.chunk);
    };
    if (!std::is_sorted(fields.begin(), fields.end(), comes_first)) {
      std::stable_sort(fields.begin(), fields.end(), comes_first);
    }
    for (TaggedField& field : fields) {
      visit_field(field, place, at, depth, is_wanted);
    }
  }

  void visit_field(TaggedField& field, PathTree::Place place, Walk walk, int depth, bool is_wanted) {
    if (plan_.paths.depth(place) + field.tags.size() > kMostTags) {
      refuse(place, fmt::format("a path has more than {} tags", kMostTags));
    }
    for (Tag& tag : field.tags) {
      const std::optional<std::string> problem = walk.take(tag);
      const std::size_t length = plan_.paths.depth(place);
      is_wanted = is_wanted && (problem || length >= part_.size() || tag == part_[length]);
      if (is_wanted) {
        place = plan_.paths.step(place, std::move(tag));
      }
      if (problem) {
        refuse(place, *problem);
      }
    }
    if (plan_.paths.levels(place) > kMostNesting) {
      refuse(place, fmt::format("messages lie in each other more than {} levels deep", kMostNesting));
    }
    if (walk.is_at_list()) {
      refuse(place,
             walk.value()->is_map() ? "the path ends without a key" : "the path ends without an index");
    }
    visit(*field.message, place, walk, field.tags.empty(), depth + 1, is_wanted);
  }

  const Descriptor* root_;
  const std::span<const Tag> part_;
  MergePlan plan_;
  std::vector<bool> is_used_;
};

}  // namespace

MergePlan plan_merge(const chunked::ChunkedMessage& tree, const Descriptor* root, std::size_t chunks,
                     std::span<const Tag> part) {
  return MergePlanner(root, chunks, part).plan(tree);
}

void begin_at_last_chunk(MergePlan& plan, std::size_t part_tags) {
  const PathTree& paths = plan.paths;
  for (const MergeStep& step : plan.steps) {
    const std::size_t depth = paths.depth(step.place);
    if (depth <= part_tags && depth > paths.depth(plan.root)) {
      plan.root = step.place;
    }
  }
  std::erase_if(plan.steps,
                [&](const MergeStep& step) { return paths.depth(step.place) < paths.depth(plan.root); });
}

struct ChunkPaths::State {
  const Descriptor* whole;
  PathTree paths;
  std::vector<std::optional<PathTree::Place>> places;  // By the numbers of chunks.
};

ChunkPaths::ChunkPaths(const chunked::ChunkMetadata& stored, const Descriptor* whole) {
  const auto chunks = static_cast<std::size_t>(stored.chunks_size());
  MergePlan plan = plan_merge(stored.message(), nullptr, chunks);
  std::vector<std::optional<PathTree::Place>> places(chunks);
  for (const MergeStep& step : plan.steps) {
    places[static_cast<std::size_t>(step.chunk)] = step.place;
  }
  state_ = std::make_shared<State>(State{whole, std::move(plan.paths), std::move(places)});
}

std::optional<std::string> ChunkPaths::text(std::size_t chunk) const {
  const std::optional<PathTree::Place> place = state_->places.at(chunk);
  return place ? std::optional(path_text(state_->whole, state_->paths.path(*place))) : std::nullopt;
}

}  // namespace cairn::proto
