// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "cairn/api/context.hpp"
#include "cairn/core/checkpointable.hpp"
#include "cairn/core/load.hpp"
#include "cairn/handlers/into.hpp"
#include "cairn/observe/report.hpp"

namespace cairn {

namespace detail {

/// The name of the checkpointable that `save` and `load` are about.
[[nodiscard]] std::string state_name();

LoadResult load_state(const std::filesystem::path& path, Request request, const LoadOptions& options,
                      const Context& context);

}  // namespace detail

/// Loads the checkpointable `state` into what one has: a tree, a described struct or another TreeValue, an Array, a view, or an
/// object that loads itself. As `load_checkpointables` with `into(object)`: elements are read where they belong, and verified.
///
/// Ownership: `object` must live until the call returns; it may hold anything when it throws.
/// Errors:    as load_checkpointables, and those of `into`.
/// Example:   load_into("run/100", model);
template <class T>
LoadResult load_into(const std::filesystem::path& path, T& object, const LoadOptions& options = {},
                     const Context& context = default_context()) {
  return detail::load_state(path, Request(detail::state_name(), into(object)), options, context);
}

}  // namespace cairn
