// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/tree.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "containers.hpp"

namespace cairn {
namespace {

using detail::shown;
using detail::TreeAccess;

std::string shown_node(std::string_view path) {
  return path.empty() ? "the node" : shown(path);
}

}  // namespace

std::vector<std::string> detail::keys_of(std::string_view path) {
  if (formats::is_entry_path(path)) {
    return formats::split_path(path);
  }
  std::vector<std::string> keys;
  for (bool has_more = true; has_more;) {
    const std::size_t slash = path.find('/');
    const std::string_view key = path.substr(0, slash);
    const bool is_escaped = !key.empty() && formats::is_entry_path(key);
    keys.push_back(is_escaped ? formats::split_path(key).front() : std::string(key));
    has_more = slash != std::string_view::npos;
    path.remove_prefix(has_more ? slash + 1 : path.size());
  }
  return keys;
}

std::string detail::entry_path(std::string_view path) {
  std::string entry;
  for (const std::string& key : keys_of(path)) {
    formats::append_key(entry, key);
  }
  return entry;
}

std::string_view name(TreeKind kind) noexcept {
  static constexpr std::string_view kNames[] = {"null",  "boolean", "integer",       "floating", "string",
                                                "bytes", "array",   "sharded array", "map",      "list"};
  const auto number = static_cast<std::size_t>(kind);
  return number < std::size(kNames) ? kNames[number] : "?";
}

TreeItem::TreeItem(std::initializer_list<TreeItem> items) : tree_(items) {
  is_pair_ = items.size() == 2 && tree_.is_list() && tree_[0].is_string();
}

Tree::Tree() noexcept = default;

Tree::Tree(std::initializer_list<TreeItem> items) {
  if (!std::all_of(items.begin(), items.end(), [](const TreeItem& item) { return item.is_pair_; })) {
    *this = list(items);
    return;
  }
  Map& children = TreeAccess::make_map(*this);
  for (const TreeItem& item : items) {
    List& pair = item.tree_.as_list();
    auto key = pair[0].as<std::string>();
    const auto [child, is_new] = children.try_emplace(std::move(key), std::move(pair[1]));
    if (!is_new) {
      throw Error(Errc::invalid_argument, fmt::format("a tree's key '{}' is given twice", child->first));
    }
  }
}

Tree::Tree(const Tree& other) {
  TreeAccess::clone(other, *this, TreeAccess::copy_leaf<Tree>);
}

// Not inline: g++ 12 warns of frees that cannot happen when it sees through the swap of two variants.
Tree::Tree(Tree&& other) noexcept : value_(std::exchange(other.value_, std::monostate())) {}

Tree& Tree::operator=(Tree other) noexcept {
  value_.swap(other.value_);
  return *this;
}

Tree::~Tree() {
  TreeAccess::flatten(*this);
}

Tree Tree::map(Map children) {
  Tree tree;
  TreeAccess::make_map(tree) = std::move(children);
  return tree;
}

Tree Tree::list(List elements) {
  Tree tree;
  TreeAccess::make_list(tree) = std::move(elements);
  return tree;
}

Tree Tree::list(std::initializer_list<TreeItem> items) {
  Tree tree;
  List& elements = TreeAccess::make_list(tree);
  elements.reserve(items.size());
  for (const TreeItem& item : items) {
    elements.push_back(std::move(item.tree_));
  }
  return tree;
}

Tree Tree::random_state(std::string state) {
  Tree tree;
  tree.value_ = detail::TreeText{std::move(state), true};
  return tree;
}

TreeKind Tree::kind() const noexcept {
  static constexpr TreeKind kKinds[] = {TreeKind::null,    TreeKind::boolean,  TreeKind::integer,
                                        TreeKind::integer, TreeKind::floating, TreeKind::string,
                                        TreeKind::bytes,   TreeKind::array,    TreeKind::sharded_array,
                                        TreeKind::map,     TreeKind::list};
  static_assert(std::size(kKinds) == std::variant_size_v<Value>);
  return kKinds[value_.index()];
}

std::size_t Tree::size() const noexcept {
  if (const Map* children = TreeAccess::map(*this)) {
    return children->size();
  }
  const List* elements = TreeAccess::list(*this);
  return elements ? elements->size() : 0;
}

Tree& Tree::operator[](std::string_view key) & {
  if (is_null()) {
    TreeAccess::make_map(*this);
  }
  return TreeAccess::child_or_new(as_map(), key);
}

const Tree& Tree::operator[](std::string_view key) const& {
  const Map& children = as_map();
  const auto found = children.find(key);
  if (found == children.end()) {
    throw Error(Errc::not_found, fmt::format("the map has no key '{}'", key));
  }
  return found->second;
}

const Tree& Tree::operator[](std::size_t i) const& {
  const List& elements = as_list();
  if (i >= elements.size()) {
    throw Error(Errc::not_found, fmt::format("the list has {} elements, no element {}", elements.size(), i));
  }
  return elements[i];
}

const Tree* Tree::find(std::string_view path) const& {
  return TreeAccess::find(*this, path);
}

const Tree& Tree::at(std::string_view path) const& {
  if (const Tree* found = find(path)) {
    return *found;
  }
  throw Error(Errc::not_found, fmt::format("the tree has no '{}'", path));
}

const Tree::Map& Tree::as_map() const& {
  if (const Map* children = TreeAccess::map(*this)) {
    return *children;
  }
  throw_kind(TreeKind::map, {});
}

const Tree::List& Tree::as_list() const& {
  if (const List* elements = TreeAccess::list(*this)) {
    return *elements;
  }
  throw_kind(TreeKind::list, {});
}

void Tree::push_back(Tree element) {
  if (is_null()) {
    TreeAccess::make_list(*this);
  }
  as_list().push_back(std::move(element));
}

bool operator==(const Tree& a, const Tree& b) {
  return TreeAccess::is_equal(a, b, [](const Tree& left, const Tree& right) {
    const double* left_double = std::get_if<double>(&left.value_);
    const double* right_double = std::get_if<double>(&right.value_);
    if (left_double && right_double) {
      return std::bit_cast<std::uint64_t>(*left_double) == std::bit_cast<std::uint64_t>(*right_double);
    }
    return left.value_ == right.value_;
  });
}

const Array& Tree::array(std::string_view path, DType dtype) const {
  const auto& held = require<Array>(TreeKind::array, path);
  if (held.dtype() != dtype) {
    throw Error(Errc::dtype_mismatch,
                fmt::format("{} is an array of {}, not of {}; a load that asks for {} casts it",
                            shown_node(path), held.dtype(), dtype, dtype));
  }
  return held;
}

void Tree::throw_kind(TreeKind wanted, std::string_view path) const {
  throw Error(Errc::type_mismatch,
              fmt::format("{} is of kind {}, not {}", shown_node(path), name(kind()), name(wanted)));
}

void visit_leaves(const Tree& tree,
                  const std::function<void(std::string_view path, const Tree& leaf)>& visitor) {
  std::string path;
  TreeAccess::visit(tree, path, 0, visitor);
}

bool OwnsItsMemory<Tree>::check(const Tree& tree) {
  bool owns_all = true;
  const auto look_at = [&owns_all](const Array& array) {
    owns_all = owns_all && (array.owner() != nullptr || array.byte_count() == 0);
  };
  visit_leaves(tree, [&look_at](std::string_view, const Tree& leaf) {
    if (const Array* array = leaf.array_if()) {
      look_at(*array);
    } else if (const ShardedArray* sharded = leaf.sharded_array_if()) {
      for (const Shard& shard : sharded->shards()) {
        look_at(shard.data);
      }
    }
  });
  return owns_all;
}

}  // namespace cairn
