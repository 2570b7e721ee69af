// SPDX-License-Identifier: Apache-2.0
#include "store/internal/remove_checkpoint.hpp"

#include <system_error>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/json_reader.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/file.hpp"
#include "store/commit_record.hpp"
#include "store/contents.hpp"
#include "store/directory_scan.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/trash.hpp"
#include "store/internal/uuid.hpp"
#include "store/names.hpp"
#include "store/retire.hpp"
#include "store/target.hpp"

namespace cairn::store {
namespace {

/// Returns whether `directory` is that generation of a checkpoint, as readers see it.
///
/// Errors: Errc::malformed_metadata when that cannot be told.
bool is_generation(const io::Directory& directory, std::uint32_t generation) {
  const CommitCheck check = check_commit(directory, false);
  if (!check.is_committed && has_commit(directory)) {
    CAIRN_PROBE("store.may_be_a_later_generation");
    throw Error(Errc::malformed_metadata,
                fmt::format("{} may be a later generation ({})", directory.path().string(), check.problem));
  }
  return check.is_committed && check.generation == generation;
}

/// Opens what has the checkpoint's own name; refuses what is none.
io::Directory open_first(const io::Directory& parent, const std::string& name, const io::FileStatus& status) {
  if (status.kind != io::FileKind::directory) {
    throw Error(Errc::not_committed, fmt::format("{} is not a directory", (parent.path() / name).string()));
  }
  io::Directory directory = parent.open_directory(name);
  static_cast<void>(read_commit_record(directory));
  return directory;
}

/// A generation, held open so that nothing else is removed in its place.
struct Generation {
  std::string name;
  io::Directory directory;
};

/// Returns those of `generations` that are there, the highest first.
std::vector<Generation> find_generations(const io::Directory& parent, const Target& target,
                                         const std::vector<std::uint32_t>& generations) {
  CAIRN_ASSERT(std::is_sorted(generations.rbegin(), generations.rend()),
               "the highest generation comes first");
  std::vector<Generation> found;
  for (const std::uint32_t generation : generations) {
    if (generation == 1) {
      continue;
    }
    const std::string name = generation_name(target.name, generation);
    io::Directory directory = parent.open_directory(name);
    if (is_generation(directory, generation)) {
      found.push_back({name, std::move(directory)});
    }
  }
  const std::optional<io::FileStatus> first = parent.status(target.name);
  if (!first && found.empty()) {
    throw Error(Errc::not_found, target.path.string());
  }
  try {
    if (first) {
      found.push_back({target.name, open_first(parent, target.name, *first)});
    }
  } catch (const Error& error) {
    CAIRN_PROBE("store.name_below_a_generation_is_foreign");
    // Next to a later generation, this name may belong to somebody else: to what was kept of an earlier one, for
    // example.
    if (error.code() != Errc::not_committed || found.empty()) {
      throw;
    }
  }
  return found;
}

/// Returns which step of a training the manifest in `entry` says that it is, in digits; nothing where it does not, or
/// cannot be read.
std::optional<std::string> step_in_manifest(const io::Directory& parent, const std::string& entry) {
  const CommitCheck check = check_commit(parent, entry, false);
  std::optional<std::string> step;
  if (!check.facts) {
    return step;
  }
  try {
    JsonReader json(check.facts->annotations, entry);
    json.begin_object();
    while (const auto owner = json.next_key()) {
      if (*owner != kStepNotesName || json.peek() != '{') {
        json.skip_value();
        continue;
      }
      json.begin_object();
      while (const auto member = json.next_key()) {
        if (*member == kStepMember) {
          step = std::to_string(json.read_unsigned());
        } else {
          json.skip_value();
        }
      }
    }
  } catch (const Error&) {  // Another program's.
    CAIRN_PROBE("store.step_notes_not_read");
    return std::nullopt;
  }
  return step;
}

/// The number, in digits, by which a checkpoint of that name is pinned. Where the name goes on with digits before its
/// number ("a15", step 5 of those that begin with "a1"), only the manifest tells which of them are the number's. It is
/// not asked of what has a name of another kind, a copy of a step for example: that is nobody's step.
std::optional<std::string> number_of(const io::Directory& parent, std::string_view name,
                                     const std::string& entry) {
  const std::size_t begin = name.find_last_not_of("0123456789") + 1;  // 0 where there are digits alone.
  if (begin == name.size()) {
    return std::nullopt;
  }
  const std::optional<std::string> step = step_in_manifest(parent, entry);
  if (step && name.ends_with(*step)) {
    return step;
  }
  return std::string(name.substr(std::min(name.find_first_not_of('0', begin), name.size() - 1)));
}

/// The file that pins the checkpoint of that name, which is in `entry`.
std::optional<std::string> pin_of(const io::Directory& parent, std::string_view name,
                                  const std::string& entry) {
  if (!parent.status(kPinsName)) {
    return std::nullopt;
  }
  const std::optional<std::string> number = number_of(parent, name, entry);
  std::string pin = fmt::format("{}/{}", kPinsName, number.value_or(""));
  return number && parent.status(pin) ? std::optional(std::move(pin)) : std::nullopt;
}

/// Refuses a checkpoint whose files cannot be told from others.
///
/// Errors: Errc::malformed_metadata, Errc::checksum_mismatch, Errc::unsupported_version.
void require_known_files(const io::Directory& directory) {
  try {
    static_cast<void>(read_manifest(directory));
  } catch (const Error&) {
    if (!holds_only_own_files(directory)) {
      const std::string context =
          fmt::format("{}: cannot determine which files belong to the checkpoint", directory.path().string());
      std::rethrow_exception(with_context(std::current_exception(), context));
    }
  }
}

/// Returns whether a removal may take what a save of this checkpoint has left behind.
bool is_dead_leftover(const DirectoryScan& scan, const io::Directory& directory, std::string_view name) {
  const Classification classification = scan.classify(directory, name);
  return classification.has_commit &&
         (classification.kind == EntryClass::retired || classification.kind == EntryClass::displaced ||
          classification.kind == EntryClass::abandoned);
}

/// Collects what one removal renames away, for whoever tries again to remove what it leaves.
class OwnTrash {
 public:
  explicit OwnTrash(Trash* all) : all_(all) {}
  ~OwnTrash() {
    for (const std::string& name : names_) {
      all_->give_up(name);
    }
  }
  OwnTrash(const OwnTrash&) = delete;
  OwnTrash& operator=(const OwnTrash&) = delete;

  void begin(const std::string& name) {
    if (all_ != nullptr) {
      names_.push_back(name);
      all_->begin(name);
    }
  }
  void end(const std::string& name) noexcept {
    if (all_ != nullptr) {
      all_->end(name);
    }
  }

 private:
  Trash* const all_;
  std::vector<std::string> names_;
};

/// Why nothing of a directory is removed, whose files cannot be told from others; nothing where they can.
std::optional<std::string> why_kept(const io::Directory& directory) {
  try {
    require_known_files(directory);
    return std::nullopt;
  } catch (const Error& error) {
    if (error.code().category() != cairn_category()) {
      throw;
    }
    return error.what();
  }
}

/// Gives what saves of this checkpoint have left behind the names of trash, and makes that durable. What is damaged
/// so that its files cannot be told from others keeps its name, under which nobody takes it for a checkpoint, and is
/// named in `kept`.
std::vector<Generation> set_leftovers_aside(const io::Directory& parent, const std::string& name,
                                            const RandomSource& random, OwnTrash& own,
                                            std::vector<std::string>& kept) {
  RecoveryOptions options;
  options.dry_run = true;
  const DirectoryScan scan(parent, options);
  std::vector<Generation> found;
  for (const io::DirectoryEntry& entry :
       list_if_allowed(parent).value_or(std::vector<io::DirectoryEntry>())) {
    const std::optional<ReservedName> reserved = parse_reserved(entry.name);
    const bool is_leftover = entry.kind == io::FileKind::directory && reserved &&
                             reserved->kind == ReservedKind::temporary && reserved->base == name;
    if (!is_leftover) {
      continue;
    }
    try {
      io::Directory directory = parent.open_directory(entry.name);
      if (!is_dead_leftover(scan, directory, entry.name)) {
        continue;
      }
      if (std::optional<std::string> why = why_kept(directory)) {
        kept.push_back(std::move(*why));
      } else {
        std::string trash = trash_name(name, make_uuid(random));
        own.begin(trash);
        set_aside(parent, entry.name, trash, directory);
        found.push_back({std::move(trash), std::move(directory)});
      }
    } catch (const Error& error) {  // Its save has ended meanwhile, or a recovery was faster.
      if (error.code() != std::errc::no_such_file_or_directory || parent.status(entry.name)) {
        throw;
      }
      CAIRN_PROBE("store.leftover_is_gone");
    }
  }
  if (!found.empty()) {
    parent.sync();
  }
  return found;
}

/// Removes a checkpoint, in several runs where another process removes or replaces the same.
class Removal {
 public:
  Removal(const io::Directory& parent, const Target& target, const RandomSource& random, Trash* trash,
          Surroundings surroundings)
      : parent_(parent), target_(target), random_(random), own_(trash), surroundings_(surroundings) {}

  /// Which directories there are that may be generations of the checkpoint: changed means that somebody replaces or
  /// removes it.
  [[nodiscard]] std::vector<std::pair<std::string, io::FileId>> seen() const {
    std::vector<std::pair<std::string, io::FileId>> all;
    for (const std::uint32_t generation : generations()) {
      const std::string name = generation_name(target_.name, generation);
      if (const std::optional<io::FileStatus> status = parent_.status(name)) {
        all.emplace_back(name, status->id);
      }
    }
    return all;
  }

  /// Returns what is left of it to be removed, the newest first: not nothing before something was removed.
  [[nodiscard]] std::vector<Generation> find() const {
    try {
      return find_generations(parent_, target_, generations());
    } catch (const Error& error) {
      if (!has_removed_ || error.code() != Errc::not_found) {
        throw;
      }
      CAIRN_PROBE("store.removal_finds_nothing_left");
      return {};
    }
  }

  /// Errors: as remove_checkpoint; anything where it is removed or replaced meanwhile.
  void run() {
    finish_in_doubt();
    std::vector<Generation> generations = find();
    for (const Generation& each : generations) {
      require_known_files(each.directory);
    }
    // What was replaced goes first, or it would be taken for a checkpoint that nothing has replaced.
    std::vector<std::string> kept;
    if (surroundings_ == Surroundings::unknown) {
      for (const Generation& each : set_leftovers_aside(parent_, target_.name, random_, own_, kept)) {
        keep(remove_retired(parent_, each.name, each.directory));
        own_.end(each.name);
      }
    }
    std::for_each(kept.begin(), kept.end(), [this](const std::string& each) { keep(each); });
    for (auto oldest = generations.rbegin(); oldest != generations.rend(); ++oldest) {
      CAIRN_ASSERT(!aside_.has_value(), "one generation at a time is set aside");
      aside_.emplace(Generation{trash_name(target_.name, make_uuid(random_)), std::move(oldest->directory)});
      aside_from_ = oldest->name;
      own_.begin(aside_->name);
      CAIRN_ASSERT(aside_from_ != aside_->name, "what is set aside gets another name");
      set_aside(parent_, aside_from_, aside_->name, aside_->directory);
      remove_aside();
    }
  }

  /// Forgets what was known, which is out of date.
  void look_around() noexcept { surroundings_ = Surroundings::unknown; }

  /// Returns whether it has failed in what nobody else removes.
  [[nodiscard]] bool is_at_ours() const { return is_at_ours_; }

  [[nodiscard]] RemovalReport report() { return std::move(report_); }

 private:
  /// The highest first.
  [[nodiscard]] std::vector<std::uint32_t> generations() const {
    return surroundings_ == Surroundings::alone ? std::vector<std::uint32_t>{1}
                                                : list_generations(parent_, target_.name);
  }

  /// Goes on with what an earlier run has set aside, where the answer to that was lost and so was the look at it.
  void finish_in_doubt() {
    if (!aside_) {
      return;
    }
    if (parent_.status(aside_->name)) {  // Nobody else uses its name.
      CAIRN_PROBE("store.set_aside_although_it_failed");
      remove_aside();
    } else if (!parent_.status(aside_from_) || !is_called(parent_, aside_from_, aside_->directory)) {
      CAIRN_PROBE("store.removed_by_somebody_else");
      has_removed_ = true;  // And a recovery was faster; or somebody else has removed it.
      parent_.sync();
    }
    if (aside_) {
      own_.end(aside_->name);
    }
    aside_.reset();
  }

  void remove_aside() {
    CAIRN_ASSERT(aside_.has_value() && !is_at_ours_, "what is removed was set aside");
    has_removed_ = true;
    is_at_ours_ = true;
    parent_.sync();
    keep(remove_retired(parent_, aside_->name, aside_->directory));
    is_at_ours_ = false;
    own_.end(aside_->name);
    aside_.reset();
  }

  /// Once, however many runs say so.
  void keep(std::string kept) {
    const bool is_known = std::find(report_.kept.begin(), report_.kept.end(), kept) != report_.kept.end();
    if (!kept.empty() && !is_known) {
      report_.kept.push_back(std::move(kept));
    }
  }

  const io::Directory& parent_;
  const Target& target_;
  const RandomSource& random_;
  OwnTrash own_;
  Surroundings surroundings_;
  RemovalReport report_;
  std::optional<Generation> aside_;  ///< What has been given this name of trash, or may have been.
  std::string aside_from_;           ///< The name that it had before.
  bool has_removed_ = false;
  bool is_at_ours_ = false;
};

}  // namespace

CheckpointLock lock_to_remove(const io::Directory& parent, const std::string& name, const Clock& clock) {
  const Target target = parse_target(parent.path() / name);
  const auto fail = [&](std::string_view who) {
    throw Error(std::error_code(EBUSY, std::system_category()),
                fmt::format("{} is not removed: {}", target.path.string(), who));
  };
  const Removal removal(parent, target, system_random, nullptr, Surroundings::unknown);
  for (LockWait waiting(clock);;) {
    const auto before = removal.seen();
    try {
      const std::string entry = removal.find().front().name;
      CheckpointLock lock(parent, entry);
      if (!lock.is_held()) {
        if (!waiting.wait()) {
          fail("it is being pinned, replaced or removed by somebody else");
        }
        continue;
      }
      if (const std::optional<std::string> pin = pin_of(parent, name, entry)) {
        fail(fmt::format("it is pinned ({})", *pin));
      }
      if (lock.is_in_use()) {
        fail("it is held by somebody who reads it, as a copy does");
      }
      return lock;
    } catch (const Error&) {  // Another process may remove it, or replace it.
      if (removal.seen() == before || !waiting.wait()) {
        throw;
      }
    }
  }
}

void remove_whole(const io::Directory& root, const std::string& name, const RandomSource& random) {
  const io::Directory directory = root.open_directory(name);
  std::string trash = name;
  if (!has_reserved_prefix(name)) {
    trash = trash_name(name, make_uuid(random));
    set_aside(root, name, trash, directory);
  }
  remove_unfinished(root, trash, directory);
}

RemovalReport remove_checkpoint(io::Syscalls& syscalls, const std::filesystem::path& path,
                                const RandomSource& random, Trash* trash, Surroundings surroundings) {
  const Target target = parse_target(path);
  return remove_checkpoint(open_parent(syscalls, target), target.name, random, trash, surroundings);
}

RemovalReport remove_checkpoint(const io::Directory& parent, const std::string& name,
                                const RandomSource& random, Trash* trash, Surroundings surroundings) {
  const Target target = parse_target(parent.path() / name);
  Removal removal(parent, target, random, trash, surroundings);
  for (int restarts = 0;; ++restarts) {
    const auto before = removal.seen();
    try {
      removal.run();
      return removal.report();
    } catch (const Error&) {  // Another process may remove the same, or replace it.
      if (removal.is_at_ours() || restarts == kMostRestarts || removal.seen() == before) {
        throw;
      }
      CAIRN_PROBE("store.removal_tried_again");
    }
    removal.look_around();
  }
}

}  // namespace cairn::store
