// SPDX-License-Identifier: Apache-2.0
#include "proto/tree.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/merger.hpp"

#include "proto/internal/add_element.hpp"
#include "proto/path_tree.hpp"

namespace cairn::proto {
namespace {

// Protobuf reads messages up to 100 levels deep, and a node takes two of them. Below so many nodes paths are whole.
constexpr int kMostNodes = 40;

using Chunks = std::span<const PlacedChunk>;

/// How many chunks at the begin of `chunks` agree with the first in their first `length` tags.
std::size_t count_equal(Chunks chunks, std::size_t length) {
  const Tags& first = chunks.front().path;
  const auto differs = [&first, length](const PlacedChunk& chunk) {
    return chunk.path.size() < length ||
           !std::equal(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(length),
                       chunk.path.begin());
  };
  return static_cast<std::size_t>(std::find_if(chunks.begin(), chunks.end(), differs) - chunks.begin());
}

chunked::ChunkedMessage& add_field(chunked::ChunkedMessage& node, const Tags& path, std::size_t begin,
                                   std::size_t end) {
  chunked::ChunkedField& field = add_element(*node.mutable_chunked_fields());
  for (std::size_t i = begin; i < end; ++i) {
    write_tag(path[i], add_element(*field.mutable_field_tag()));
  }
  return *field.mutable_message();
}

/// Fills a node with sorted chunks, whose first `length` tags lead to it.
void fill_node(chunked::ChunkedMessage& node, Chunks chunks, std::size_t length, int nodes) {
  while (!chunks.empty()) {
    const PlacedChunk& first = chunks.front();
    if (first.path.size() == length) {
      const bool is_base = !node.has_chunk_index() && (length > 0 || !first.is_part);
      (is_base ? node : add_field(node, first.path, 0, 0)).set_chunk_index(first.chunk);
      chunks = chunks.subspan(1);
      continue;
    }
    // Chunks at or below one value of a map share a node; else only those of one path do.
    const auto key =
        std::find_if(first.path.begin() + static_cast<std::ptrdiff_t>(length), first.path.end(), is_key);
    const auto to_key = static_cast<std::size_t>(key - first.path.begin()) + 1;
    const std::size_t of_value =
        nodes < kMostNodes && key != first.path.end() ? count_equal(chunks, to_key) : std::size_t{1};
    const std::size_t end = of_value > 1 ? to_key : first.path.size();
    std::size_t taken = of_value;
    while (of_value == 1 && taken < chunks.size() && chunks[taken].path == first.path) {
      ++taken;
    }
    fill_node(add_field(node, first.path, length, end), chunks.first(taken), end, nodes + 1);
    chunks = chunks.subspan(taken);
  }
}

}  // namespace

struct ChunkPaths::State {
  /// Notes the place of each chunk at and below a node.
  void visit(const chunked::ChunkedMessage& node, PathTree::Place place, int depth) {
    if (node.has_chunk_index()) {
      const std::uint64_t chunk = node.chunk_index();
      if (chunk >= places.size() || places[static_cast<std::size_t>(chunk)]) {
        throw Error(Errc::malformed_metadata,
                    fmt::format("{}: chunk {} of {} is not there, or is used twice",
                                to_text(whole, paths.path(place)), chunk, places.size()));
      }
      places[static_cast<std::size_t>(chunk)] = place;
    }
    for (const chunked::ChunkedField& field : node.chunked_fields()) {
      if (depth == kMostNodeDepth ||
          paths.depth(place) + static_cast<std::size_t>(field.field_tag_size()) > kMostTags) {
        throw Error(Errc::malformed_metadata,
                    fmt::format("chunks lie more than {} nodes or {} tags deep", kMostNodeDepth, kMostTags));
      }
      PathTree::Place below = place;
      for (const chunked::FieldIndex& tag : field.field_tag()) {
        below = paths.step(below, to_tag(tag));
      }
      visit(field.message(), below, depth + 1);
    }
  }

  const google::protobuf::Descriptor* whole;
  PathTree paths;
  std::vector<std::optional<PathTree::Place>> places;  // By the numbers of chunks.
};

ChunkPaths::ChunkPaths(const chunked::ChunkMetadata& stored, const google::protobuf::Descriptor* whole) {
  const auto state = std::make_shared<State>();
  state->whole = whole;
  state->places.resize(static_cast<std::size_t>(stored.chunks_size()));
  state->visit(stored.message(), PathTree::kRoot, 0);
  state_ = state;
}

std::optional<std::string> ChunkPaths::text(std::size_t chunk) const {
  const std::optional<PathTree::Place> place = state_->places.at(chunk);
  return place ? std::optional(path_text(state_->whole, state_->paths.path(*place))) : std::nullopt;
}

chunked::ChunkedMessage make_tree(std::vector<PlacedChunk> chunks) {
  std::stable_sort(chunks.begin(), chunks.end(), [](const PlacedChunk& left, const PlacedChunk& right) {
    return std::tie(left.path, left.is_part, left.chunk) < std::tie(right.path, right.is_part, right.chunk);
  });
  chunked::ChunkedMessage root;
  fill_node(root, chunks, 0, 0);
  return root;
}

}  // namespace cairn::proto
