// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/handlers/tree.hpp"

#include "formats/internal/index.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/internal/assembly.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/manifest.hpp"
#include "store/internal/new_checkpoint.hpp"
#include "training/json_members.hpp"

namespace cairn::training {

/// Puts parts together in a new checkpoint, which their data files are linked into; the indexes of a tree become one,
/// and so do the plain values of a state dict.
/// Memory: the indexes, and that of the assembly.
class PartMerge {
 public:
  PartMerge(staging::OwnPlane& own, store::NewCheckpoint& target) : assembly_(own, target) {}

  /// Adds the files of a part, whose sizes are checked and whose data is not read, unless it is copied.
  ///
  /// Errors: what is wrong with the part, and the OS errors of link(2).
  void add(store::CommittedDirectory part);

  /// Writes the indexes and publishes. `manifest` brings along what parts do not say.
  ///
  /// Errors: as NewCheckpoint::publish.
  void publish(store::Manifest manifest);

 private:
  store::Assembly assembly_;
  std::vector<store::CheckpointableEntry> items_;
  std::map<std::string, std::vector<formats::Index>, std::less<>> indexes_;  // By the path of the file.
  std::map<std::string, Tree, std::less<>> commons_;                         // Of state dicts, likewise.
  JsonMembers custom_metadata_;
  JsonMembers annotations_;
};

}  // namespace cairn::training
