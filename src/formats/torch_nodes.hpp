// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "cairn/array/shape.hpp"

#include "formats/internal/foreign_catalogue.hpp"
#include "formats/internal/pickle.hpp"
#include "formats/internal/torch_archive.hpp"

namespace cairn::formats {

/// Deeper trees are refused; the trees of checkpoints are no deeper.
inline constexpr std::size_t kMaxPickledDepth = 1000;

/// Follows the nodes of an archive's pickle into a tree. `path` is used in errors only.
///
/// Errors: as describe_torch_archive.
[[nodiscard]] ForeignCatalogue describe_torch_nodes(const Pickle& pickle, const TorchArchive& archive,
                                                    std::string_view path);

/// The numbers of a tuple or a torch.Size; nothing when it is neither, or not of at most kMaxRank numbers from 0 up.
[[nodiscard]] std::optional<Shape> shape_of(const Pickle& pickle, PickleNode node);

/// The number that a node is, or nothing when it is not one from 0 up.
[[nodiscard]] std::optional<std::uint64_t> count_of(const Pickle& pickle, PickleNode node);

}  // namespace cairn::formats
