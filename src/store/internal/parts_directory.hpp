// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/store/reports.hpp"

#include "io/internal/file.hpp"
#include "store/internal/process_file.hpp"
#include "store/internal/save_target.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::store {

/// The annotation of a part, and of a checkpoint that was made of parts.
inline constexpr std::string_view kPartMember = "cairn.partial";

/// "part-00007".
[[nodiscard]] std::string part_name(std::size_t number);
/// The number of a part that is called so; nothing for what is not one.
[[nodiscard]] std::optional<std::size_t> part_number(std::string_view name);

/// Refuses a target in a directory of parts, however deep, by the text of its absolute path: what lies there goes
/// with the parts.
///
/// Errors: Errc::invalid_argument.
void require_outside_parts(const std::filesystem::path& target);

/// The directory in which the parts of a checkpoint lie until it is put together (".partial-<name>", next to it),
/// while somebody works in it: a mark in it is locked meanwhile, for this process only: a child that is forked then
/// does not hold it.
///
/// Ours is what Cairn has written there: parts, which have the annotation, their temporaries, and the mark. All else
/// stays where it is. Every call blocks. OS errors pass through.
class PartsDirectory {
 public:
  /// Says what is asked of a directory before anything in it is touched.
  enum class Check : std::uint8_t {
    everything,  ///< That it is empty, or one of parts; see `in_the_way`.
    mark,        ///< That nothing else has the name of the mark: of one that is known.
  };

  /// Nothing when there is none.
  ///
  /// Errors: EBUSY: somebody else works in it; Errc::already_exists: what is there is not ours, and is named.
  static std::optional<PartsDirectory> open(SaveTarget target, Check check);
  /// Makes it where there is none; its name is durable then.
  ///
  /// Errors: as `open`; Errc::invalid_argument: the target lies in the directory of a checkpoint.
  static PartsDirectory make(SaveTarget target);
  /// Returns what lies in the directory of this target and keeps `open` from it; empty when nothing does.
  [[nodiscard]] static std::string in_the_way(const SaveTarget& target);

  [[nodiscard]] const io::Directory& directory() const noexcept { return directory_; }

  /// Returns which process has worked in it before, for people; empty where the mark does not say.
  [[nodiscard]] const std::string& worked_before() const noexcept { return worked_before_; }

  /// Removes what is ours in it, and it, when it is empty then: after a crash at any moment either all parts are
  /// there, or nothing that anybody takes for parts, and recovery removes the rest. Where somebody else's things lie
  /// beside the parts, or where the directory cannot be renamed (in the lower layer of overlayfs), the parts go one
  /// by one, the last first: a crash leaves the first ones.
  ///
  /// Returns what was kept, and where.
  RemovalReport remove(const RandomSource& random);

 private:
  PartsDirectory(io::Directory parent, std::string name, io::Directory directory);

  void claim();
  void replace_mark();
  void settle_temporaries() const;
  [[nodiscard]] bool remove_whole(const RandomSource& random, RemovalReport& report) const;
  [[nodiscard]] std::string remove_one(std::size_t number, const RandomSource& random) const;

  io::Directory parent_;
  std::string name_;
  io::Directory directory_;
  std::string worked_before_;
  std::optional<ProcessFile> mark_;
};

/// Removes the parts in `directory`, which `parent` calls by a name of trash; for recovery, too, after a crash.
///
/// Returns what was kept and where, for people; empty when nothing was.
std::string remove_parts_set_aside(const io::Directory& parent, const std::string& name,
                                   const io::Directory& directory);

}  // namespace cairn::store
