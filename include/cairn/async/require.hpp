// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"

namespace cairn::async {

/// To be called before something is awaited that code of a user's has returned: an awaitable that was made by its
/// default constructor, or moved from, has no coroutine, and to await it ends the process.
///
/// Errors: Errc::handler_failed, with `what` has returned it.
template <class T>
void require_coroutine(const Awaitable<T>& awaitable, std::string_view what) {
  if (!awaitable.valid()) {
    throw Error(Errc::handler_failed, std::string(what) + " has returned an empty awaitable");
  }
}

}  // namespace cairn::async
