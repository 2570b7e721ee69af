// SPDX-License-Identifier: Apache-2.0
#pragma once

// Containers of the standard library as trees. Part of cairn/handlers/tree.hpp.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cairn/handlers/tree_form.hpp"
#include "cairn/handlers/tree_leaf.hpp"
#include "cairn/handlers/tree_node.hpp"
#include "cairn/handlers/tree_read.hpp"  // What makes trees is used with what reads them.

namespace cairn {

namespace detail {

/// Sorts the elements of a container that has no order, so that all ranks have the same.
void sort_elements(Tree::List& elements);

/// An element of a container, as that was given: moved from where that is a temporary.
template <class Container, class Element>
decltype(auto) element_of(Element& element) {
  if constexpr (std::is_lvalue_reference_v<Container>) {
    return static_cast<Element&>(element);
  } else {
    return static_cast<Element&&>(element);
  }
}

/// Characters and booleans are not integers of a tree, but enums of them are.
template <class E>
auto number_of_enum(E value) {
  using Number = std::conditional_t<std::is_signed_v<std::underlying_type_t<E>>, std::int64_t, std::uint64_t>;
  return static_cast<Number>(value);
}

template <class K>
std::string text_of_key(const K& key) {
  if constexpr (std::same_as<K, std::string>) {
    return key;
  } else if constexpr (std::is_enum_v<K>) {
    return std::to_string(number_of_enum(key));
  } else {
    return std::to_string(key);
  }
}

}  // namespace detail

template <class T>
Tree Tree::nest(T&& value) {
  using Plain = std::remove_cvref_t<T>;
  static_assert(detail::ComesBack<Plain>::value,
                "this could be saved, but not loaded: a type in it is const, or has no default constructor");
  if constexpr (detail::HasTreeForm<Plain>) {
    return TreeForm<Plain>::make(std::forward<T>(value));
  } else if constexpr (std::is_enum_v<Plain>) {
    return detail::number_of_enum(value);
  } else if constexpr (detail::kIsOptional<Plain>) {
    return value ? Tree(*std::forward<T>(value)) : Tree();
  } else if constexpr (detail::kIsMap<Plain>) {
    Tree tree = map();
    for (auto& [key, child] : value) {
      tree.as_map().try_emplace(detail::text_of_key(key), detail::element_of<T>(child));
    }
    return tree;
  } else if constexpr (detail::kIsTuple<Plain>) {
    Tree tree = list();
    std::apply(
        [&tree](auto&&... parts) { (tree.push_back(Tree(std::forward<decltype(parts)>(parts))), ...); },
        std::forward<T>(value));
    return tree;
  } else if constexpr (detail::kIsSet<Plain>) {
    return nest_set(std::forward<T>(value));
  } else {
    Tree tree = list();
    if constexpr (requires { std::size(value); }) {
      tree.as_list().reserve(std::size(value));
    }
    if constexpr (detail::kIsBits<Plain>) {
      for (const bool element : value) {
        tree.push_back(element);
      }
    } else {
      for (auto& element : value) {
        tree.push_back(Tree(detail::element_of<T>(element)));
      }
    }
    return tree;
  }
}

template <class T>
Tree Tree::nest_set(T&& value) {
  Tree tree = list();
  tree.as_list().reserve(value.size());
  if constexpr (std::is_lvalue_reference_v<T>) {
    for (const auto& element : value) {
      tree.push_back(Tree(element));
    }
  } else {
    while (!value.empty()) {
      tree.push_back(Tree(std::move(value.extract(value.begin()).value())));
    }
  }
  if constexpr (detail::kIsUnorderedSet<std::remove_cvref_t<T>>) {
    detail::sort_elements(tree.as_list());
  }
  return tree;
}

}  // namespace cairn
