// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array_store/file_layout.hpp"
#include "cairn/contract/load_context.hpp"
#include "cairn/megatron/abstract_state_dict.hpp"
#include "cairn/megatron/state_dict.hpp"

#include "array_store/internal/reader.hpp"
#include "formats/internal/index.hpp"

namespace cairn::megatron::detail {

/// The unique key of the object that is the common state of Megatron-Core.
inline constexpr std::string_view kCommonUniqueKey = "common_state/shard_0_1";

/// The path of a key in an index.
[[nodiscard]] std::string path_of(std::string_view key);

/// The index says this of a key.
struct StoredEntry {
  formats::IndexEntry entry;
  Shape shape;
  DType dtype = DType::uint8;
};

/// The tensors and objects of a checkpoint, without common state.
struct StoredDict {
  std::map<std::string, StoredEntry, std::less<>> tensors;  ///< By key.
  std::map<std::string, StoredEntry, std::less<>> objects;  ///< By unique key.
  std::optional<StoredEntry> common;  ///< Common state of Megatron-Core's, which its layout makes an object.
  std::vector<LeftOutKey> left_out;   ///< In the order of their keys.

  /// Returns what says why a key cannot be loaded; null where that is not so.
  [[nodiscard]] const LeftOutKey* find_left_out(std::string_view key) const;

  /// Tensors with one part each, and objects, without data, by their keys.
  [[nodiscard]] StateDict dict() const;
};

[[nodiscard]] StoredDict stored_dict(const formats::Index& index);

/// The layout that reads a folder of Megatron-Core's; null for a checkpoint of Cairn's.
[[nodiscard]] std::shared_ptr<const array_store::FileLayout> layout_of(const LoadContext& context);

}  // namespace cairn::megatron::detail
