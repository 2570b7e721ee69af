// SPDX-License-Identifier: Apache-2.0
#pragma once

// Random engines of the standard library as leaves of trees. Part of cairn/handlers/tree.hpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <locale>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/handlers/tree_form.hpp"
#include "cairn/handlers/tree_node.hpp"
#include "cairn/handlers/tree_values.hpp"

namespace cairn {

namespace detail {

/// An engine that is made of another one.
template <class E>
concept EngineAdaptor = requires(const E& engine) {
  engine.base();
};

/// Those of <random>, which need not be included for it.
template <class E>
concept RandomEngine = requires(E& engine, typename E::result_type number) {
  engine.seed(number);
  engine.discard(1ULL);
  E::min();
  E::max();
}
&&(
    EngineAdaptor<E> || requires { E::state_size; } || requires { E::long_lag; } || requires { E::modulus; });

/// Takes the numbers of an engine's text from the front. Returns whether they are a state of it: libstdc++ takes
/// others, and uses them as positions in its memory.
template <class E>
[[nodiscard]] bool takes_state(std::span<const std::uint64_t>& numbers) {
  const auto take = [&numbers](std::size_t count, std::uint64_t least, std::uint64_t most) {
    const bool is_state = count <= numbers.size() &&
                          std::all_of(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(count),
                                      [&](std::uint64_t each) { return least <= each && each <= most; });
    numbers = numbers.subspan(is_state ? count : 0);
    return is_state;
  };
  if constexpr (EngineAdaptor<E>) {
    using Base = std::remove_cvref_t<decltype(std::declval<const E&>().base())>;
    if (!takes_state<Base>(numbers)) {
      return false;
    }
  }
  if constexpr (requires { E::table_size; }) {
    return take(E::table_size + 1, E::min(), E::max());
  } else if constexpr (requires { E::block_size; }) {
    return take(1, 0, E::block_size);
  } else if constexpr (EngineAdaptor<E>) {
    return true;
  } else if constexpr (requires { E::state_size; }) {
    return take(E::state_size, 0, E::max()) && take(1, 0, E::state_size);
  } else if constexpr (requires { E::long_lag; }) {
    return take(E::long_lag, 0, E::max()) && take(1, 0, 1) && take(1, 0, E::long_lag - 1);
  } else {
    return take(1, E::min(), E::max());
  }
}

/// The decimal numbers of a text; none where it holds anything else.
[[nodiscard]] std::vector<std::uint64_t> numbers_of(std::string_view text);

/// Errors: Errc::type_mismatch, always.
[[noreturn]] void throw_other_engine(std::string_view path);

}  // namespace detail

/// A random engine is a string: its state, as its `<<` writes it. It goes on where the saved one was.
/// Ranks may have other ones under one name: rank 0's is saved, and nothing is said.
///
/// Errors: Errc::type_mismatch for another text than that of such an engine.
template <class E>
requires detail::RandomEngine<E>
struct TreeForm<E> {
  static Tree make(const E& engine) {
    std::ostringstream text;
    text.imbue(std::locale::classic());
    text << engine;
    return Tree::random_state(std::move(text).str());
  }

  static void read(const Tree& tree, E& engine, TreeReader& at) {
    const auto state = tree.as<std::string>(at.path);
    const std::vector<std::uint64_t> all = detail::numbers_of(state);
    std::span<const std::uint64_t> numbers = all;
    if (!detail::takes_state<E>(numbers) || !numbers.empty()) {
      detail::throw_other_engine(at.path);
    }
    std::istringstream text(state);
    text.imbue(std::locale::classic());
    text >> engine;
  }
};

}  // namespace cairn
