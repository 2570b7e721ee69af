// SPDX-License-Identifier: Apache-2.0
// What an entry of a directory of checkpoints is. Everything that recovery may remove goes by what is said here, so an
// error is not an answer: what cannot be looked at is kept, and so is all that depends on it.
#include "store/directory_scan.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/parallel_for.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "io/internal/read_small_file.hpp"
#include "store/commit_record.hpp"
#include "store/contents.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/listing.hpp"
#include "store/internal/manifest.hpp"
#include "store/names.hpp"
#include "store/owner.hpp"
#include "store/staged_state.hpp"

namespace cairn::store {
namespace {

constexpr std::size_t kMostOwnerBytes = 4096;
constexpr std::size_t kEntriesForAThread = 256;  // To start one takes as long as to look at a few of them.
constexpr std::size_t kEntriesAtOnce = 8192;     // Then what is foreign among them is forgotten.
constexpr std::string_view kLostAndFound = "lost+found";  // Made by mkfs, and nobody's but root's.

bool is_regular(const io::Directory& directory, std::string_view name) {
  const std::optional<io::FileStatus> status = directory.status(name);
  return status && status->kind == io::FileKind::regular;
}

/// The uuid in a directory's COMMIT; nothing when it has none that is valid by itself.
std::optional<Uuid> commit_uuid(const io::Directory& directory) {
  try {
    return read_commit_record(directory).uuid;
  } catch (const Error& error) {
    if (error.code().category() != cairn_category()) {
      throw;
    }
    return std::nullopt;
  }
}

/// The checkpoint that stands where one belongs, as readers find it.
struct CurrentCheckpoint {
  enum class Kind : std::uint8_t { nothing, sound, something };
  Kind kind = Kind::nothing;
  std::string name;  ///< Of what stands there.
  std::string why;   ///< What keeps it from being a checkpoint.
  Uuid uuid;         ///< Of a sound one.
  /// What the operating system said when it could not be read: then it may be sound or not.
  std::error_code unreadable;
};

/// The checkpoint called `base` as readers find it: sound means that nothing above it hides it.
CurrentCheckpoint current_checkpoint_of(const io::Directory& root, const std::string& base) {
  for (const std::uint32_t generation : list_generations(root, base)) {
    std::string name = generation_name(base, generation);
    const CommitCheck check = check_commit(root, name, true);
    const bool is_own = generation == 1 || check.generation == generation;
    if (check.is_committed && is_own) {
      return {CurrentCheckpoint::Kind::sound, std::move(name), "", check.uuid, {}};
    }
    const bool is_another = check.is_committed;  // A checkpoint that is only called like a generation.
    if (check.unreadable || generation == 1 || (!is_another && has_commit(root.open_directory(name)))) {
      return {CurrentCheckpoint::Kind::something, std::move(name), check.problem, {}, check.unreadable};
    }
  }
  return root.status(base)
             ? CurrentCheckpoint{CurrentCheckpoint::Kind::something, base, "it is not a directory", {}, {}}
             : CurrentCheckpoint();
}

/// A later generation that is whole makes the earlier ones superfluous when its save was cut short before it could
/// remove them: its mark is still there. Without a mark they are copies that somebody has put there.
void mark_superseded(std::vector<ScannedEntry>& found) {
  struct Newest {
    std::uint32_t generation = 1;
    bool is_unfinished = false;
  };
  std::map<std::string, Newest, std::less<>> newest;
  for (const ScannedEntry& each : found) {
    const GenerationName name = parse_generation(each.entry.name);
    if (each.entry.kind == EntryClass::committed && name.generation > 1 &&
        each.classification.generation == name.generation) {
      Newest& highest = newest[std::string(name.base)];
      if (name.generation > highest.generation) {
        highest = {name.generation, !each.classification.marks.empty()};
      }
    }
  }
  for (ScannedEntry& each : found) {
    const GenerationName name = parse_generation(each.entry.name);
    const auto successor = newest.find(name.base);
    const bool is_older = successor != newest.end() && each.classification.generation == name.generation &&
                          name.generation < successor->second.generation;
    if (each.entry.kind != EntryClass::committed || !is_older) {
      continue;
    }
    each.entry.is_hidden = true;
    const std::string later = generation_name(name.base, successor->second.generation);
    if (successor->second.is_unfinished) {
      CAIRN_PROBE("store.older_generation_is_retired");
      each.entry.kind = EntryClass::retired;
      each.entry.note = fmt::format("replaced by {}", later);
    } else {
      each.entry.note = fmt::format("an older generation: {} is what readers find", later);
    }
  }
}

/// Returns whether the name that a displaced checkpoint belongs to is free, or is that of a save which was
/// cut short.
bool is_free_soon(const std::vector<ScannedEntry>& found, const std::string& blocked_by) {
  return blocked_by.empty() || std::any_of(found.begin(), found.end(), [&](const ScannedEntry& each) {
           return each.entry.name == blocked_by && each.entry.kind == EntryClass::abandoned;
         });
}

/// Where two belong under one name, somebody else must choose.
void settle_conflicts(std::vector<ScannedEntry>& found) {
  std::map<std::string, int, std::less<>> candidates;
  for (const ScannedEntry& each : found) {
    candidates[each.home] += each.entry.action == RecoveryAction::restore ? 1 : 0;
  }
  for (ScannedEntry& each : found) {
    if (each.entry.action == RecoveryAction::restore && candidates[each.home] > 1) {
      CAIRN_PROBE("store.several_checkpoints_of_one_name");
      each.entry.action = RecoveryAction::keep;
      each.entry.note = fmt::format("one of {} checkpoints that belong under the name {}",
                                    candidates[each.home], each.home);
    }
  }
}

/// `path`, which cannot be found, and which part of it that is: where a link leads nowhere, or the first directory
/// that is missing.
std::string describe_missing(io::Syscalls& syscalls, const std::filesystem::path& path) {
  io::FileStatus status;
  const auto is_there = [&](const std::filesystem::path& part) {
    return io::uninterrupted([&] { return syscalls.status_at(AT_FDCWD, part.c_str(), status); }) >= 0;
  };
  std::filesystem::path first = path;
  while (first.has_relative_path() && first.has_parent_path() && !is_there(first) &&
         !is_there(first.parent_path())) {
    first = first.parent_path();
  }
  const std::filesystem::path link = is_there(first) ? first : first.parent_path();
  if (!link.empty() && is_there(link) && status.kind == io::FileKind::symlink && !is_there(link / ".")) {
    return fmt::format("{}: the link {} leads nowhere", path.string(), link.string());
  }
  return first == path ? path.string() : fmt::format("{}: {} is missing", path.string(), first.string());
}

/// Returns the note on a directory of parts, beside which its checkpoint may stand already.
std::string note_on_parts(const io::Directory& root, std::string_view name) {
  const std::string base(name.substr(kPartialPrefix.size()));
  return current_checkpoint_of(root, base).kind == CurrentCheckpoint::Kind::nothing
             ? "parts of a checkpoint that was not finalized"
             : fmt::format(
                   "parts beside '{}': they were left over if it was made of them, else they are to replace "
                   "it",
                   base);
}

}  // namespace

io::Directory open_root(io::Syscalls& syscalls, const std::filesystem::path& path) {
  try {
    io::Directory root = io::Directory::open(syscalls, path);
    if (is_checkpoint(root)) {
      throw Error(Errc::invalid_argument,
                  fmt::format("{} is a checkpoint, not a directory of checkpoints", path.string()));
    }
    return root;
  } catch (const Error& error) {
    if (error.code() == std::error_code(ENOENT, std::system_category())) {
      throw Error(Errc::not_found, describe_missing(syscalls, path));
    }
    throw;
  }
}

DirectoryScan::DirectoryScan(const io::Directory& root, RecoveryOptions options)
    : root_(root),
      options_(std::move(options)),
      is_shared_(!io::is_of_this_machine(root_.syscalls(), root_.fd())) {}

std::vector<ScannedEntry> DirectoryScan::run(std::size_t most_threads,
                                             std::vector<RecoveryEntry>* foreign) const {
  std::vector<ScannedEntry> found = look_at_all(root_.list(), most_threads, foreign);
  mark_superseded(found);
  for (ScannedEntry& each : found) {
    if (each.entry.kind == EntryClass::abandoned || each.entry.kind == EntryClass::retired) {
      CAIRN_ASSERT(each.entry.action == RecoveryAction::keep, "an entry gets one action");
      each.entry.action = RecoveryAction::remove;
    } else if (each.entry.kind == EntryClass::displaced &&
               is_free_soon(found, each.classification.blocked_by)) {
      CAIRN_ASSERT(parse_reserved(each.entry.name).has_value(), "only what was set aside is put back");
      CAIRN_PROBE("store.displaced_checkpoint_found");
      const std::string base(parse_reserved(each.entry.name)->base);
      each.home = generation_name(base, each.classification.generation);
      each.entry.action = RecoveryAction::restore;
      each.entry.note = fmt::format("a valid checkpoint of '{}' that has not been replaced", each.home);
    } else if (!each.classification.marks.empty()) {
      CAIRN_ASSERT(each.entry.kind == EntryClass::committed, "only checkpoints have marks that are left");
      CAIRN_PROBE("store.mark_left_in_a_checkpoint");
      each.entry.action = RecoveryAction::unmark;
      each.entry.note = "the save was cut short after its commit";
    }
  }
  settle_conflicts(found);
  return found;
}

std::vector<ScannedEntry> DirectoryScan::look_at_all(const std::vector<io::DirectoryEntry>& entries,
                                                     std::size_t most_threads,
                                                     std::vector<RecoveryEntry>* foreign) const {
  std::vector<ScannedEntry> found;
  for (std::size_t begin = 0; begin < entries.size(); begin += kEntriesAtOnce) {
    const std::size_t count = std::min(entries.size() - begin, kEntriesAtOnce);
    for (ScannedEntry& each : look_at_each(std::span(entries).subspan(begin, count), most_threads)) {
      if (each.entry.kind != EntryClass::foreign) {
        found.push_back(std::move(each));
      } else if (foreign != nullptr) {
        foreign->push_back(std::move(each.entry));
      }
    }
  }
  return found;
}

std::vector<ScannedEntry> DirectoryScan::look_at_each(std::span<const io::DirectoryEntry> entries,
                                                      std::size_t most_threads) const {
  std::vector<ScannedEntry> found(entries.size());
  const auto look = [&](std::size_t index) {
    ScannedEntry& each = found[index];
    each.classification = look_at(entries[index]);
    each.classification.lock = {};  // There may be more entries than a process may have open files.
    each.entry.name = entries[index].name;
    each.entry.kind = each.classification.kind;
    each.entry.note = each.classification.note;
    each.entry.generation = each.classification.generation;
  };
  const std::size_t cores = std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
  parallel_for(entries.size(), std::min({most_threads, cores, entries.size() / kEntriesForAThread + 1}),
               look);
  return found;
}

Classification DirectoryScan::look_at(const io::DirectoryEntry& entry) const {
  Classification unseen;
  if (entry.kind != io::FileKind::directory) {
    unseen.note = "not a directory";
    return unseen;
  }
  try {
    for (int restarts = 0;; ++restarts) {
      const io::Directory directory = root_.open_directory(entry.name);
      Classification classification = classify(directory, entry.name);
      // What is missing in a checkpoint that was just replaced is not damage; and a save that has just ended has
      // moved its directory to where it belongs.
      const bool may_have_moved =
          classification.kind == EntryClass::damaged || classification.kind == EntryClass::displaced;
      if (!may_have_moved || restarts == kMostRestarts || !directory.is_replaced()) {
        return classification;
      }
    }
  } catch (const Error& error) {
    CAIRN_PROBE("store.entry_cannot_be_looked_at");
    const bool is_other = error.code() == std::errc::no_such_file_or_directory ||
                          error.code() == std::errc::too_many_symbolic_link_levels ||
                          error.code().category() == cairn_category() || entry.name == kLostAndFound;
    unseen.kind = is_other ? EntryClass::foreign : EntryClass::unreadable;
    unseen.hides_older = !is_other;
    unseen.note = error.what();
    return unseen;
  }
}

Classification DirectoryScan::classify(const io::Directory& directory, std::string_view name) const {
  Classification classification;
  if (reserved_kind(name)) {
    classify_reserved(classification, directory, name);
  } else {
    classify_final(classification, directory, name);
  }
  return classification;
}

bool DirectoryScan::has_sound_successor(std::string_view name) const {
  const CurrentCheckpoint current = current_checkpoint_of(root_, std::string(parse_generation(name).base));
  return current.kind == CurrentCheckpoint::Kind::sound &&
         parse_generation(current.name).generation > parse_generation(name).generation;
}

void DirectoryScan::classify_reserved(Classification& classification, const io::Directory& directory,
                                      std::string_view name) const {
  CAIRN_ASSERT(parse_reserved(name).has_value(), "a name that is taken apart is a reserved one");
  const ReservedName reserved = *parse_reserved(name);
  const bool is_trash = reserved.kind == ReservedKind::trash;
  const std::optional<Uuid> commit = commit_uuid(directory);
  classification.has_commit = commit.has_value();
  for (const std::string_view mark : {kOwnerName, kUncommittedName}) {
    if (is_regular(directory, mark)) {
      const std::optional<Uuid> writer = classify_holder(classification, directory, mark);
      // A directory that its writer has not made under this name was a checkpoint before. The mark was left in it, and
      // says nothing of what it is now. (What other ranks have moved to the trash has the uuid of its save: it never
      // was one.)
      const bool is_left = commit && writer.value_or(*commit) != reserved.uuid;
      if (is_left && classification.kind == EntryClass::abandoned) {
        CAIRN_PROBE("store.mark_left_in_what_was_set_aside");
        break;
      }
      return;
    }
  }
  if (commit && is_trash) {
    CAIRN_PROBE("store.removal_was_cut_short");
    classification.kind = EntryClass::retired;
    classification.note = "its removal was cut short";
  } else if (commit) {
    classify_set_aside(classification, directory, reserved.base);
  } else if (directory.list().empty()) {
    CAIRN_PROBE("store.save_stopped_after_its_start");
    classification.kind = is_trash ? EntryClass::retired : EntryClass::abandoned;
    classification.note =
        is_trash ? "its removal was cut short" : "a save that stopped right after it started";
    classification.is_empty = true;
  } else {
    classification.kind = EntryClass::foreign;
    classification.note = "has a name Cairn reserves, but was not made by Cairn";
  }
}

/// A checkpoint under a temporary name. It was replaced by what stands where it belongs, or it belongs back there.
void DirectoryScan::classify_set_aside(Classification& classification, const io::Directory& directory,
                                       std::string_view base) const {
  classification.note.clear();
  classification.lock = {};
  const CommitCheck own = check_commit(directory, true);
  if (own.unreadable) {
    throw Error(own.unreadable, own.problem);
  }
  classification.facts = own.facts;
  const CurrentCheckpoint current = current_checkpoint_of(root_, std::string(base));
  const bool is_replaced =
      current.kind == CurrentCheckpoint::Kind::sound && (!own.is_committed || current.uuid != own.uuid);
  if (is_replaced) {
    CAIRN_PROBE("store.replaced_checkpoint_found");
    classification.kind = EntryClass::retired;
    classification.note = fmt::format("replaced by {}", current.name);
  } else if (own.is_committed) {
    classification.kind = EntryClass::displaced;
    classification.generation = own.generation;
    classification.blocked_by = current.name;
    if (current.kind != CurrentCheckpoint::Kind::nothing) {
      classification.note =
          current.kind == CurrentCheckpoint::Kind::sound
              ? fmt::format("a copy of {}", current.name)
              : fmt::format("a valid checkpoint, and {} is not one: {}", current.name, current.why);
    }
  } else if (holds_only_own_files(directory)) {
    CAIRN_PROBE("store.removal_left_own_files");
    classification.kind = EntryClass::retired;
    classification.note = "its removal was cut short";
  } else if (current.unreadable) {  // It may have replaced this one, of which a part was removed then.
    CAIRN_PROBE("store.cannot_tell_what_replaced_it");
    throw Error(current.unreadable, current.why);
  } else {
    classification.kind = EntryClass::damaged;
    classification.note = own.problem;
  }
}

std::optional<Uuid> DirectoryScan::classify_holder(Classification& classification,
                                                   const io::Directory& directory,
                                                   std::string_view owner_name) const {
  // The file that is locked is the one that is read, whatever takes its name meanwhile.
  io::FileHandle lock = directory.open_file(owner_name, O_RDWR);
  const int locked = io::uninterrupted([&] { return directory.syscalls().try_lock(lock.fd()); });
  const std::string text = io::read_small_file(lock, directory.path() / owner_name, kMostOwnerBytes);
  const std::optional<Owner> owner = parse_owner(text);
  // A power cut may leave anything in a mark that was being written; then it is the only entry.
  if (!owner && directory.list().size() > 1) {
    CAIRN_PROBE("store.mark_of_somebody_else");
    classification.note = fmt::format("{} was not made by Cairn", owner_name);
    return std::nullopt;
  }
  const bool is_far = is_shared_ && (owner ? owner->host != this_process({}).host : !text.empty());
  const Holder holder = classify_lock(locked, is_far, owner && is_gone(*owner));
  classification.kind = holder == Holder::nobody ? EntryClass::abandoned : EntryClass::live;
  if (owner) {
    classification.note = fmt::format("{} process {} on {}", holder == Holder::nobody ? "left by" : "held by",
                                      owner->pid, owner->host);
  } else if (holder == Holder::nobody) {
    CAIRN_PROBE("store.writer_left_no_owner");
    classification.note = "left by a writer that exited before it recorded its owner";
  }
  if (holder == Holder::nobody) {
    classification.lock = std::move(lock);
  }
  return owner ? std::optional(owner->uuid) : std::nullopt;
}

DirectoryScan::Holder DirectoryScan::classify_lock(int locked, bool is_far, bool is_gone) const {
  if (locked == -EAGAIN) {
    return Holder::somebody;
  }
  if (is_far) {  // Locks of a shared file system may be local to each machine.
    CAIRN_PROBE("store.mark_of_another_machine");
    return options_.other_hosts ? Holder::nobody : Holder::unknown;
  }
  if (locked < 0) {  // No locks here.
    CAIRN_PROBE("store.no_locks");
    return is_gone ? Holder::nobody : Holder::unknown;
  }
  return Holder::nobody;
}

void DirectoryScan::classify_final(Classification& classification, const io::Directory& directory,
                                   std::string_view name) const {
  if (is_regular(directory, kCommitName) && has_commit(directory)) {
    if (!options_.dry_run && is_regular(directory, kUncommittedName)) {
      sync_commit(directory);
    }
    CommitCheck check = check_commit(directory, true);
    if (check.unreadable) {
      throw Error(check.unreadable, check.problem);
    }
    classification.facts = std::move(check.facts);
    classification.kind = check.is_committed ? EntryClass::committed : EntryClass::damaged;
    classification.note = check.problem;
    classification.generation = check.is_committed ? check.generation : 0;
    const bool is_own = check.generation == 0 || check.generation == parse_generation(name).generation;
    classification.hides_older = !check.is_committed && is_own;
    if (check.is_committed) {
      CAIRN_ASSERT(check.problem.empty(), "what is committed has no problem");
      classification.marks = left_marks(directory);
    }
  } else if (is_regular(directory, kUncommittedName)) {
    static_cast<void>(classify_holder(classification, directory, kUncommittedName));
  } else if (is_regular(directory, kManifestName)) {
    CAIRN_PROBE("store.checkpoint_without_commit");
    classification.kind = EntryClass::damaged;
    classification.note = fmt::format("{} is missing", kCommitName);
  } else if (is_regular(directory, kChunksName)) {  // Every checkpoint has that file, and nobody else.
    classification.kind = EntryClass::damaged;
    classification.note = fmt::format("{} and {} are missing", kCommitName, kManifestName);
  } else {
    classification.note = name.starts_with(kPartialPrefix) ? note_on_parts(root_, name) : "not a checkpoint";
  }
}

/// The marks of ownership that a crash right after the commit has left.
std::vector<std::string_view> DirectoryScan::left_marks(const io::Directory& directory) const {
  std::vector<std::string_view> marks;
  for (const std::string_view name : {kOwnerName, kUncommittedName}) {
    if (is_left_mark(directory, name)) {
      marks.push_back(name);
    }
  }
  return marks;
}

bool DirectoryScan::is_left_mark(const io::Directory& directory, std::string_view name) const {
  try {
    if (!is_regular(directory, name)) {
      return false;
    }
    const io::FileHandle mark = directory.open_file(name, O_RDWR);
    const int locked = io::uninterrupted([&] { return directory.syscalls().try_lock(mark.fd()); });
    const auto owner = parse_owner(io::read_small_file(mark, directory.path() / name, kMostOwnerBytes));
    const bool is_far = is_shared_ && owner && owner->host != this_process({}).host;
    return owner && classify_lock(locked, is_far, is_gone(*owner)) == Holder::nobody;
  } catch (const Error&) {  // Harmless where it is: the checkpoint is one with or without it.
    CAIRN_PROBE("store.mark_cannot_be_looked_at");
    return false;
  }
}

}  // namespace cairn::store
