// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

/// Whether copying a `T` compiles, and gives a value of its own.
///
/// std::is_copy_constructible says yes of a vector of what cannot be copied, and of every class that has such a member: asking
/// for the copy would be an error in the user's program. So this is true of what is certain: trivial types, and
/// containers of the standard library that hold nothing else. A class of yours says so next to its definition:
///   template <> struct cairn::IsCopyable<Model> : std::true_type {};
/// Used by: ContextOptions::check_handlers.
template <class T>
struct IsCopyable
    : std::bool_constant<std::is_trivially_copy_constructible_v<T> && std::is_destructible_v<T>> {};

template <class T>
struct IsCopyable<const T> : IsCopyable<T> {};

namespace detail {

template <class... T>
using AreCopyable = std::bool_constant<(IsCopyable<T>::value && ...)>;

}  // namespace detail

template <class C, class Traits, class A>
struct IsCopyable<std::basic_string<C, Traits, A>> : std::true_type {};

template <class T>
struct IsCopyable<std::shared_ptr<T>> : std::true_type {};

template <class T, std::size_t N>
struct IsCopyable<std::array<T, N>> : IsCopyable<T> {};

template <class T>
struct IsCopyable<std::optional<T>> : IsCopyable<T> {};

template <class T, class U>
struct IsCopyable<std::pair<T, U>> : detail::AreCopyable<T, U> {};

template <class... T>
struct IsCopyable<std::tuple<T...>> : detail::AreCopyable<T...> {};

template <class... T>
struct IsCopyable<std::variant<T...>> : detail::AreCopyable<T...> {};

template <class T, class A>
struct IsCopyable<std::vector<T, A>> : IsCopyable<T> {};

template <class T, class A>
struct IsCopyable<std::deque<T, A>> : IsCopyable<T> {};

template <class T, class A>
struct IsCopyable<std::list<T, A>> : IsCopyable<T> {};

template <class T, class Less, class A>
struct IsCopyable<std::set<T, Less, A>> : detail::AreCopyable<T, Less> {};

template <class K, class T, class Less, class A>
struct IsCopyable<std::map<K, T, Less, A>> : detail::AreCopyable<K, T, Less> {};

template <class T, class Hash, class Equal, class A>
struct IsCopyable<std::unordered_set<T, Hash, Equal, A>> : detail::AreCopyable<T, Hash, Equal> {};

template <class K, class T, class Hash, class Equal, class A>
struct IsCopyable<std::unordered_map<K, T, Hash, Equal, A>> : detail::AreCopyable<K, T, Hash, Equal> {};

}  // namespace cairn
