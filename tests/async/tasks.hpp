// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <utility>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"

namespace cairn::async {

inline Awaitable<> fail_with(Errc code) {
  throw Error(code, "task");
  co_return;
}

/// Counts the ends of `first` that were no failures; `count` must outlive it.
inline Awaitable<> count_after(Awaitable<> first, std::atomic<int>* count) {
  co_await std::move(first);
  ++*count;
}

}  // namespace cairn::async
