// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/formats/index.hpp"

#include "io/internal/chunk_hash.hpp"
#include "io/internal/file.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/manifest.hpp"
#include "store/internal/staged_directory.hpp"
#include "training/json_members.hpp"

namespace cairn::training {

/// Puts parts together in a staged directory: their data files get a second name there (a hard link), or are copied
/// where there are no links; the indexes of a tree become one.
/// Memory: the indexes, eight bytes for each MiB of the files.
class PartMerge {
 public:
  /// `staged` must outlive it.
  explicit PartMerge(store::StagedDirectory& staged) : staged_(staged) {}

  /// Adds the files of a part, whose sizes are checked and whose data is not read, unless it is copied.
  ///
  /// Errors: what is wrong with the part, and the OS errors of link(2).
  void add(const store::CommittedDirectory& part);

  /// Writes the indexes and publishes. `manifest` brings along what parts do not say.
  ///
  /// Errors: as StagedDirectory::publish.
  void publish(store::Manifest manifest);

 private:
  void add_file(const store::CommittedDirectory& part, const store::FileEntry& file);
  void make_directories(const std::string& relative);
  void write_indexes();

  store::StagedDirectory& staged_;
  std::set<std::string, std::less<>> directories_;  // Relative; that are there.
  std::vector<store::CheckpointableEntry> items_;
  std::map<std::string, std::vector<formats::Index>, std::less<>> indexes_;  // By the path of the file.
  std::vector<io::FileDigest> digests_;
  JsonMembers custom_metadata_;
  JsonMembers annotations_;
};

}  // namespace cairn::training
