// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/core/load.hpp"
#include "cairn/tools/array_reader.hpp"
#include "cairn/tools/export.hpp"

#include "handlers/internal/path_pattern.hpp"
#include "io/internal/file.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/internal/staged_directory.hpp"
#include "tools/internal/array_stream.hpp"

namespace cairn::tools {

/// ExportOptions::only, with which of its patterns have matched something.
class ChosenPaths {
 public:
  /// Errors: Errc::invalid_argument for what is not a pattern.
  explicit ChosenPaths(const std::vector<std::string>& only);

  [[nodiscard]] bool choose(std::string_view path);
  /// Returns whether an export has to say that it leaves a path out.
  ///
  /// Errors: Errc::invalid_argument, with `why`, when the path was asked for by its name and not by a wildcard.
  [[nodiscard]] bool leave_out(std::string_view path, std::string_view why);
  /// Errors: Errc::invalid_argument, with the path that is most like it, when a pattern has matched nothing.
  void require_used() const;

 private:
  struct Pattern {
    detail::PathPattern pattern;
    bool is_used = false;
    std::string nearest = {};
  };
  std::vector<Pattern> patterns_;
};

/// The checkpointable that was asked for, or the only one that has arrays.
///
/// Errors: Errc::invalid_argument; what keeps it from being described.
[[nodiscard]] std::string choose_item(const CheckpointMetadata& metadata, const ExportOptions& options);

/// Arrays that lie in objects, by their paths. They are in memory, and leave as they are.
using HeldArrays = std::map<std::string, Array, std::less<>>;

/// Returns what the checkpointable of a plan holds, and adds to the plan the arrays that are chosen, with the dtype
/// that is asked for and without names; and the further names that are left out. Objects, and common state of a state
/// dict, are read: their leaves come in place of them, and `held` gets their arrays. Null: they are not read, but
/// values of the kind "object".
[[nodiscard]] Description plan_arrays(ExportPlan& plan, const CheckpointMetadata& metadata,
                                      const ExportOptions& options, ChosenPaths& chosen, HeldArrays* held);

/// The elements of an array as they leave, cast from what is stored.
[[nodiscard]] Region exported_region(const ArrayReader& reader, const ExportedArray& array);

/// Tells ExportOptions::progress how much of the arrays is written.
class Tally {
 public:
  Tally(const ExportPlan& plan, const ExportOptions& options);

  void add(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t total_bytes() const { return total_bytes_; }

 private:
  const ExportOptions& options_;
  std::uint64_t done_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
};

/// A directory next to the target that says whose it is, as that of a save does: in it all is made before it gets its
/// name. It goes with what is left in it.
class ExportStaging {
 public:
  /// Errors: Errc::already_exists; Errc::invalid_argument when the target would lie in a checkpoint, or in the folder
  ///         of other programs' files that `source` is: a file more there would be read with the others.
  ExportStaging(const std::filesystem::path& source, const std::filesystem::path& target, bool is_folder);

  /// In which the files are made.
  [[nodiscard]] const io::Directory& folder() const { return made_ ? *made_ : *staged_.directory(); }
  [[nodiscard]] std::string target_name() const { return named_.filename(); }

  /// Makes a file, and reserves its bytes where the file system can.
  [[nodiscard]] io::FileHandle create_file(const std::string& name, std::uint64_t bytes) const;
  /// Makes a file durable and closes it.
  void finish(io::FileHandle& file, const std::string& name) const;
  /// Gives the target's name to the folder, or to the only file, which has it here.
  void publish() const;

 private:
  std::filesystem::path named_;
  io::Directory parent_;
  staging::OwnPlane own_;
  store::StagedDirectory staged_;
  std::optional<io::Directory> made_;  // Nothing for a single file.
};

}  // namespace cairn::tools
