// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <boost/describe/class.hpp>  // For users: BOOST_DESCRIBE_STRUCT and BOOST_DESCRIBE_CLASS.
#include <boost/describe/members.hpp>
#include <boost/describe/modifiers.hpp>
#include <boost/mp11/algorithm.hpp>

#include "cairn/array/dtype.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/handlers/tree_form.hpp"
#include "cairn/handlers/tree_values.hpp"

namespace cairn {

/// A struct or class whose members BOOST_DESCRIBE_STRUCT or BOOST_DESCRIBE_CLASS has listed.
template <class T>
concept Described = std::is_class_v<T> && boost::describe::has_describe_members<T>::value;

namespace detail {

/// Every member that is listed, whatever its access, and those of the bases that are. One that is hidden by another
/// is a member, too.
template <class T>
using ListedMembers =
    boost::describe::describe_members<T, boost::describe::mod_any_access | boost::describe::mod_inherited |
                                             boost::describe::mod_hidden>;

template <class T>
inline constexpr std::size_t kMemberCount = boost::mp11::mp_size<ListedMembers<T>>::value;

template <class T>
constexpr std::array<std::string_view, kMemberCount<T>> member_names() {
  std::array<std::string_view, kMemberCount<T>> names;
  std::size_t next = 0;
  boost::mp11::mp_for_each<ListedMembers<T>>([&](auto member) { names[next++] = member.name; });
  return names;
}

template <class T>
constexpr bool has_distinct_members() {
  std::array<std::string_view, kMemberCount<T>> names = member_names<T>();
  std::sort(names.begin(), names.end());
  return std::adjacent_find(names.begin(), names.end()) == names.end();
}

template <class Pointer>
struct MemberType;

template <class Owner, class Member>
struct MemberType<Member Owner::*> {
  using type = Member;
};

/// A member of an object, also one of a private base.
template <class Object, class Owner, class Member>
auto& member_of(Object& object, Member Owner::*pointer) {
  static_assert(std::is_base_of_v<Owner, Object>);
  using Base = std::conditional_t<std::is_const_v<Object>, const Owner&, Owner&>;
  return Base(object).*pointer;  // This cast alone reaches a base that is not public.
}

/// Notes the `keys` that the map lacks, and its other keys, where `at` takes differences.
///
/// Errors: Errc::structure_mismatch, listing both, where it does not.
void check_keys(const Tree& map, std::span<const std::string_view> keys, const TreeReader& at);

}  // namespace detail

/// Described structs are maps: members become keys, in the order of their names. These are all members that are
/// listed: public, protected and private ones, and those of the bases that are listed.
template <Described T>
struct TreeForm<T> {
  /// Members are read one by one: see `into`.
  static constexpr bool kReadsInPlace = true;

  static Tree make(T& object) { return make_map(object); }

  static Tree make(const T& object) { return make_map(object); }

  /// Moves what can be moved, and takes over the members that become arrays.
  static Tree make(T&& object) { return make_map(std::move(object)); }

  static void read(const Tree& tree, T& object, TreeReader& at) {
    check_names();
    static constexpr auto kNames = detail::member_names<T>();
    detail::check_keys(tree, kNames, at);
    boost::mp11::mp_for_each<detail::ListedMembers<T>>([&](auto member) {
      const auto stored = tree.as_map().find(std::string_view(member.name));
      if (stored != tree.as_map().end()) {
        const detail::PathKey key(at.path, member.name);
        detail::read_value(stored->second, detail::member_of(object, member.pointer), at);
      }
    });
  }

 private:
  static constexpr void check_names() {
    static_assert(detail::has_distinct_members<T>(),
                  "two listed members have one name, those of two bases or one that hides another: rename "
                  "one, leave it out of the description, or specialise cairn::TreeForm for the class");
  }

  template <class Object>
  static Tree make_map(Object&& object) {
    check_names();
    Tree tree = Tree::map();
    boost::mp11::mp_for_each<detail::ListedMembers<T>>([&](auto member) {
      auto& part = detail::member_of(object, member.pointer);
      using Member = typename detail::MemberType<std::remove_cv_t<decltype(member.pointer)>>::type;
      static_assert(detail::ComesBack<Member>::value,
                    "a member is const, so that it could be saved, but not loaded");
      tree.as_map().try_emplace(member.name, detail::element_of<Object>(part));
    });
    return tree;
  }
};

/// A described struct, or a container of such, as a tree; see TreeValue for what else may be in it.
///
/// Vectors, std::arrays and spans of numbers become arrays that borrow the members; enums integers; an empty
/// optional null; maps maps; other vectors and std::arrays, pairs and tuples lists; described structs maps.
/// Ownership: an lvalue must stay valid, and its vectors in place, as long as the tree is used. A temporary is taken
///            over.
/// Example:   save("run/100", to_tree(simulation));
template <class T>
requires TreeValue<T>
[[nodiscard]] Tree to_tree(T&& object) {
  return Tree(std::forward<T>(object));
}

/// Fills a value from a tree that to_tree made of its like. The elements of arrays are copied, except those of
/// members of type Array, which share them with the tree; spans must have the stored length. Numbers are taken as
/// Tree::as takes them.
///
/// Errors: Errc::structure_mismatch when members and keys differ; Errc::type_mismatch, Errc::unsafe_cast,
///         Errc::dtype_mismatch, Errc::shape_mismatch; each names the path. Members before the culprit have then been
///         filled.
template <class T>
requires TreeValue<T>
void from_tree(const Tree& tree, T& object, Narrowing narrowing = Narrowing::refused) {
  TreeReader at({}, narrowing);
  detail::read_value(tree, object, at);
}

/// As above, but members that the tree lacks keep their values, and keys without a member are left out: both are
/// added to `differences`.
///
/// Errors: as above, without Errc::structure_mismatch.
template <class T>
requires TreeValue<T>
void from_tree(const Tree& tree, T& object, MemberDifferences& differences,
               Narrowing narrowing = Narrowing::refused) {
  TreeReader at({}, narrowing);
  at.differences = &differences;
  detail::read_value(tree, object, at);
}

}  // namespace cairn
