// SPDX-License-Identifier: Apache-2.0
#include "tools/state_dict.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/handlers/renames.hpp"
#include "cairn/handlers/tree_leaf.hpp"

#include "base/internal/utf8.hpp"
#include "formats/internal/index.hpp"
#include "formats/internal/torch_writer.hpp"

namespace cairn::tools {
namespace {

[[noreturn]] void refuse(std::string_view path, std::string_view why) {
  throw Error(Errc::invalid_argument, fmt::format("'{}': {}", path, why));
}

/// Returns whether the kind of a value is one that a state dict has.
bool has_place(const DescribedValue& value) {
  using enum TreeKind;
  constexpr TreeKind kKinds[] = {null, boolean, integer, floating, string, bytes, map, list};
  return std::any_of(std::begin(kKinds), std::end(kKinds),
                     [&](TreeKind kind) { return value.kind == name(kind); });
}

void require_text(std::string_view path, std::string_view text, std::string_view what) {
  if (!is_valid_utf8(text)) {
    refuse(path, fmt::format("{} is not UTF-8, which a text of Python has to be", what));
  }
}

/// The paths below which something lies.
std::set<std::string, std::less<>> parents_of(const Description& description, const HeldArrays& held) {
  std::set<std::string, std::less<>> parents;
  const auto add = [&](std::string_view path) {
    while (!path.empty()) {
      const std::size_t end = path.rfind('/');
      path = path.substr(0, end == std::string_view::npos ? 0 : end);
      if (!parents.emplace(path).second) {
        return;  // Those above are known, too.
      }
    }
  };
  for (const ArrayEntry& array : description.arrays) {
    add(array.name);
  }
  for (const DescribedValue& value : description.values) {
    add(value.name);
  }
  for (const auto& [path, unused] : held) {
    add(path);
  }
  return parents;
}

StateNode* find_node(StateNode& root, std::string_view path) {
  StateNode* node = &root;
  for (const std::string& key : formats::split_path(path)) {
    const auto child = node->children.find(key);
    if (child == node->children.end()) {
      return nullptr;
    }
    node = &child->second;
  }
  return node;
}

/// Adds a leaf at the path that it has by now.
void add_leaf(StateNode& root, const std::string& path, StateNode leaf) {
  StateNode* node = &root;
  const auto refuse_below = [&](const StateNode& other) {
    refuse(leaf.path, fmt::format("it would lie at or below '{}', which is a leaf", other.path));
  };
  for (const std::string& key : formats::split_path(path)) {
    require_text(leaf.path, key, "a key");
    if (node->is_leaf()) {
      refuse_below(*node);
    }
    node = &node->children[key];
  }
  if (node->is_leaf()) {
    refuse_below(*node);
  }
  if (!node->children.empty()) {
    refuse(leaf.path, fmt::format("it would be both a leaf and a map: others lie below '{}'", path));
  }
  *node = std::move(leaf);
}

/// Returns whether the children of a node are the elements of a list, one and all from the first.
bool are_elements(const StateNode& node) {
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    if (!node.children.contains(fmt::to_string(i))) {
      return false;
    }
  }
  return true;
}

/// The leaves that are chosen. Arrays come first, in the order of the plan.
std::vector<StateNode> chosen_leaves(ExportPlan& plan, const Description& description,
                                     const std::set<std::string, std::less<>>& parents, ChosenPaths& chosen) {
  std::vector<StateNode> leaves;
  for (std::size_t i = 0; i < plan.arrays.size(); ++i) {
    if (const std::string why = formats::why_not_in_torch(plan.arrays[i].dtype, plan.arrays[i].shape);
        !why.empty()) {
      refuse(plan.arrays[i].path,
             why +
                 "; cast it by --dtype or ExportOptions::dtype, or choose others by --only or "
                 "ExportOptions::only");
    }
    StateNode leaf;
    leaf.array = i;
    leaf.path = plan.arrays[i].path;
    leaves.push_back(std::move(leaf));
  }
  std::set<std::string_view> without_place;  // An object that has none itself is described as null.
  for (const DescribedValue& one : description.left_out) {
    without_place.insert(one.name);
  }
  for (const DescribedValue& value : description.values) {
    if (without_place.contains(value.name)) {
      continue;
    }
    if (!has_place(value)) {
      if (chosen.leave_out(value.name, fmt::format("its kind is '{}'; `cairn reshard` makes trees of objects",
                                                   value.kind))) {
        plan.left_out.push_back(fmt::format("{} ({})", value.name, value.kind));
      }
    } else if (!parents.contains(value.name) && chosen.choose(value.name)) {
      StateNode leaf;
      leaf.value = &value;
      leaf.path = value.name;
      leaves.push_back(std::move(leaf));
    }
  }
  for (const DescribedPart& part : description.parts) {
    if (chosen.leave_out(part.name, part.kind)) {
      plan.left_out.push_back(fmt::format("{} ({})", part.name, part.kind));
    }
  }
  return leaves;
}

struct ValueWriter {
  formats::PickleWriter& pickle;
  const DescribedValue& value;

  void operator()(std::monostate) const {
    if (value.kind == name(TreeKind::map)) {
      pickle.begin_map().end_map();
    } else if (value.kind == name(TreeKind::list)) {
      pickle.begin_list().end_list();
    } else {
      pickle.none();
    }
  }
  void operator()(bool is_true) const { pickle.boolean(is_true); }
  void operator()(std::int64_t number) const { pickle.integer(number); }
  void operator()(std::uint64_t number) const { pickle.unsigned_integer(number); }
  void operator()(double number) const { pickle.real(number); }
  void operator()(const std::vector<std::byte>& bytes) const { pickle.bytes(bytes); }
  void operator()(const std::string& text) const {
    require_text(value.name, text, "its text");
    pickle.text(text);
  }
};

}  // namespace

StateNode state_dict(ExportPlan& plan, const Description& description, const HeldArrays& held,
                     const ExportOptions& options, ChosenPaths& chosen) {
  const auto parents = parents_of(description, held);
  std::vector<StateNode> leaves = chosen_leaves(plan, description, parents, chosen);
  chosen.require_used();
  if (leaves.empty()) {
    refuse(plan.checkpointable, "it holds nothing that a state dict can have");
  }
  std::vector<std::string> paths;
  for (const StateNode& leaf : leaves) {
    paths.push_back(leaf.path);
  }
  Renames::Use renames(options.rename);
  paths = renames.apply(paths);
  renames.require_used();
  StateNode root;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].array) {
      plan.arrays[*leaves[i].array].name = paths[i];
    }
    add_leaf(root, paths[i], std::move(leaves[i]));
  }
  for (const DescribedValue& value : description.values) {
    StateNode* const node = value.kind == name(TreeKind::list) ? find_node(root, value.name) : nullptr;
    if (node != nullptr && !node->is_leaf()) {
      node->is_list = are_elements(*node);
    }
  }
  return root;
}

void write_node(formats::PickleWriter& pickle, const StateNode& node,
                const std::function<void(std::size_t array)>& array) {
  if (node.array) {
    array(*node.array);
  } else if (node.value != nullptr) {
    std::visit(ValueWriter{pickle, *node.value}, node.value->value);
  } else if (node.is_list) {
    pickle.begin_list();
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      write_node(pickle, node.children.find(fmt::to_string(i))->second, array);
    }
    pickle.end_list();
  } else {
    pickle.begin_map();
    for (const auto& [key, child] : node.children) {
      pickle.text(key);
      write_node(pickle, child, array);
    }
    pickle.end_map();
  }
}

}  // namespace cairn::tools
