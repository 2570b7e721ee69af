// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

namespace cairn {

/// Holds what a handler gives `SaveContext::run` and `LoadContext::run`: a function object that has a name.
///
/// A temporary that owns something does not compile. g++ 12 destroys temporaries of lambdas twice inside a `co_await`
/// expression, so `co_await context.run([text] { … })` would free the text twice. A lambda that captures by reference
/// owns nothing: it may be a temporary.
/// Example: const auto work = [text] { … };
///          co_await context.run(work);
class HandlerWork {
 public:
  template <class Work>
  requires(!std::same_as<std::remove_cvref_t<Work>, HandlerWork> &&
           std::invocable<std::remove_cvref_t<Work>&>)
      HandlerWork(Work&& work)  // NOLINT: implicit, so that functions are given as they are.
      : work_(std::forward<Work>(work)) {
    // A std::function has constructors of its own, and is destroyed once.
    static_assert(
        std::is_lvalue_reference_v<Work> || std::is_trivially_destructible_v<Work> ||
            std::same_as<Work, std::function<void()>>,
        "Name the function first, and give run() the name: 'const auto work = [captured] { ... }; co_await "
        "context.run(work);'. g++ 12 destroys a temporary lambda twice inside co_await.");
  }

  /// The function; leaves nothing here.
  [[nodiscard]] std::function<void()> function() noexcept { return std::move(work_); }

 private:
  std::function<void()> work_;
};

}  // namespace cairn
