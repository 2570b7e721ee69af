// SPDX-License-Identifier: Apache-2.0
#include "cairn/megatron/state_dict.hpp"

#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "formats/internal/index.hpp"
#include "megatron/walk.hpp"

namespace cairn::megatron {
namespace {

/// Leaves are shared, containers are not.
template <class T>
std::shared_ptr<const T> copy_of(const std::shared_ptr<const T>& leaf) {
  return leaf;
}

template <class T>
std::unique_ptr<T> copy_of(const std::unique_ptr<T>& container) {
  return container ? std::make_unique<T>(*container) : nullptr;
}

Tree copy_of(const Tree& leaf) {
  return leaf;
}

Tree tree_at(const StateDict& node, std::string& path, std::size_t depth) {
  detail::check_depth(depth, path);
  if (const Tree* leaf = node.leaf_if<Tree>()) {
    return *leaf;
  }
  if (const auto* children = node.map_if()) {
    Tree::Map made;
    for (const auto& [key, child] : *children) {
      const detail::PathStep step(path, key);
      made.try_emplace(made.end(), key, tree_at(child, path, depth + 1));
    }
    return Tree::map(std::move(made));
  }
  if (!node.list_if()) {
    throw Error(Errc::type_mismatch,
                fmt::format("{} is {}, not a plain value", formats::shown(path), detail::described(node)));
  }
  Tree::List made;
  detail::for_each_child(node, path,
                         [&](const StateDict& child) { made.push_back(tree_at(child, path, depth + 1)); });
  return Tree::list(std::move(made));
}

}  // namespace

std::optional<std::size_t> detail::number_of(std::string_view key) {
  std::size_t number = 0;
  const char* end = key.data() + key.size();
  const auto [parsed_end, error] = std::from_chars(key.data(), end, number);
  return error == std::errc() && parsed_end == end ? std::optional(number) : std::nullopt;
}

void detail::check_depth(std::size_t depth, std::string_view path) {
  if (depth > kMaxTreeDepth) {
    throw Error(Errc::invalid_argument, fmt::format("the state dict is deeper than {} levels, at '{}…'",
                                                    kMaxTreeDepth, path.substr(0, 60)));
  }
}

std::string detail::described(const StateDict& node) {
  if (const auto* tensor = node.leaf_if<ShardedTensor>()) {
    return fmt::format("tensor '{}'", tensor->key);
  }
  if (const auto* object = node.leaf_if<ShardedObject>()) {
    return fmt::format("object '{}'", object->key);
  }
  if (const auto* factory = node.leaf_if<ShardedTensorFactory>()) {
    return fmt::format("factory '{}'", factory->key);
  }
  if (const Tree* leaf = node.leaf_if<Tree>()) {
    return fmt::format("a value of kind {}", name(leaf->kind()));
  }
  return node.map_if() ? "a map" : (node.list_if() ? "a list" : "a local object");
}

StateDict::StateDict(std::initializer_list<std::pair<const std::string, StateDict>> items) {
  Map& children = *map_if();
  for (const auto& [key, child] : items) {
    if (!children.try_emplace(key, child).second) {
      throw Error(Errc::invalid_argument, fmt::format("a state dict's key '{}' is given twice", key));
    }
  }
}

StateDict::StateDict(const StateDict& other)
    : value_(std::visit(
          [](const auto& held) {
            return Value(std::in_place_type<std::remove_cvref_t<decltype(held)>>, copy_of(held));
          },
          other.value_)) {}

StateDict StateDict::of_tree(Tree tree, std::size_t depth) {
  detail::check_depth(depth, {});
  StateDict made;
  if (tree.is_map()) {
    Map& children = *made.map_if();
    for (auto& [key, child] : tree.as_map()) {
      children.try_emplace(children.end(), key, of_tree(std::move(child), depth + 1));
    }
  } else if (tree.is_list()) {
    made = list();
    made.list_if()->reserve(tree.size());
    for (Tree& element : tree.as_list()) {
      made.list_if()->push_back(of_tree(std::move(element), depth + 1));
    }
  } else {
    made.value_.emplace<Tree>(std::move(tree));
  }
  return made;
}

StateDict StateDict::list(List elements) {
  StateDict made;
  made.value_.emplace<std::unique_ptr<List>>(std::make_unique<List>(std::move(elements)));
  return made;
}

StateDict& StateDict::operator[](std::string_view key) & {
  Map* children = map_if();
  if (!children) {
    throw Error(Errc::type_mismatch,
                fmt::format("{} has no key '{}': it is not a map", detail::described(*this), key));
  }
  const auto found = children->lower_bound(key);
  if (found != children->end() && found->first == key) {
    return found->second;
  }
  return children->try_emplace(found, std::string(key))->second;
}

const StateDict& StateDict::operator[](std::string_view key) const& {
  const Map* children = map_if();
  if (!children) {
    throw Error(Errc::type_mismatch,
                fmt::format("{} has no key '{}': it is not a map", detail::described(*this), key));
  }
  const auto found = children->find(key);
  if (found == children->end()) {
    throw Error(Errc::not_found, fmt::format("the map has no key '{}'", key));
  }
  return found->second;
}

const StateDict& StateDict::operator[](std::size_t i) const& {
  const List* elements = list_if();
  if (!elements) {
    throw Error(Errc::type_mismatch,
                fmt::format("{} has no elements: it is not a list", detail::described(*this)));
  }
  if (i >= elements->size()) {
    throw Error(Errc::not_found, fmt::format("the list has {} elements, no element {}", elements->size(), i));
  }
  return (*elements)[i];
}

const StateDict* StateDict::find(std::string_view path) const& {
  if (!formats::is_entry_path(path)) {
    return nullptr;
  }
  const StateDict* node = this;
  for (const std::string& key : formats::split_path(path)) {
    if (const Map* children = node->map_if()) {
      const auto found = children->find(key);
      node = found == children->end() ? nullptr : &found->second;
    } else {
      const List* elements = node->list_if();
      const auto position = detail::number_of(key);
      node = elements && position && *position < elements->size() ? &(*elements)[*position] : nullptr;
    }
    if (!node) {
      return nullptr;
    }
  }
  return node;
}

const StateDict& StateDict::at(std::string_view path) const& {
  if (const StateDict* found = find(path)) {
    return *found;
  }
  throw Error(Errc::not_found, fmt::format("the state dict has no '{}'", path));
}

const StateDict::Map* StateDict::map_if() const& noexcept {
  static const Map kEmpty;
  const auto* held = std::get_if<std::unique_ptr<Map>>(&value_);
  return held ? (*held ? held->get() : &kEmpty) : nullptr;
}

StateDict::Map* StateDict::map_if() & {
  auto* held = std::get_if<std::unique_ptr<Map>>(&value_);
  if (held && !*held) {
    *held = std::make_unique<Map>();
  }
  return held ? held->get() : nullptr;
}

const StateDict::List* StateDict::list_if() const& noexcept {
  const auto* held = std::get_if<std::unique_ptr<List>>(&value_);
  return held ? held->get() : nullptr;
}

Tree StateDict::tree() const {
  std::string path;
  return tree_at(*this, path, 0);
}

}  // namespace cairn::megatron
