// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "cairn/array/dtype.hpp"
#include "cairn/contract/value_traits.hpp"
#include "cairn/handlers/random_engines.hpp"
#include "cairn/handlers/tree_form.hpp"
#include "cairn/handlers/tree_leaf.hpp"
#include "cairn/handlers/tree_node.hpp"
#include "cairn/handlers/tree_values.hpp"

namespace cairn {

namespace detail {

template <class Rep>
concept TickCount = TreeInteger<Rep> || std::same_as<Rep, float> || std::same_as<Rep, double>;

/// How many seconds a tick takes.
struct TickPeriod {
  std::intmax_t num;
  std::intmax_t den;
};

/// The ticks of a stored duration, in ticks of another period: an integer, or a float.
///
/// Errors: Errc::type_mismatch and Errc::shape_mismatch when it is not a duration; Errc::unsafe_cast when the ticks
///         of the other period would be rounded, or exceed 64 bits. Narrowing cuts them off, and saturates.
[[nodiscard]] Tree ticks_of(const Tree& stored, TickPeriod wanted, bool is_floating, std::string_view path,
                            Narrowing narrowing);

}  // namespace detail

/// A duration is a list of its ticks and the two numbers of its period. It loads into another period exactly, or not:
/// then it is Errc::unsafe_cast.
template <detail::TickCount Rep, class Period>
struct TreeForm<std::chrono::duration<Rep, Period>> {
  using Duration = std::chrono::duration<Rep, Period>;

  static Tree make(const Duration& value) {
    return Tree::list({value.count(), std::intmax_t{Period::num}, std::intmax_t{Period::den}});
  }

  static void read(const Tree& tree, Duration& value, TreeReader& at) {
    const Tree ticks =
        detail::ticks_of(tree, {Period::num, Period::den}, std::floating_point<Rep>, at.path, at.narrowing);
    value = Duration(ticks.as<Rep>(at.path, at.narrowing));
  }
};

/// A time of the system's clock is the duration since its epoch. Those of other clocks mean nothing to another process.
template <class Duration>
requires detail::HasTreeForm<Duration>
struct TreeForm<std::chrono::time_point<std::chrono::system_clock, Duration>> {
  using Time = std::chrono::time_point<std::chrono::system_clock, Duration>;

  static Tree make(const Time& value) { return TreeForm<Duration>::make(value.time_since_epoch()); }

  static void read(const Tree& tree, Time& value, TreeReader& at) {
    Duration since_epoch{};
    TreeForm<Duration>::read(tree, since_epoch, at);
    value = Time(since_epoch);
  }
};

/// Calls `visitor` for every leaf, every empty map, and every list (before its elements), with its path.
///
/// Errors: Errc::invalid_argument when the tree is deeper than kMaxTreeDepth; what `visitor` throws.
void visit_leaves(const Tree& tree,
                  const std::function<void(std::string_view path, const Tree& leaf)>& visitor);

/// The elements of the arrays are copied, too, but for those on devices.
template <>
struct WatchedCopy<Tree> {
  static const Tree* make(const Tree& value, const std::shared_ptr<WatchedMemory>& memory);
};

/// A tree owns its memory when all of its arrays have owners.
template <>
struct OwnsItsMemory<Tree> {
  static constexpr bool kIsShared = true;

  static bool check(const Tree& tree);
};

}  // namespace cairn
