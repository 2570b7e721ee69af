// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "cairn/api/context.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/base/timeout.hpp"
#include "cairn/contract/checkpointable.hpp"
#include "cairn/core/load.hpp"
#include "cairn/handlers/into.hpp"
#include "cairn/observe/report.hpp"

namespace cairn {

/// The load into an object in flight; see LoadResponse. It refers to no load where it was made without one.
///
/// Ownership: the object must live until the load has released it. One that is destroyed or assigned to before stops
///            the load, and waits for that.
class LoadIntoResponse : private LoadResponse {
 public:
  LoadIntoResponse() = default;
  explicit LoadIntoResponse(LoadResponse response) : LoadResponse(std::move(response)) {}

  /// Blocks until the object is loaded; rethrows what went wrong: it may hold anything then.
  LoadResult wait() const;
  /// Errors: Errc::still_running; the load goes on.
  LoadResult wait(Timeout timeout) const;
  /// Awaits the end, on the caller's executor.
  ///
  /// Cancel: stops the load, and ends when it has released the object.
  [[nodiscard]] Awaitable<LoadResult> loaded() const;

  using LoadResponse::cancel;
  using LoadResponse::done;
  using LoadResponse::is_done;
  using LoadResponse::is_released;
  using LoadResponse::progress;
  using LoadResponse::released;
  using LoadResponse::wait_done;
  using LoadResponse::wait_released;
};

namespace detail {

/// The name of the checkpointable that `save` and `load` are about.
[[nodiscard]] std::string state_name();

LoadResult load_state(const std::filesystem::path& path, Request request, const LoadOptions& options,
                      const Context& context);
LoadIntoResponse load_state_async(const std::filesystem::path& path, Request request,
                                  const LoadOptions& options, const Context& context);

}  // namespace detail

/// Loads the checkpointable `state` into what one has: a tree, a described struct or another TreeValue, an Array, a
/// view, or an object that loads itself. As `load_checkpointables` with `into(object)`: elements are read where they
/// belong, and verified.
///
/// Ownership: `object` must live until the call returns; it may hold anything when it throws.
/// Errors:    as load_checkpointables, and those of `into`.
/// Example:   load_into("run/100", model);
template <class T>
LoadResult load_into(const std::filesystem::path& path, T& object, const LoadOptions& options = {},
                     const Context& context = default_context()) {
  return detail::load_state(path, Request(detail::state_name(), into(object)), options, context);
}

/// As above, but returns when the blocking phase is over, and reads in the background.
///
/// Ownership: `object` must live, and nobody else touch it, until the load has released it.
/// Errors:    what the blocking phase finds is thrown; what comes later, by the response.
/// Example:   const auto loading = load_into_async("run/100", model);
///            prepare_data();
///            loading.wait();
template <class T>
[[nodiscard]] LoadIntoResponse load_into_async(const std::filesystem::path& path, T& object,
                                               const LoadOptions& options = {},
                                               const Context& context = default_context()) {
  return detail::load_state_async(path, Request(detail::state_name(), into(object)), options, context);
}

}  // namespace cairn
