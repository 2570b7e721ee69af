// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "cairn/formats/index.hpp"

#include "store/internal/committed_directory.hpp"
#include "training/leaf_names.hpp"

namespace cairn::training {

/// Whether the leaves of such a checkpointable may come from several parts.
[[nodiscard]] bool is_tree(const store::CheckpointableEntry& item) noexcept;

/// The index of a tree, checked.
///
/// Errors: as CommittedDirectory::read_verified and formats::Index.
[[nodiscard]] formats::Index open_index(const store::CommittedDirectory& part,
                                        const store::CheckpointableEntry& item);

/// What parts hold together: which part has what.
class PartContents {
 public:
  /// Adds what a part holds, or nothing of it.
  ///
  /// Errors: Errc::already_exists: a leaf or a checkpointable of another part (both are named); Errc::malformed_metadata and
  ///         Errc::checksum_mismatch: what is wrong with the part.
  void add(const store::CommittedDirectory& part, std::uint32_t number);

 private:
  struct Item {
    std::string handler_id;
    std::uint32_t first_part = 0;
    LeafNames leaves;
  };

  [[nodiscard]] const Item* find(const store::CheckpointableEntry& item, std::uint32_t number) const;

  std::map<std::string, Item, std::less<>> items_;
};

}  // namespace cairn::training
