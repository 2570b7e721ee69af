// SPDX-License-Identifier: Apache-2.0
#include "proto/path_tree.hpp"

#include <limits>
#include <new>
#include <utility>
#include <variant>

namespace cairn::proto {

PathTree::Place PathTree::step(Place from, Tag tag) {
  if (nodes_.size() > std::numeric_limits<Place>::max()) {
    throw std::bad_alloc();
  }
  const auto [found, is_new] = found_.emplace(Step{from, std::move(tag)}, static_cast<Place>(nodes_.size()));
  if (is_new) {
    const bool is_level = !std::holds_alternative<ElementIndex>(found->first.tag);
    nodes_.push_back({&found->first, nodes_[from].depth + 1, nodes_[from].levels + (is_level ? 1 : 0)});
  }
  return found->second;
}

Tags PathTree::path(Place place, Place from) const {
  Tags tags(depth(place) - depth(from));
  for (auto last = tags.rbegin(); last != tags.rend(); ++last) {
    *last = tag(place);
    place = above(place);
  }
  return tags;
}

}  // namespace cairn::proto
