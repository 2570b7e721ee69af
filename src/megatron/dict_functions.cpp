// SPDX-License-Identifier: Apache-2.0
#include "cairn/megatron/dict_functions.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "formats/internal/index.hpp"
#include "megatron/factories.hpp"
#include "megatron/walk.hpp"

namespace cairn::megatron {
namespace {

bool is_empty(const StateDict& container) {
  const auto* children = container.map_if();
  return children ? children->empty() : container.list_if()->empty();
}

class Extraction {
 public:
  Extraction(const Predicate& matches, bool lists_as_maps)
      : matches_(matches), lists_as_maps_(lists_as_maps) {}

  std::pair<StateDict, StateDict> divide(const StateDict& container, std::size_t depth) const {
    detail::check_depth(depth, {});
    std::pair<StateDict, StateDict> halves;
    const auto* elements = container.list_if();
    if (!elements) {
      for (const auto& [key, child] : *container.map_if()) {
        divide_child(child, key, false, halves, depth);
      }
      return halves;
    }
    if (!lists_as_maps_) {
      halves = {StateDict::list(), StateDict::list()};
    }
    for (std::size_t i = 0; i < elements->size(); ++i) {
      divide_child((*elements)[i], std::to_string(i), true, halves, depth);
    }
    return halves;
  }

 private:
  static void add(StateDict& container, const std::string& key, StateDict child) {
    if (auto* elements = container.list_if()) {
      elements->push_back(std::move(child));
    } else {
      container.map_if()->try_emplace(key, std::move(child));
    }
  }

  void divide_child(const StateDict& child, const std::string& key, bool is_element,
                    std::pair<StateDict, StateDict>& halves, std::size_t depth) const {
    if (child.is_container() && !is_empty(child)) {
      auto [matching, others] = divide(child, depth + 1);
      if (!is_empty(matching)) {
        add(halves.first, key, std::move(matching));
      }
      if (!is_empty(others)) {
        add(halves.second, key, std::move(others));
      }
      return;
    }
    const bool is_asked_about = is_element || !child.is_container();
    add(is_asked_about && matches_(child) ? halves.first : halves.second, key, child);
  }

  const Predicate& matches_;
  bool lists_as_maps_;
};

[[noreturn]] void refuse_lists(std::string_view path, std::size_t left, std::size_t right) {
  throw Error(Errc::structure_mismatch, fmt::format("{}: lists of {} and {} elements cannot be merged",
                                                    formats::shown(path), left, right));
}

void merge_at(StateDict& into, StateDict from, std::string& path, std::size_t depth) {
  detail::check_depth(depth, path);
  if (into.map_if() && from.map_if()) {
    for (auto& [key, child] : *from.map_if()) {
      const detail::PathStep step(path, key);
      const auto [found, is_new] = into.map_if()->try_emplace(key, std::move(child));
      if (!is_new) {
        merge_at(found->second, std::move(child), path, depth + 1);
      }
    }
  } else if (into.list_if() && from.list_if()) {
    auto& elements = *from.list_if();
    if (into.list_if()->size() != elements.size()) {
      refuse_lists(path, into.list_if()->size(), elements.size());
    }
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const detail::PathStep step(path, i);
      merge_at(into[i], std::move(elements[i]), path, depth + 1);
    }
  } else {
    throw Error(Errc::structure_mismatch,
                fmt::format("{}: both have something there: {} and {}", formats::shown(path),
                            detail::described(into), detail::described(from)));
  }
}

/// Of tensors, objects and factories the data, of others the value.
bool is_same_leaf(const StateDict& left, const StateDict& right) {
  const auto same_data = [&]<class T>(const T* one) {
    const T* other = right.leaf_if<T>();
    return other && one->data == other->data;
  };
  if (const auto* tensor = left.leaf_if<ShardedTensor>()) {
    return same_data(tensor);
  }
  if (const auto* object = left.leaf_if<ShardedObject>()) {
    return same_data(object);
  }
  if (const auto* factory = left.leaf_if<ShardedTensorFactory>()) {
    return same_data(factory);
  }
  if (const auto* local = left.leaf_if<LocalNonpersistentObject>()) {
    const auto* other = right.leaf_if<LocalNonpersistentObject>();
    return other && local->value == other->value;
  }
  const Tree* leaf = left.leaf_if<Tree>();
  const Tree* other = right.leaf_if<Tree>();
  return leaf && other && *leaf == *other;
}

void diff_at(const StateDict& left, const StateDict& right, std::string& path, std::size_t depth,
             Differences& differences) {
  detail::check_depth(depth, path);
  const auto add_only = [&](std::vector<std::string>& only, const auto& key) {
    const detail::PathStep step(path, key);
    only.push_back(path);
  };
  if (left.map_if() && right.map_if()) {
    for (const auto& [key, child] : *left.map_if()) {
      const auto found = right.map_if()->find(key);
      if (found == right.map_if()->end()) {
        add_only(differences.only_left, key);
        continue;
      }
      const detail::PathStep step(path, key);
      diff_at(child, found->second, path, depth + 1, differences);
    }
    for (const auto& [key, child] : *right.map_if()) {
      if (!left.map_if()->contains(key)) {
        add_only(differences.only_right, key);
      }
    }
  } else if (left.list_if() && right.list_if()) {
    const std::size_t sizes[] = {left.list_if()->size(), right.list_if()->size()};
    for (std::size_t i = 0; i < std::max(sizes[0], sizes[1]); ++i) {
      if (i >= sizes[0] || i >= sizes[1]) {
        add_only(i >= sizes[1] ? differences.only_left : differences.only_right, i);
        continue;
      }
      const detail::PathStep step(path, i);
      diff_at(left[i], right[i], path, depth + 1, differences);
    }
  } else if (!is_same_leaf(left, right)) {
    differences.mismatched.push_back(path);
  }
}

StateDict map_at(const StateDict& node, const std::function<StateDict(const StateDict&)>& work,
                 std::size_t depth) {
  detail::check_depth(depth, {});
  if (const auto* children = node.map_if()) {
    StateDict made;
    for (const auto& [key, child] : *children) {
      made.map_if()->try_emplace(made.map_if()->end(), key, map_at(child, work, depth + 1));
    }
    return made;
  }
  if (const auto* elements = node.list_if()) {
    StateDict::List made;
    made.reserve(elements->size());
    for (const StateDict& element : *elements) {
      made.push_back(map_at(element, work, depth + 1));
    }
    return StateDict::list(std::move(made));
  }
  return work(node);
}

StateDict built_by(const ShardedTensorFactory& factory, std::string_view path) {
  const std::string where = fmt::format("{}: its factory", formats::shown(path));
  if (!factory.data || !factory.build) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} '{}' has no {}", where, factory.key, factory.data ? "build" : "data"));
  }
  std::exception_ptr failure;
  try {
    StateDict built = factory.build(factory.key, *factory.data, factory.replica_id, factory.flattened_range);
    if (built.leaf_if<ShardedTensorFactory>()) {
      throw Error(Errc::invalid_argument, "it builds another factory in its own place");
    }
    return built;
  } catch (...) {
    failure = with_context(std::current_exception(), where);
  }
  std::rethrow_exception(failure);
}

void build_at(StateDict& node, std::string& path, std::size_t depth, detail::Merges& merges) {
  detail::check_depth(depth, path);
  if (const auto* factory = node.leaf_if<ShardedTensorFactory>()) {
    merges.emplace(path, factory->merge);
    node = built_by(*factory, path);
  }
  detail::for_each_child(node, path, [&](StateDict& child) { build_at(child, path, depth + 1, merges); });
}

void merge_factories_at(Tree& loaded, const StateDict& factories, std::string& path, std::size_t depth) {
  detail::check_depth(depth, path);
  if (const auto* factory = factories.leaf_if<ShardedTensorFactory>()) {
    loaded = detail::merged(factory->merge, std::move(loaded), path);
    return;
  }
  if (factories.list_if() && (!loaded.is_list() || loaded.size() != factories.list_if()->size())) {
    refuse_lists(path, loaded.size(), factories.list_if()->size());
  }
  detail::for_each_child(factories, path, [&](const StateDict& child) {
    const std::string key = path.substr(path.rfind('/') + 1);  // As paths have it.
    if (!loaded.contains(key)) {
      throw Error(Errc::structure_mismatch,
                  fmt::format("{}: nothing was loaded there, where a factory merges", formats::shown(path)));
    }
    merge_factories_at(loaded.at(key), child, path, depth + 1);
  });
}

/// Replaces the keys of all tensors, objects and factories.
void replace_keys(StateDict& dict, const std::function<std::string(const std::string& key)>& key_for) {
  detail::for_each_leaf(dict, [&](std::string_view, StateDict& leaf) {
    const auto replace = [&]<class T>(const T* held) {
      T copy = *held;
      copy.key = key_for(copy.key);
      leaf = std::move(copy);
    };
    if (const auto* tensor = leaf.leaf_if<ShardedTensor>()) {
      replace(tensor);
    } else if (const auto* object = leaf.leaf_if<ShardedObject>()) {
      replace(object);
    } else if (const auto* factory = leaf.leaf_if<ShardedTensorFactory>()) {
      replace(factory);
    }
  });
}

}  // namespace

Tree detail::merged(const ShardedTensorFactory::Merge& merge, Tree built, std::string_view path) {
  const std::string where = fmt::format("{}: its factory", formats::shown(path));
  if (!merge) {
    throw Error(Errc::invalid_argument, where + " has no merge");
  }
  std::exception_ptr failure;
  try {
    return merge(std::move(built));
  } catch (...) {
    failure = with_context(std::current_exception(), where);
  }
  std::rethrow_exception(failure);
}

void detail::build_factories(StateDict& dict, Merges& merges) {
  std::string path;
  build_at(dict, path, 0, merges);
}

std::pair<StateDict, StateDict> extract_matching_values(const StateDict& dict, const Predicate& matches,
                                                        bool lists_as_maps) {
  if (!dict.is_container()) {
    throw Error(Errc::type_mismatch,
                fmt::format("{} is not a map or a list of leaves", detail::described(dict)));
  }
  return Extraction(matches, lists_as_maps).divide(dict, 0);
}

void merge(StateDict& into, StateDict from) {
  std::string path;
  merge_at(into, std::move(from), path, 0);
}

Differences diff(const StateDict& left, const StateDict& right) {
  Differences differences;
  std::string path;
  diff_at(left, right, path, 0, differences);
  return differences;
}

StateDict map(const StateDict& dict, const std::function<StateDict(const StateDict& leaf)>& work) {
  return map_at(dict, work, 0);
}

void apply_factories(StateDict& dict) {
  detail::Merges merges;
  detail::build_factories(dict, merges);
}

void apply_factory_merges(Tree& loaded, const StateDict& factories) {
  std::string path;
  merge_factories_at(loaded, factories, path, 0);
}

void add_prefix_for_sharding(StateDict& dict, std::string_view prefix) {
  replace_keys(dict, [&](const std::string& key) { return std::string(prefix) + key; });
}

void replace_prefix_for_sharding(StateDict& dict, std::string_view old_prefix, std::string_view new_prefix) {
  StateDict changed = dict;
  replace_keys(changed, [&](const std::string& key) {
    if (!key.starts_with(old_prefix)) {
      throw Error(Errc::invalid_argument, fmt::format("'{}' does not begin with '{}'", key, old_prefix));
    }
    return std::string(new_prefix) + key.substr(old_prefix.size());
  });
  dict = std::move(changed);
}

void apply_prefix_mapping(StateDict& dict, const std::vector<std::pair<std::string, std::string>>& mapping) {
  replace_keys(dict, [&](const std::string& key) {
    for (const auto& [old_prefix, new_prefix] : mapping) {
      if (key.starts_with(old_prefix)) {
        return new_prefix + key.substr(old_prefix.size());
      }
    }
    return key;
  });
}

}  // namespace cairn::megatron
