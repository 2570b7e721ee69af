// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "cairn/api/context.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/core/context.hpp"

namespace cairn {

namespace detail {

/// See below.
[[nodiscard]] Awaitable<> offload(std::function<void()> work, const Context& context);

template <class T>
Awaitable<T> answer_of(Awaitable<> ran, std::shared_ptr<std::optional<T>> answer) {
  co_await std::move(ran);
  co_return std::move(**answer);
}

}  // namespace detail

/// Runs `work`, which may block, on a thread of the context's, and awaits what it returns: so every call of this
/// library that blocks can be awaited. It may save, load and remove there, in that context, too.
///
/// Begins when it is awaited, on any executor. A lambda that captures has a name, or captures by reference: g++ 12
/// destroys temporaries in a `co_await` twice.
/// Ownership: `work` is copied. After a cancellation it may outlive who awaits it, and what it refers to must live on.
/// Threads:   safe. That thread is not lent to a coordinator (Transport::progress): where ranks need that, another one
///            of the program's must be.
/// Cancel:    stops waiting; the work goes on.
/// Errors:    what `work` throws. Errc::invalid_argument on the context's own threads, in a handler for example, which
///            the work may wait for. Errc::closed in a process that was forked from the context's.
/// Example:   const auto remove = [path] { return cairn::remove_checkpoint(path); };
///            const cairn::store::RemovalReport report = co_await cairn::offload(remove);
template <class Work>
requires std::invocable < std::remove_cvref_t<Work>
& > [[nodiscard]] auto offload(Work&& work, const Context& context = default_context())
        -> Awaitable<std::invoke_result_t<std::remove_cvref_t<Work>&>> {
  using Result = std::invoke_result_t<std::remove_cvref_t<Work>&>;
  static_assert(
      std::is_lvalue_reference_v<Work> || std::is_trivially_destructible_v<Work>,
      "Name the function first, and give offload() the name: g++ 12 destroys a temporary lambda twice "
      "inside co_await.");
  if constexpr (std::is_void_v<Result>) {
    return detail::offload(std::forward<Work>(work), context);
  } else {
    auto answer = std::make_shared<std::optional<Result>>();
    auto run = [answer, work = std::forward<Work>(work)]() mutable { answer->emplace(work()); };
    return detail::answer_of<Result>(detail::offload(std::move(run), context), std::move(answer));
  }
}

}  // namespace cairn
