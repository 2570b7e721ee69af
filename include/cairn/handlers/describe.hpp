// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <boost/describe/class.hpp>  // For users: BOOST_DESCRIBE_STRUCT and BOOST_DESCRIBE_CLASS.
#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>

#include "cairn/array/dtype.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/handlers/tree_form.hpp"
#include "cairn/handlers/tree_nested.hpp"

namespace cairn {

/// A struct or class whose members BOOST_DESCRIBE_STRUCT or BOOST_DESCRIBE_CLASS has listed.
template <class T>
concept Described = std::is_class_v<T> && boost::describe::has_describe_members<T>::value;

namespace detail {

template <class T>
using PublicMembers =
    boost::describe::describe_members<T, boost::describe::mod_public | boost::describe::mod_inherited>;

/// Errors: Errc::structure_mismatch, listing the `keys` that the map lacks and its other keys.
void check_keys(const Tree& map, std::span<const std::string_view> keys, std::string_view path);

}  // namespace detail

/// Described structs are maps: members become keys, in the order of their names.
template <Described T>
struct TreeForm<T> {
  /// Members are read one by one: see `into`.
  static constexpr bool kReadsInPlace = true;

  static Tree make(T& object) { return make_map(object); }

  static Tree make(const T& object) { return make_map(object); }

  /// Moves what can be moved, and takes over the members that become arrays.
  static Tree make(T&& object) { return make_map(std::move(object)); }

  static void read(const Tree& tree, T& object, TreeReader& at) {
    constexpr std::size_t kCount = boost::mp11::mp_size<detail::PublicMembers<T>>::value;
    std::array<std::string_view, kCount> names;
    std::size_t next = 0;
    boost::mp11::mp_for_each<detail::PublicMembers<T>>([&](auto member) { names[next++] = member.name; });
    detail::check_keys(tree, names, at.path);
    boost::mp11::mp_for_each<detail::PublicMembers<T>>([&](auto member) {
      const detail::PathKey key(at.path, member.name);
      detail::read_value(tree[std::string_view(member.name)], object.*member.pointer, at);
    });
  }

 private:
  template <class Object>
  static Tree make_map(Object&& object) {
    Tree tree = Tree::map();
    boost::mp11::mp_for_each<detail::PublicMembers<T>>([&](auto member) {
      using Member = std::remove_cvref_t<decltype(object.*member.pointer)>;
      static_assert(TreeValue<Member>,
                    "a member's type has no form in a tree: describe it with BOOST_DESCRIBE_STRUCT");
      tree.as_map().try_emplace(member.name, detail::element_of<Object>(object.*member.pointer));
    });
    return tree;
  }
};

/// A described struct, or a container of such, as a tree; see TreeValue for what else may be in it.
///
/// Vectors, std::arrays and spans of numbers become arrays that borrow the members; enums integers; an empty
/// optional null; maps maps; other vectors and std::arrays, pairs and tuples lists; described structs maps.
/// Ownership: an lvalue must stay valid, and its vectors in place, as long as the tree is used. A temporary is taken over.
/// Example:   save("run/100", to_tree(simulation));
template <class T>
requires TreeValue<T>
[[nodiscard]] Tree to_tree(T&& object) {
  return Tree(std::forward<T>(object));
}

/// Fills a value from a tree that to_tree made of its like. The elements of arrays are copied, except those
/// of members of type Array, which share them with the tree; spans must have the stored length. Numbers are taken as Tree::as
/// takes them.
///
/// Errors: Errc::structure_mismatch when members and keys differ; Errc::type_mismatch, Errc::unsafe_cast, Errc::dtype_mismatch,
///         Errc::shape_mismatch; each names the path. Members before the culprit have then been filled.
template <class T>
requires TreeValue<T>
void from_tree(const Tree& tree, T& object, Narrowing narrowing = Narrowing::refused) {
  TreeReader at({}, narrowing);
  detail::read_value(tree, object, at);
}

}  // namespace cairn
