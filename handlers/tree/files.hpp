// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "cairn/array/cast.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/core/load_context.hpp"
#include "cairn/formats/index.hpp"

namespace cairn::detail {

inline constexpr std::string_view kIndexFile = "index.fb";

/// The tensor that holds the array of a path. All but one name stand for themselves: safetensors keeps
/// "__metadata__"; what stands for it is no path of any array.
[[nodiscard]] constexpr std::string_view tensor_name(std::string_view path) noexcept {
  return path == "__metadata__" ? "~__metadata__" : path;
}

/// Errors: Errc::unsafe_cast, naming the array, where `cast` would refuse.
void check_cast(std::string_view path, DType from, DType to, Narrowing narrowing);

/// The index of a checkpointable. For files that others wrote it is made from their headers: every tensor is
/// then one key of a flat map.
///
/// Errors: Errc::not_found when there is neither an index nor a safetensors file; Errc::malformed_metadata, …
[[nodiscard]] Awaitable<formats::Index> open_index(LoadContext context);

/// Whether a folder holds safetensors files.
[[nodiscard]] bool is_safetensors(std::string_view file) noexcept;

}  // namespace cairn::detail
