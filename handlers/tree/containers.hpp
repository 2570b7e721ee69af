// SPDX-License-Identifier: Apache-2.0
#pragma once

// What Tree and AbstractTree have in common: copying, comparing, destroying and visiting nested containers.
// None of it recurses without a limit, because a tree may be deeper than the stack.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/handlers/tree.hpp"

#include "formats/internal/index.hpp"

namespace cairn::detail {

/// The keys of a path that a program has written. A key with a '~' that is no escape is that key, as is an empty one.
[[nodiscard]] std::vector<std::string> keys_of(std::string_view path);
/// The same path as entries of an index have it.
[[nodiscard]] std::string entry_path(std::string_view path);

/// The containers inside a node; null when the node is none of the kind.
struct TreeAccess {
  /// `Held` as const as `Node` is.
  template <class Node, class Held>
  using AsConstAs = std::conditional_t<std::is_const_v<Node>, const Held, Held>;

  template <class Held, class Node>
  static AsConstAs<Node, Held>* container(Node& node) noexcept {
    auto* held = std::get_if<std::unique_ptr<Held>>(&node.value_);
    return held ? held->get() : nullptr;
  }

  /// The leaf inside a node; null when it is another one.
  template <class Leaf, class Node>
  static const Leaf* leaf(const Node& node) noexcept {
    if constexpr (std::is_same_v<Leaf, std::string> && std::is_same_v<Node, Tree>) {
      const auto* text = std::get_if<TreeText>(&node.value_);
      return text != nullptr ? &text->text : nullptr;
    } else {
      return std::get_if<Leaf>(&node.value_);
    }
  }

  template <class Node>
  static auto* map(Node& node) noexcept {
    return container<typename Node::Map>(node);
  }

  template <class Node>
  static auto* list(Node& node) noexcept {
    return container<typename Node::List>(node);
  }

  template <class Node>
  static typename Node::Map& make_map(Node& node) {
    return *node.value_.template emplace<std::unique_ptr<typename Node::Map>>(
        std::make_unique<typename Node::Map>());
  }

  template <class Node>
  static typename Node::List& make_list(Node& node, std::size_t size = 0) {
    return *node.value_.template emplace<std::unique_ptr<typename Node::List>>(
        std::make_unique<typename Node::List>(size));
  }

  template <class Node>
  static bool is_container(const Node& node) noexcept {
    return map(node) || list(node);
  }

  /// Moves the containers among the children of `node` to `pending`.
  template <class Node>
  static void take_containers(Node& node, typename Node::List& pending) {
    const auto take = [&pending](Node& child) {
      if (is_container(child)) {
        pending.push_back(std::move(child));
      }
    };
    if (auto* children = map(node)) {
      for (auto& [key, child] : *children) {
        take(child);
      }
    } else if (auto* elements = list(node)) {
      std::for_each(elements->begin(), elements->end(), take);
    }
  }

  /// Leaves no container inside a container, so that destroying `node` recurses once.
  template <class Node>
  static void flatten(Node& node) {
    typename Node::List pending;
    take_containers(node, pending);
    while (!pending.empty()) {
      Node next = std::move(pending.back());
      pending.pop_back();
      take_containers(next, pending);
    }
  }

  /// Copies the containers of `from` into `to`; `copy_one(leaf, to)` copies the rest. The two may be of different
  /// kinds.
  template <class From, class To, class CopyLeaf>
  static void clone(const From& from, To& to, CopyLeaf copy_one) {
    std::vector<std::pair<const From*, To*>> pending;
    const auto copy = [&](const From& source, To& target) {
      if (is_container(source)) {
        pending.emplace_back(&source, &target);
      } else {
        copy_one(source, target);
      }
    };
    copy(from, to);
    while (!pending.empty()) {
      const auto [source, target] = pending.back();
      pending.pop_back();
      if (const auto* children = map(*source)) {
        auto& made = make_map(*target);
        for (const auto& [key, child] : *children) {
          copy(child, made.try_emplace(made.end(), key)->second);
        }
      } else {
        const auto& elements = *list(*source);
        auto& made = make_list(*target, elements.size());
        for (std::size_t i = 0; i < elements.size(); ++i) {
          copy(elements[i], made[i]);
        }
      }
    }
  }

  /// For clone, when both are of one kind.
  template <class Node>
  static void copy_leaf(const Node& from, Node& to) {
    std::visit(
        [&to](const auto& leaf) {
          if constexpr (std::copyable<std::remove_cvref_t<decltype(leaf)>>) {
            to.value_ = leaf;
          }
        },
        from.value_);
  }

  /// The child of that key; a new one where there is none.
  template <class Map>
  static typename Map::mapped_type& child_or_new(Map& children, std::string_view key) {
    const auto found = children.lower_bound(key);
    if (found != children.end() && found->first == key) {
      return found->second;
    }
    return children.try_emplace(found, std::string(key))->second;
  }

  template <class Node, class SameLeaf>
  static bool is_equal(const Node& a, const Node& b, SameLeaf same_leaf) {
    std::vector<std::pair<const Node*, const Node*>> pending = {{&a, &b}};
    while (!pending.empty()) {
      const auto [left, right] = pending.back();
      pending.pop_back();
      const auto *left_map = map(*left), *right_map = map(*right);
      const auto *left_list = list(*left), *right_list = list(*right);
      if (left_map && right_map && left_map->size() == right_map->size()) {
        for (auto i = left_map->begin(), j = right_map->begin(); i != left_map->end(); ++i, ++j) {
          if (i->first != j->first) {
            return false;
          }
          pending.emplace_back(&i->second, &j->second);
        }
      } else if (left_list && right_list && left_list->size() == right_list->size()) {
        for (std::size_t i = 0; i < left_list->size(); ++i) {
          pending.emplace_back(&(*left_list)[i], &(*right_list)[i]);
        }
      } else if (is_container(*left) || is_container(*right) || !same_leaf(*left, *right)) {
        return false;
      }
    }
    return true;
  }

  /// Asks for the memory of some children that come next, and returns where those end. Children of a map lie anywhere:
  /// waiting for one after the other is most of the time of a visit.
  template <class Iterator>
  static Iterator fetch_ahead(Iterator next, Iterator end) noexcept {
    constexpr int kChildren = 16;
    constexpr std::size_t kLineBytes = 64;
    for (int i = 0; i < kChildren && next != end; ++i, ++next) {
      __builtin_prefetch(next->first.data());
      const auto* child = reinterpret_cast<const char*>(&next->second);
      for (std::size_t at = 0; at < sizeof(next->second); at += kLineBytes) {
        __builtin_prefetch(child + at);
      }
    }
    return next;
  }

  /// Calls visit(path, node) for all but maps that have children. `path` is that of `node`, and is so again
  /// afterwards.
  template <class Node, class Visit>
  static void visit(Node& node, std::string& path, std::size_t depth, Visit& visit_node) {
    if (depth > kMaxTreeDepth) {
      throw Error(Errc::invalid_argument, fmt::format("the tree is deeper than {} levels, at '{}…'",
                                                      kMaxTreeDepth, std::string_view(path).substr(0, 60)));
    }
    const std::size_t end = path.size();
    auto* children = map(node);
    if (!children || children->empty()) {
      visit_node(path, node);
    }
    if (children) {
      for (auto next = children->begin(); next != children->end();) {
        const auto last = fetch_ahead(next, children->end());
        for (; next != last; ++next) {
          formats::append_key(path, next->first);
          visit(next->second, path, depth + 1, visit_node);
          path.resize(end);
        }
      }
    } else if (auto* elements = list(node)) {
      for (std::size_t i = 0; i < elements->size(); ++i) {
        formats::append_key(path, fmt::format_int(i).str());
        visit((*elements)[i], path, depth + 1, visit_node);
        path.resize(end);
      }
    }
  }

  /// The node below `root` with that path, or null.
  template <class Node>
  static Node* find(Node& root, std::string_view path) {
    Node* node = &root;
    if (!path.empty() &&
        path.find('~') == std::string_view::npos) {  // Keys as they are, which need no copies.
      for (bool has_more = true; has_more && node;) {
        const std::size_t slash = path.find('/');
        node = child(*node, path.substr(0, slash));
        has_more = slash != std::string_view::npos;
        path.remove_prefix(has_more ? slash + 1 : path.size());
      }
      return node;
    }
    for (const std::string& key : keys_of(path)) {
      node = child(*node, key);
      if (!node) {
        return nullptr;
      }
    }
    return node;
  }

  /// The child of a map by key, or of a list by decimal number, or null.
  template <class Node>
  static Node* child(Node& node, std::string_view key) {
    if (auto* children = map(node)) {
      const auto found = children->find(key);
      return found == children->end() ? nullptr : &found->second;
    }
    auto* elements = list(node);
    const auto position = elements ? parse_position(key, elements->size()) : kNoPosition;
    return position == kNoPosition ? nullptr : &(*elements)[position];
  }

  static constexpr std::size_t kNoPosition = static_cast<std::size_t>(-1);

  /// The number that a list's key stands for, when it is below `size` and written without leading zeros.
  static std::size_t parse_position(std::string_view key, std::size_t size) noexcept {
    constexpr std::size_t kMostDigits = 18;
    if (key.empty() || key.size() > kMostDigits || (key.size() > 1 && key[0] == '0')) {
      return kNoPosition;
    }
    std::size_t position = 0;
    for (const char digit : key) {
      if (digit < '0' || digit > '9') {
        return kNoPosition;
      }
      position = position * 10 + static_cast<std::size_t>(digit - '0');
    }
    return position < size ? position : kNoPosition;
  }
};

using formats::shown;

}  // namespace cairn::detail
