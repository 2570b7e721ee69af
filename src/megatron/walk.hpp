// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/megatron/state_dict.hpp"

#include "formats/internal/index.hpp"

namespace cairn::megatron::detail {

/// What goes through a dict asks this at each node, which has `depth` containers around it.
///
/// Errors: Errc::invalid_argument when there are more than kMaxTreeDepth.
void check_depth(std::size_t depth, std::string_view path);

/// The position in a list, or the parameter, that a key stands for; nothing for any other key.
[[nodiscard]] std::optional<std::size_t> number_of(std::string_view key);

/// Appends a key to a path for as long as it lives.
class PathStep {
 public:
  PathStep(std::string& path, std::string_view key) : path_(path), size_(path.size()) {
    formats::append_key(path, key);
  }
  PathStep(std::string& path, std::size_t position) : PathStep(path, std::to_string(position)) {}
  PathStep(const PathStep&) = delete;
  PathStep& operator=(const PathStep&) = delete;
  ~PathStep() { path_.resize(size_); }

 private:
  std::string& path_;
  std::size_t size_;
};

/// Calls visit(child) for each child of a container, with the path of the child in `path`.
template <class Node, class Visit>
void for_each_child(Node& node, std::string& path, const Visit& visit) {
  if (auto* children = node.map_if()) {
    for (auto& [key, child] : *children) {
      const PathStep step(path, key);
      visit(child);
    }
  } else if (auto* elements = node.list_if()) {
    for (std::size_t i = 0; i < elements->size(); ++i) {
      const PathStep step(path, i);
      visit((*elements)[i]);
    }
  }
}

/// Calls visit(path, leaf) for each leaf; empty containers are none.
template <class Node, class Visit>
void for_each_leaf(Node& node, std::string& path, std::size_t depth, const Visit& visit) {
  check_depth(depth, path);
  if (!node.is_container()) {
    visit(path, node);
    return;
  }
  for_each_child(node, path, [&](Node& child) { for_each_leaf(child, path, depth + 1, visit); });
}

template <class Node, class Visit>
void for_each_leaf(Node& dict, const Visit& visit) {
  std::string path;
  for_each_leaf(dict, path, 0, visit);
}

/// How messages call a node: "a map", "tensor 'w'", "a value of kind integer".
[[nodiscard]] std::string described(const StateDict& node);

}  // namespace cairn::megatron::detail
