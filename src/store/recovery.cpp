// SPDX-License-Identifier: Apache-2.0
#include "store/internal/recovery.hpp"

#include <fcntl.h>
#include <system_error>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "io/internal/file.hpp"
#include "store/directory_scan.hpp"
#include "store/internal/listing.hpp"
#include "store/internal/parts_directory.hpp"
#include "store/internal/uuid.hpp"
#include "store/names.hpp"
#include "store/owner.hpp"
#include "store/retire.hpp"
#include "store/staged_state.hpp"

namespace cairn::store {
namespace {

std::string base_of(const std::string& name) {
  const std::optional<ReservedName> reserved = parse_reserved(name);
  return std::string(reserved ? reserved->base : parse_generation(name).base);
}

class Recovery {
 public:
  Recovery(io::Directory root, RecoveryOptions options)
      : root_(std::move(root)), options_(std::move(options)), scan_(root_, options_) {}

  Recovery(const Recovery&) = delete;
  Recovery& operator=(const Recovery&) = delete;

  RecoveryReport run() {
    // A crash between rename and sync leaves names that are visible, but not durable.
    root_.sync();
    std::vector<RecoveryEntry> foreign;
    found_ = scan_.run(1, &foreign);
    root_.sync();  // All that was seen is durable before anything goes that it replaced.
    // Marks go last: that of a new generation says that the old one is still to be removed.
    for (const RecoveryAction action :
         {RecoveryAction::remove, RecoveryAction::restore, RecoveryAction::unmark}) {
      for (ScannedEntry& each : found_) {
        if (each.entry.action == action) {
          execute(each);
          if (options_.on_done) {
            options_.on_done(each.entry);
          }
        }
      }
    }
    return report_of(std::move(found_), std::move(foreign));
  }

  static RecoveryReport report_of(std::vector<ScannedEntry> found, std::vector<RecoveryEntry> foreign) {
    RecoveryReport report{std::move(foreign)};
    const auto others = static_cast<std::ptrdiff_t>(report.entries.size());
    for (ScannedEntry& each : found) {
      report.entries.push_back(std::move(each.entry));
    }
    const auto begin = report.entries.begin();
    std::inplace_merge(begin, begin + others, report.entries.end(),
                       [](const RecoveryEntry& a, const RecoveryEntry& b) { return a.name < b.name; });
    return report;
  }

 private:
  void execute(ScannedEntry& found) const noexcept {
    RecoveryEntry& entry = found.entry;
    try {
      if (entry.action == RecoveryAction::remove) {
        remove(found);
      } else if (entry.action == RecoveryAction::restore) {
        restore(found);
      } else if (entry.action == RecoveryAction::unmark) {
        unmark(found);
      }
    } catch (...) {
      const std::optional<std::error_code> code = code_of(std::current_exception());
      CAIRN_PROBE("store.recovery_of_an_entry_failed");
      // What is gone already is not a failure: another recovery was quicker.
      entry.has_failed = !code || *code != std::errc::no_such_file_or_directory;
      entry.note = describe(std::current_exception());
    }
  }

  /// Judges once more: since the plan was made, names may have been given to other directories. Nothing is
  /// done to anything but the directory that is judged here. Says so when it is something else by now.
  [[nodiscard]] bool is_as_before(ScannedEntry& found, const io::Directory& directory,
                                  Classification& classification) const {
    classification = scan_.classify(directory, found.entry.name);
    const Classification& before = found.classification;
    const bool is_same = classification.kind == before.kind &&
                         classification.generation == before.generation &&
                         classification.is_empty == before.is_empty && classification.blocked_by.empty();
    if (!is_same) {
      CAIRN_PROBE("store.changed_since_it_was_seen");
      found.entry.note = fmt::format("is {} now: {}", store::name(classification.kind), classification.note);
    }
    return is_same;
  }

  void remove(ScannedEntry& found) const {
    CAIRN_ASSERT(found.entry.kind == EntryClass::abandoned || found.entry.kind == EntryClass::retired,
                 "recovery removes only what was abandoned or replaced");
    CAIRN_ASSERT(!found.entry.is_removed, "an entry is removed once");
    const std::string& name = found.entry.name;
    const io::Directory directory = root_.open_directory(name);
    Classification classification;
    if (!is_as_before(found, directory, classification)) {
      return;
    }
    std::string kept;
    if (classification.is_empty) {
      CAIRN_PROBE("store.recovery_removes_an_empty_directory");
      // Never more than the empty directory: its writer may have claimed it since.
      root_.remove_empty_directory(name);
    } else if (classification.kind == EntryClass::abandoned) {
      kept = remove_abandoned(name, directory);
    } else if (classification.kind == EntryClass::retired) {
      kept = remove_retired(root_, name, directory);
    } else if (scan_.has_sound_successor(name)) {
      CAIRN_PROBE("store.recovery_retires_an_older_generation");
      found.is_immovable = !retire_older(name, directory, kept);
    } else {
      CAIRN_PROBE("store.replacement_is_gone");
      found.entry.note = "what has replaced it is gone";
      return;
    }
    found.entry.is_removed = !found.is_immovable;
    if (!kept.empty()) {
      found.entry.note = fmt::format("{}; {}", found.entry.note, kept);
    }
  }

  /// Removes an older generation, which is committed by itself. Returns false when it lies in the lower layer of an
  /// overlay file system: then it stays for good, as a copy that nobody reads, and the overwrite has ended all the
  /// same.
  bool retire_older(const std::string& name, const io::Directory& directory, std::string& kept) const {
    try {
      kept = retire(root_, name, base_of(name), directory, Retirement::replaced, system_random);
      return true;
    } catch (const Error& error) {
      if (error.code() != std::error_code(EXDEV, std::system_category())) {
        throw;
      }
      CAIRN_PROBE("store.recovery_cannot_move_a_lower_layer");
      kept = error.what();
      return false;
    }
  }

  /// Returns what was kept.
  [[nodiscard]] std::string remove_abandoned(const std::string& name, const io::Directory& directory) const {
    if (const std::optional<ReservedName> reserved = parse_reserved(name)) {
      if (reserved->base.starts_with(kPartialPrefix)) {  // Others may have put something beside the parts.
        return remove_parts_set_aside(root_, name, directory);
      }
      remove_unfinished(root_, name, directory);
      return "";
    }
    // Marker mode: half-removed it must not have the name of a checkpoint.
    const std::string trash = trash_name(base_of(name), make_uuid(system_random));
    set_aside(root_, name, trash, directory);
    root_.sync();
    remove_unfinished(root_, trash, directory);
    return "";
  }

  void restore(ScannedEntry& found) const {
    CAIRN_ASSERT(found.entry.kind == EntryClass::displaced && !found.home.empty(),
                 "recovery puts back what was displaced, where it belongs");
    const io::Directory directory = root_.open_directory(found.entry.name);
    Classification classification;
    if (!is_as_before(found, directory, classification)) {
      return;
    }
    rename_to_free_name(root_, found.entry.name, found.home);
    CAIRN_PROBE("store.recovery_put_back_a_checkpoint");
    root_.sync();
    found.entry.note = fmt::format("put back as {}", found.home);
  }

  void unmark(ScannedEntry& found) const {
    CAIRN_ASSERT(found.entry.kind == EntryClass::committed, "recovery takes marks from checkpoints only");
    if (has_older_generations(found.entry.name)) {
      CAIRN_PROBE("store.mark_stays_with_older_generations");
      found.entry.has_failed = true;
      found.entry.note = "what it has replaced could not be removed";
      return;
    }
    const io::Directory directory = root_.open_directory(found.entry.name);
    for (const std::string_view name : scan_.classify(directory, found.entry.name).marks) {
      directory.remove_file(name);
    }
  }

  /// Returns whether something is left that a checkpoint with a mark has replaced.
  [[nodiscard]] bool has_older_generations(const std::string& name) const {
    const GenerationName own = parse_generation(name);
    return own.generation > 1 && std::any_of(found_.begin(), found_.end(), [&](const ScannedEntry& each) {
             const GenerationName other = parse_generation(each.entry.name);
             return other.base == own.base && other.generation < own.generation &&
                    each.entry.kind == EntryClass::retired && !each.entry.is_removed && !each.is_immovable;
           });
  }

  io::Directory root_;
  const RecoveryOptions options_;
  DirectoryScan scan_;
  std::vector<ScannedEntry> found_;
};

/// Removes what a save has left in a temporary directory, unless it may go on yet.
void remove_if_left(const io::Directory& root, const std::string& name) {
  constexpr std::size_t kMostOwnerBytes = 4096;
  const io::Directory directory = root.open_directory(name);
  const std::optional<Owner> owner = parse_owner(io::read_small_file(directory, kOwnerName, kMostOwnerBytes));
  if (!owner || owner->boot_id != this_process({}).boot_id || !is_gone(*owner)) {
    return;
  }
  const Classification found = DirectoryScan(root, {}).classify(directory, name);
  const bool is_free = found.lock.is_open() &&
                       io::uninterrupted([&] { return root.syscalls().try_lock(found.lock.fd()); }) >= 0;
  if (found.kind == EntryClass::abandoned && is_free) {
    CAIRN_PROBE("store.left_by_a_dead_process");
    remove_unfinished(root, name, directory);
  }
}

RecoveryReport scan_report(const io::Directory& root, RecoveryOptions dry) {
  std::vector<RecoveryEntry> foreign;
  std::vector<ScannedEntry> found = DirectoryScan(root, std::move(dry)).run(1, &foreign);
  return Recovery::report_of(std::move(found), std::move(foreign));
}

}  // namespace

void remove_left_by_dead_processes(const io::Directory& root,
                                   const std::function<bool(std::string_view name)>& is_wanted) {
  for (const io::DirectoryEntry& entry : root.list()) {
    const std::optional<ReservedName> reserved = parse_reserved(entry.name);
    if (!reserved || reserved->kind != ReservedKind::temporary || !is_wanted(reserved->base)) {
      continue;
    }
    try {
      remove_if_left(root, entry.name);
    } catch (const Error&) {
      CAIRN_PROBE("store.left_where_it_is");
    }
  }
}

std::string_view name(EntryClass kind) noexcept {
  static constexpr std::array<std::string_view, 8> kNames = {
      "committed", "damaged", "unreadable", "displaced", "live", "abandoned", "retired", "foreign"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name(RecoveryAction action) noexcept {
  static constexpr std::array<std::string_view, 4> kNames = {"keep", "unmark", "restore", "remove"};
  return kNames[static_cast<std::size_t>(action)];
}

RecoveryReport scan_directory(io::Syscalls& syscalls, const std::filesystem::path& path,
                              RecoveryOptions options) {
  options.dry_run = true;
  return scan_report(open_root(syscalls, path), std::move(options));
}

RecoveryReport recover(io::Syscalls& syscalls, const std::filesystem::path& path, RecoveryOptions options) {
  return recover(open_root(syscalls, path), std::move(options));
}

RecoveryReport recover(io::Directory root, RecoveryOptions options) {
  return options.dry_run ? scan_report(root, std::move(options))
                         : Recovery(std::move(root), std::move(options)).run();
}

}  // namespace cairn::store
