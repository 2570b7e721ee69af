// SPDX-License-Identifier: Apache-2.0
#include "proto/tree.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <tuple>

#include "proto/internal/add_element.hpp"

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

chunked::ChunkedMessage make_tree(std::vector<PlacedChunk> chunks) {
  std::stable_sort(chunks.begin(), chunks.end(), [](const PlacedChunk& left, const PlacedChunk& right) {
    return std::tie(left.path, left.is_part, left.chunk) < std::tie(right.path, right.is_part, right.chunk);
  });
  chunked::ChunkedMessage root;
  fill_node(root, chunks, 0, 0);
  return root;
}

}  // namespace cairn::proto
