// SPDX-License-Identifier: Apache-2.0
#include "cairn/io/recovery.hpp"

#include <fcntl.h>
#include <system_error>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/io/committed_directory.hpp"
#include "cairn/io/file.hpp"
#include "cairn/io/manifest.hpp"

#include "io/check.hpp"
#include "io/commit_record.hpp"
#include "io/names.hpp"
#include "io/owner.hpp"
#include "io/read_small_file.hpp"
#include "io/retire.hpp"

namespace cairn::io {
namespace {

constexpr std::size_t kMostOwnerBytes = 4096;

/// Who holds a temporary directory, as far as its owner file tells.
enum class Holder : std::uint8_t { nobody, somebody, unknown };

/// What a directory is taken for, and why.
struct Verdict {
  EntryClass kind = EntryClass::foreign;
  std::string note;
  FileHandle lock;                      // Keeps the writer of an abandoned one away.
  std::uint32_t generation = 0;         // Of a committed one.
  std::vector<std::string_view> marks;  // Of its dead writer, in a committed one.
  bool is_empty = false;                // A temporary or trash that holds nothing.
};

/// An entry and what it was taken for by itself, before it was seen beside the others.
struct Found {
  RecoveryEntry entry;
  Verdict verdict;
};

bool is_regular(const Directory& directory, std::string_view name) {
  const std::optional<FileStatus> status = directory.status(name);
  return status && status->kind == FileKind::regular;
}

class Recovery {
 public:
  Recovery(Directory root, RecoveryOptions options)
      : root_(std::move(root)),
        options_(options),
        is_shared_(root_.syscalls().is_network_file_system(root_.fd()) != 0) {}

  RecoveryReport run() {
    // A crash between rename and sync leaves names that are visible, but not durable.
    sync_root();
    std::vector<Found> found = plan();
    sync_root();  // All that was seen is durable before anything goes that it replaced.
    RecoveryReport report;
    for (Found& each : found) {
      if (!options_.dry_run) {
        execute(each);
      }
      report.entries.push_back(std::move(each.entry));
    }
    return report;
  }

 private:
  /// All that is decided is decided here, whether or not it is done afterwards.
  [[nodiscard]] std::vector<Found> plan() const {
    std::vector<Found> found;
    for (const DirectoryEntry& entry : root_.list()) {
      Found& each = found.emplace_back();
      each.verdict = look_at(entry);
      each.verdict.lock = {};  // There may be more entries than a process may have open files.
      each.entry.name = entry.name;
      each.entry.kind = each.verdict.kind;
      each.entry.note = each.verdict.note;
    }
    mark_superseded(found);
    for (Found& each : found) {
      if (each.entry.kind == EntryClass::abandoned || each.entry.kind == EntryClass::retired) {
        each.entry.action = RecoveryAction::remove;
      } else if (!each.verdict.marks.empty()) {
        each.entry.action = RecoveryAction::unmark;
        each.entry.note = "the save was cut short after its commit";
      }
    }
    return found;
  }

  void sync_root() const {
    if (!options_.dry_run) {
      root_.sync();
    }
  }

  [[nodiscard]] Verdict look_at(const DirectoryEntry& entry) const {
    Verdict unseen;
    if (entry.kind != FileKind::directory) {
      unseen.note = "no directory";
      return unseen;
    }
    try {
      for (int restarts = 0;; ++restarts) {
        const Directory directory = root_.open_directory(entry.name);
        Verdict verdict = judge(directory, entry.name);
        // What is missing in a checkpoint that was just replaced is no damage.
        if (verdict.kind != EntryClass::damaged || restarts == kMostRestarts || !directory.is_replaced()) {
          return verdict;
        }
      }
    } catch (const Error& error) {  // What cannot be looked at is left alone.
      unseen.note = error.what();
      return unseen;
    }
  }

  /// Judges a directory by its name and by what is in it.
  [[nodiscard]] Verdict judge(const Directory& directory, std::string_view name) const {
    Verdict verdict;
    if (const auto kind = reserved_kind(name)) {
      judge_reserved(verdict, directory, *kind);
    } else {
      judge_final(verdict, directory);
    }
    return verdict;
  }

  void judge_reserved(Verdict& verdict, const Directory& directory, ReservedKind kind) const {
    const bool is_trash = kind == ReservedKind::trash;
    if (is_regular(directory, kOwnerName)) {
      judge_holder(verdict, directory, kOwnerName);
    } else if (is_regular(directory, kUncommittedName)) {
      judge_holder(verdict, directory, kUncommittedName);
    } else if (is_regular(directory, kCommitName)) {
      // A checkpoint that was swapped out: its own `.owner` went when it was committed.
      judge_commit_file(verdict, directory, kind);
    } else if (directory.list().empty()) {
      verdict.kind = is_trash ? EntryClass::retired : EntryClass::abandoned;
      verdict.note = is_trash ? "its removal was cut short" : "a save that had hardly begun";
      verdict.is_empty = true;
    } else {
      verdict.note = "called like one of ours, but holds no proof of it";
    }
  }

  static void judge_commit_file(Verdict& verdict, const Directory& directory, ReservedKind kind) {
    try {
      static_cast<void>(read_commit_record(directory));
      verdict.kind = EntryClass::retired;
      verdict.note = kind == ReservedKind::trash ? "its removal was cut short"
                                                 : "replaced by an overwrite that was cut short";
    } catch (const Error& error) {
      verdict.note = error.what();
    }
  }

  void judge_holder(Verdict& verdict, const Directory& directory, std::string_view owner_name) const {
    // The file that is locked is the one that is read, whatever takes its name meanwhile.
    FileHandle lock = directory.open_file(owner_name, O_RDWR);
    const int locked = directory.syscalls().try_lock(lock.fd());
    const std::string text = read_small_file(lock, directory.path() / owner_name, kMostOwnerBytes);
    const std::optional<Owner> owner = parse_owner(text);
    if (!owner && !text.empty()) {  // Empty: its writer died before the first word.
      verdict.note = fmt::format("{} is none of ours", owner_name);
      return;
    }
    const Holder holder = judge_lock(locked, owner);
    verdict.kind = holder == Holder::nobody ? EntryClass::abandoned : EntryClass::live;
    if (owner) {
      verdict.note = fmt::format("{} process {} on {}", holder == Holder::nobody ? "left by" : "held by",
                                 owner->pid, owner->host);
    } else if (holder == Holder::nobody) {
      verdict.note = "left by a writer that died at once";
    }
    if (holder == Holder::nobody) {
      verdict.lock = std::move(lock);
    }
  }

  [[nodiscard]] Holder judge_lock(int locked, const std::optional<Owner>& owner) const {
    if (locked == -EAGAIN) {
      return Holder::somebody;
    }
    const bool is_far = is_shared_ && owner && owner->host != this_process({}).host;
    if (is_far) {  // Locks of a shared file system may be local to each machine.
      return options_.other_hosts ? Holder::nobody : Holder::unknown;
    }
    if (locked < 0) {  // No locks here.
      return owner && is_gone(*owner) ? Holder::nobody : Holder::unknown;
    }
    return Holder::nobody;
  }

  void judge_final(Verdict& verdict, const Directory& directory) const {
    if (is_regular(directory, kCommitName)) {
      if (is_regular(directory, kUncommittedName) && !options_.dry_run) {
        directory.sync();  // Marker mode: COMMIT is visible, but its name may not be durable.
      }
      const CommitCheck check = check_commit(directory, true);
      verdict.kind = check.is_committed ? EntryClass::committed : EntryClass::damaged;
      verdict.note = check.problem;
      verdict.generation = check.is_committed ? check.generation : 0;
      if (check.is_committed) {
        verdict.marks = left_marks(directory);
      }
    } else if (is_regular(directory, kUncommittedName)) {
      judge_holder(verdict, directory, kUncommittedName);
    } else if (is_regular(directory, kManifestName)) {
      verdict.kind = EntryClass::damaged;
      verdict.note = fmt::format("{} is missing", kCommitName);
    } else {
      verdict.note = "no checkpoint";
    }
  }

  /// The marks of ownership that a crash right after the commit has left.
  [[nodiscard]] static std::vector<std::string_view> left_marks(const Directory& directory) {
    std::vector<std::string_view> marks;
    for (const std::string_view name : {kOwnerName, kUncommittedName}) {
      if (is_left_mark(directory, name)) {
        marks.push_back(name);
      }
    }
    return marks;
  }

  static bool is_left_mark(const Directory& directory, std::string_view name) {
    try {
      return is_regular(directory, name) &&
             parse_owner(read_small_file(directory, name, kMostOwnerBytes)).has_value() &&
             directory.syscalls().try_lock(directory.open_file(name, O_RDWR).fd()) >= 0;
    } catch (const Error&) {  // Harmless where it is: the checkpoint is one with or without it.
      return false;
    }
  }

  /// A later generation that is whole makes the earlier ones superfluous.
  static void mark_superseded(std::vector<Found>& found) {
    std::map<std::string, std::uint32_t, std::less<>> newest;
    for (const Found& each : found) {
      const GenerationName name = parse_generation(each.entry.name);
      if (each.entry.kind == EntryClass::committed && name.generation > 1 &&
          each.verdict.generation == name.generation) {
        std::uint32_t& highest = newest[std::string(name.base)];
        highest = std::max(highest, name.generation);
      }
    }
    for (Found& each : found) {
      const GenerationName name = parse_generation(each.entry.name);
      const auto successor = newest.find(name.base);
      const bool is_older = successor != newest.end() && each.verdict.generation == name.generation &&
                            name.generation < successor->second;
      if (each.entry.kind == EntryClass::committed && is_older) {
        each.entry.kind = EntryClass::retired;
        each.entry.note = fmt::format("replaced by {}", generation_name(name.base, successor->second));
      }
    }
  }

  void execute(Found& found) const noexcept {
    RecoveryEntry& entry = found.entry;
    try {
      if (entry.action == RecoveryAction::remove) {
        remove(found);
      } else if (entry.action == RecoveryAction::unmark) {
        unmark(found);
      }
    } catch (...) {
      const std::optional<std::error_code> code = code_of(std::current_exception());
      // What is gone already is no failure: another recovery was quicker.
      entry.has_failed = !code || *code != std::errc::no_such_file_or_directory;
      entry.note = describe(std::current_exception());
    }
  }

  /// Judges once more: since the plan was made, names may have been given to other directories. Nothing is
  /// removed but what lies in the directory that is judged here.
  void remove(Found& found) const {
    const std::string& name = found.entry.name;
    const Directory directory = root_.open_directory(name);
    const Verdict verdict = judge(directory, name);
    if (verdict.kind != found.verdict.kind || verdict.generation != found.verdict.generation ||
        verdict.is_empty != found.verdict.is_empty) {
      found.entry.note = fmt::format("is {} now: {}", io::name(verdict.kind), verdict.note);
      return;
    }
    if (verdict.is_empty) {
      // Never more than the empty directory: its writer may have claimed it since.
      root_.remove_empty_directory(name);
    } else {
      retire(root_, name, directory, system_random);
    }
    found.entry.is_removed = true;
  }

  void unmark(const Found& found) const {
    const Directory directory = root_.open_directory(found.entry.name);
    for (const std::string_view name : judge(directory, found.entry.name).marks) {
      const FileHandle file = directory.open_file(name, O_RDWR);
      if (directory.syscalls().try_lock(file.fd()) >= 0) {
        directory.remove_file(name);
      }
    }
  }

  Directory root_;
  RecoveryOptions options_;
  bool is_shared_;
};

}  // namespace

std::string_view name(EntryClass kind) noexcept {
  switch (kind) {
    case EntryClass::committed:
      return "committed";
    case EntryClass::damaged:
      return "damaged";
    case EntryClass::live:
      return "live";
    case EntryClass::abandoned:
      return "abandoned";
    case EntryClass::retired:
      return "retired";
    case EntryClass::foreign:
      break;
  }
  return "foreign";
}

std::string_view name(RecoveryAction action) noexcept {
  switch (action) {
    case RecoveryAction::keep:
      break;
    case RecoveryAction::unmark:
      return "unmark";
    case RecoveryAction::remove:
      return "remove";
  }
  return "keep";
}

RecoveryReport recover(Syscalls& syscalls, const std::filesystem::path& root, RecoveryOptions options) {
  try {
    return Recovery(Directory::open(syscalls, root), options).run();
  } catch (const Error& error) {
    if (error.code() == std::error_code(ENOENT, std::system_category())) {
      throw Error(Errc::not_found, root.string());
    }
    throw;
  }
}

}  // namespace cairn::io
