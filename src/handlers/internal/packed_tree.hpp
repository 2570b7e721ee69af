// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "cairn/handlers/packed_tree.hpp"
#include "cairn/handlers/tree.hpp"

#include "formats/internal/packed_tree.hpp"

namespace cairn {

/// The file of a state dict (kStateDictId) that has its plain values, as such a tree.
inline constexpr std::string_view kStateDictCommonFile = "common.tree";

/// As pack_tree and unpack_tree, in another form than that of a file that opens alone.
[[nodiscard]] std::string pack_tree(const Tree& tree, const formats::PackedForm& form);
[[nodiscard]] Tree unpack_tree(std::span<const std::byte> bytes, std::string name,
                               const formats::PackedForm& form);

}  // namespace cairn
