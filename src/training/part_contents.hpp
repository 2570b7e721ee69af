// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "cairn/handlers/tree.hpp"

#include "formats/internal/index.hpp"
#include "store/internal/committed_directory.hpp"
#include "training/json_members.hpp"
#include "training/leaf_names.hpp"

namespace cairn::training {

/// Returns whether the leaves of such a checkpointable may come from several parts.
[[nodiscard]] bool is_tree(const store::CheckpointableEntry& item) noexcept;

/// The index of a tree, checked.
///
/// Errors: as CommittedDirectory::read_verified and formats::Index.
[[nodiscard]] formats::Index open_index(const store::CommittedDirectory& part,
                                        const store::CheckpointableEntry& item);

/// The plain values of a state dict, which lie beside its arrays; an empty map for any other tree.
///
/// Errors: as CommittedDirectory::read_verified and unpack_tree.
[[nodiscard]] Tree common_state(const store::CommittedDirectory& part,
                                const store::CheckpointableEntry& item);

/// Adds the plain values that another part has. `name` is that of the state dict.
///
/// Errors: Errc::already_exists, naming a value that is not the same in both.
void join_common(Tree& all, const Tree& more, const std::string& name);

/// Holds what parts hold together: which part has what.
class PartContents {
 public:
  /// Adds what a part holds, or nothing of it.
  ///
  /// Errors: Errc::already_exists: a leaf or a checkpointable of another part (both are named);
  ///         Errc::malformed_metadata and Errc::checksum_mismatch: what is wrong with the part.
  void add(const store::CommittedDirectory& part, std::uint32_t number);

  /// Refuses what one more part brings along if the checkpoint of all could not hold it.
  ///
  /// Errors: Errc::invalid_argument.
  void require_room(const JsonMembers& custom_metadata, const JsonMembers& annotations) const;

 private:
  /// How long the members of a kind are as text, by their keys: the later of two with one key counts.
  class Members {
   public:
    void add(const JsonMembers& more);
    /// The size of the object of all, with these.
    [[nodiscard]] std::size_t size_with(const JsonMembers& more) const;

   private:
    std::map<std::string, std::size_t, std::less<>> bytes_;
    std::size_t all_bytes_ = 0;
  };

  struct Item {
    std::string handler_id;
    std::uint32_t first_part = 0;
    LeafNames leaves;
    Tree common = Tree::map();
  };

  [[nodiscard]] const Item* find(const store::CheckpointableEntry& item, std::uint32_t number) const;

  std::map<std::string, Item, std::less<>> items_;
  Members custom_metadata_;
  Members annotations_;
};

}  // namespace cairn::training
