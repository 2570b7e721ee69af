// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include "cairn/handlers/tree.hpp"

#include "formats/internal/index.hpp"

namespace cairn::detail {

/// The kind of node that an entry stands for.
[[nodiscard]] TreeKind kind_of(formats::EntryKind kind) noexcept;

/// The leaf that an entry holds; not for arrays and lists. An empty map gives an empty map.
[[nodiscard]] Tree scalar_of(const formats::Index& index, const formats::IndexEntry& entry);

/// The entries [first, second) that lie below `path`; all for the root, whose own entry is among them.
[[nodiscard]] std::pair<std::size_t, std::size_t> entries_below(const formats::Index& index,
                                                                std::string_view path);

}  // namespace cairn::detail
