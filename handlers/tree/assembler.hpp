// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "containers.hpp"

namespace cairn::detail {

/// Puts a tree together from its leaves and their paths, which come from a file and may be anything.
///
/// Quickest when the paths come sorted. Errors of all methods: Errc::malformed_metadata, naming file and
/// path.
template <class Node>
class Assembler {
 public:
  /// `source` names the file in errors. All stored lists together may have `max_elements` elements: their length
  /// is a number in a file, and must not make us allocate more than that file could fill.
  Assembler(std::string source, std::size_t max_elements)
      : source_(std::move(source)), elements_left_(max_elements), open_{Open{&root_, 0}} {}

  /// Adds a leaf or an empty map.
  void add(std::string_view path, Node leaf) { slot(path) = std::move(leaf); }

  /// Adds a list of a file, all of whose elements must be added.
  void add_list(std::string_view path, std::uint64_t size) {
    if (size > elements_left_) {
      refuse(path, "more elements of lists than there are entries");
    }
    elements_left_ -= static_cast<std::size_t>(size);
    make_list(path, static_cast<std::size_t>(size), false);
  }

  /// Adds a list as the caller wants it, who may want more elements than any file has; those that are not added stay
  /// null.
  void add_wanted_list(std::string_view path, std::size_t size) { make_list(path, size, true); }

  /// The tree.
  Node finish() {
    if (!has_root_) {
      TreeAccess::make_map(root_);
    }
    for (const auto& [node, list] : lists_) {
      if (!list.may_have_gaps && list.count != list.is_filled.size()) {
        refuse(list.path, fmt::format("{} of {} elements of the list are missing",
                                      list.is_filled.size() - list.count, list.is_filled.size()));
      }
    }
    return std::move(root_);
  }

 private:
  /// A container on the way to the node that was added last: its path is the first `path_end` bytes of that
  /// path.
  struct Open {
    Node* node;
    std::size_t path_end;
  };

  struct Filled {
    std::string path;
    std::vector<bool> is_filled;
    bool may_have_gaps = false;
    std::size_t count = 0;
  };

  void make_list(std::string_view path, std::size_t size, bool may_have_gaps) {
    Node& node = slot(path);
    TreeAccess::make_list(node, size);
    lists_.emplace(&node, Filled{std::string(path), std::vector<bool>(size), may_have_gaps});
  }

  /// The new node for `path`.
  Node& slot(std::string_view path) {
    if (path.empty()) {
      if (std::exchange(has_root_, true)) {
        refuse(path, "the tree has a second root");
      }
      return root_;
    }
    if (!std::exchange(has_root_, true)) {
      TreeAccess::make_map(root_);
    }
    while (!contains(open_.back(), path)) {
      open_.pop_back();
    }
    std::size_t begin = open_.back().path_end == 0 ? 0 : open_.back().path_end + 1;
    for (;;) {
      const std::size_t end = path.find('/', begin);
      auto [child, is_new] = enter(*open_.back().node, path, path.substr(begin, end - begin));
      if (end == std::string_view::npos) {
        if (!is_new) {
          refuse(path, "the entry exists twice");
        }
        last_ = path;
        return *child;
      }
      if (is_new) {
        TreeAccess::make_map(*child);
      }
      open_.push_back({child, end});
      if (open_.size() > kMaxTreeDepth) {
        refuse(path, fmt::format("the tree is deeper than {} levels", kMaxTreeDepth));
      }
      begin = end + 1;
    }
  }

  /// Returns whether `path` lies below an open container.
  [[nodiscard]] bool contains(const Open& open, std::string_view path) const {
    const std::size_t end = open.path_end;
    return end == 0 || (path.size() > end && path[end] == '/' &&
                        path.substr(0, end) == std::string_view(last_).substr(0, end));
  }

  std::pair<Node*, bool> enter(Node& parent, std::string_view path, std::string_view escaped_key) {
    if (auto* children = TreeAccess::map(parent)) {
      const bool is_plain = escaped_key.find('~') == std::string_view::npos;
      std::string key = is_plain ? std::string(escaped_key) : unescape(path, escaped_key);
      const std::size_t before = children->size();
      const auto child = children->try_emplace(children->end(), std::move(key));
      return {&child->second, children->size() != before};
    }
    auto* elements = TreeAccess::list(parent);
    if (!elements) {
      refuse(path, "the entry lies below a leaf");
    }
    const std::size_t position = TreeAccess::parse_position(escaped_key, elements->size());
    if (position == TreeAccess::kNoPosition) {
      refuse(path, fmt::format("'{}' is not an element of a list of {}", escaped_key, elements->size()));
    }
    Filled& list = lists_.at(&parent);
    const bool is_new = !list.is_filled[position];
    list.is_filled[position] = true;
    list.count += is_new ? 1 : 0;
    return {&(*elements)[position], is_new};
  }

  std::string unescape(std::string_view path, std::string_view escaped_key) const {
    if (!formats::is_entry_path(escaped_key)) {
      refuse(path, "the name is not a path");
    }
    return formats::split_path(escaped_key).front();
  }

  [[noreturn]] void refuse(std::string_view path, std::string_view why) const {
    throw Error(Errc::malformed_metadata, fmt::format("{}: {}: {}", source_, shown(path), why));
  }

  std::string source_;
  std::size_t elements_left_;
  Node root_;
  bool has_root_ = false;
  std::string last_;
  std::vector<Open> open_;
  std::unordered_map<const Node*, Filled> lists_;
};

}  // namespace cairn::detail
