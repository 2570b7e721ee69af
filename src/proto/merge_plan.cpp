// SPDX-License-Identifier: Apache-2.0
#include "proto/merge_plan.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "proto/nesting.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::Descriptor;

constexpr std::size_t kMostTags = 2000;
constexpr int kMostNodeDepth = 1000;

class MergePlanner {
 public:
  MergePlanner(const Descriptor& root, std::size_t chunks) : root_(root), is_used_(chunks) {}

  MergePlan plan(const chunked::ChunkedMessage& tree) {
    visit(tree, Walk(root_, Errc::malformed_metadata), true, 0);
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

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(Errc::malformed_metadata, fmt::format("{}: {}", to_text(root_, path_), why));
  }

  void take_chunk(std::uint64_t chunk, const Walk& at, bool has_no_tags) {
    if (chunk >= is_used_.size()) {
      refuse(fmt::format("there is no chunk {} among {}", chunk, is_used_.size()));
    }
    if (is_used_[static_cast<std::size_t>(chunk)]) {
      refuse(fmt::format("chunk {} is used twice", chunk));
    }
    is_used_[static_cast<std::size_t>(chunk)] = true;
    plan_.steps.push_back({chunk, path_, at.type(), at.value(), has_no_tags});
  }

  void visit(const chunked::ChunkedMessage& node, const Walk& at, bool has_no_tags, int depth) {
    if (depth > kMostNodeDepth) {
      refuse(fmt::format("chunked messages lie in each other more than {} levels deep", kMostNodeDepth));
    }
    if (node.has_chunk_index()) {
      take_chunk(node.chunk_index(), at, has_no_tags);
    }
    std::vector<TaggedField> fields;
    fields.reserve(static_cast<std::size_t>(node.chunked_fields_size()));
    for (const chunked::ChunkedField& field : node.chunked_fields()) {
      TaggedField& tagged = fields.emplace_back();
      tagged.message = &field.message();
      tagged.chunk = field.message().chunk_index();
      for (const chunked::FieldIndex& tag : field.field_tag()) {
        tagged.tags.push_back(to_tag(tag));
      }
    }
    std::stable_sort(fields.begin(), fields.end(), [](const TaggedField& left, const TaggedField& right) {
      return std::tie(left.tags, left.chunk) < std::tie(right.tags, right.chunk);
    });
    for (TaggedField& field : fields) {
      Walk walk = at;
      const std::size_t length = path_.size();
      if (length + field.tags.size() > kMostTags) {
        refuse(fmt::format("a path has more than {} tags", kMostTags));
      }
      for (Tag& tag : field.tags) {
        path_.push_back(std::move(tag));
        walk.step(path_);
      }
      if (levels(path_) > kMostNesting) {
        refuse(fmt::format("messages lie in each other more than {} levels deep", kMostNesting));
      }
      if (walk.is_at_list()) {
        refuse(walk.value()->is_map() ? "the path ends without a key" : "the path ends without an index");
      }
      visit(*field.message, walk, field.tags.empty(), depth + 1);
      path_.resize(length);
    }
  }

  const Descriptor& root_;
  Tags path_;
  MergePlan plan_;
  std::vector<bool> is_used_;
};

}  // namespace

MergePlan plan_merge(const chunked::ChunkedMessage& tree, const Descriptor& root, std::size_t chunks) {
  return MergePlanner(root, chunks).plan(tree);
}

std::size_t keep_part(MergePlan& plan, const Tags& part, bool parts_are_whole) {
  std::size_t base = 0;
  for (const MergeStep& step : plan.steps) {
    if (parts_are_whole && begins_with(part, step.path)) {
      base = std::max(base, step.path.size());
    }
  }
  std::erase_if(plan.steps, [&](const MergeStep& step) {
    return !begins_with(step.path, part) && (step.path.size() < base || !begins_with(part, step.path));
  });
  for (MergeStep& step : plan.steps) {
    step.path.erase(step.path.begin(), step.path.begin() + static_cast<std::ptrdiff_t>(base));
  }
  return base;
}

}  // namespace cairn::proto
