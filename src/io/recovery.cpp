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
#include "io/retire.hpp"

namespace cairn::io {
namespace {

constexpr std::size_t kMostOwnerBytes = 4096;

/// Who holds a temporary directory, as far as its owner file tells.
enum class Holder : std::uint8_t { nobody, somebody, unknown };

/// An entry and, while it is to be removed, the lock that keeps its writer away.
struct Found {
  RecoveryEntry entry;
  FileHandle lock;
  std::uint32_t generation = 0;  // Of a committed one.
  bool is_empty = false;         // A temporary or trash that held nothing when it was looked at.
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
    std::vector<Found> found;
    for (const DirectoryEntry& entry : root_.list()) {
      found.push_back(classify(entry));
    }
    mark_superseded(found);
    sync_root();  // All that was seen is durable before anything goes that it replaced.
    RecoveryReport report;
    for (Found& each : found) {
      const bool is_rubbish =
          each.entry.kind == EntryClass::abandoned || each.entry.kind == EntryClass::retired;
      if (is_rubbish && !options_.dry_run) {
        remove(each);
      }
      each.lock = {};
      report.entries.push_back(std::move(each.entry));
    }
    return report;
  }

 private:
  void sync_root() const {
    if (!options_.dry_run) {
      root_.sync();
    }
  }

  Found classify(const DirectoryEntry& entry) const {
    Found found;
    found.entry.name = entry.name;
    if (entry.kind != FileKind::directory) {
      found.entry.note = "no directory";
      return found;
    }
    try {
      if (const auto kind = reserved_kind(entry.name)) {
        classify_reserved(found, *kind);
      } else {
        classify_final(found);
      }
    } catch (const Error& error) {  // What cannot be looked at is left alone.
      found.entry.kind = EntryClass::foreign;
      found.entry.note = error.what();
    }
    return found;
  }

  void classify_reserved(Found& found, ReservedKind kind) const {
    const Directory directory = root_.open_directory(found.entry.name);
    const bool is_trash = kind == ReservedKind::trash;
    if (is_regular(directory, kOwnerName)) {
      judge_holder(found, directory, kOwnerName);
    } else if (is_regular(directory, kUncommittedName)) {
      judge_holder(found, directory, kUncommittedName);
    } else if (is_regular(directory, kCommitName)) {
      // A checkpoint that was swapped out: its own `.owner` went when it was committed.
      judge_commit_file(found, directory);
    } else if (directory.list().empty()) {
      found.entry.kind = is_trash ? EntryClass::retired : EntryClass::abandoned;
      found.entry.note = "empty";
      found.is_empty = true;
    } else {
      found.entry.note = "called like one of ours, but holds no proof of it";
    }
  }

  static void judge_commit_file(Found& found, const Directory& directory) {
    try {
      static_cast<void>(read_commit_record(directory));
      found.entry.kind = EntryClass::retired;
      found.entry.note = "replaced";
    } catch (const Error& error) {
      found.entry.note = error.what();
    }
  }

  void judge_holder(Found& found, const Directory& directory, std::string_view owner_name) const {
    const std::string name(owner_name);
    const int fd = uninterrupted([&] {
      return directory.syscalls().open_beneath(directory.fd(), name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK,
                                               0);
    });
    FileHandle lock(directory.syscalls(), require(fd, "open", directory.path() / name));
    const int locked = directory.syscalls().try_lock(lock.fd());
    const std::string text = read_small_file(directory, name, kMostOwnerBytes);
    const std::optional<Owner> owner = parse_owner(text);
    if (!owner && !text.empty()) {  // Empty: its writer died before the first word.
      found.entry.note = fmt::format("{} is none of ours", name);
      return;
    }
    const Holder holder = judge_lock(locked, owner);
    found.entry.kind = holder == Holder::nobody ? EntryClass::abandoned : EntryClass::live;
    if (owner) {
      found.entry.note = fmt::format("{} process {} on {}", holder == Holder::nobody ? "left by" : "held by",
                                     owner->pid, owner->host);
    }
    if (holder == Holder::nobody) {
      found.lock = std::move(lock);
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

  void classify_final(Found& found) const {
    const Directory directory = root_.open_directory(found.entry.name);
    if (is_regular(directory, kCommitName)) {
      if (is_regular(directory, kUncommittedName) && !options_.dry_run) {
        directory.sync();  // Marker mode: COMMIT is visible, but its name may not be durable.
      }
      const CommitCheck check = check_commit(root_, found.entry.name, true);
      found.entry.kind = check.is_committed ? EntryClass::committed : EntryClass::damaged;
      found.entry.note = check.problem;
      found.generation = check.is_committed ? check.generation : 0;
      if (check.is_committed && !options_.dry_run) {
        tidy(directory);
      }
    } else if (is_regular(directory, kUncommittedName)) {
      judge_holder(found, directory, kUncommittedName);
    } else if (is_regular(directory, kManifestName)) {
      found.entry.kind = EntryClass::damaged;
      found.entry.note = fmt::format("{} is missing", kCommitName);
    } else {
      found.entry.note = "no checkpoint";
    }
  }

  /// Removes the mark of ownership that a crash right after the commit has left.
  static void tidy(const Directory& directory) {
    for (const std::string_view name : {kOwnerName, kUncommittedName}) {
      if (!is_regular(directory, name) || !parse_owner(read_small_file(directory, name, kMostOwnerBytes))) {
        continue;
      }
      const FileHandle file = directory.open_file(name, O_RDWR);
      if (directory.syscalls().try_lock(file.fd()) >= 0) {
        directory.remove_file(name);
      }
    }
  }

  /// A later generation that is whole makes the earlier ones superfluous.
  static void mark_superseded(std::vector<Found>& found) {
    std::map<std::string, std::uint32_t, std::less<>> newest;
    for (const Found& each : found) {
      const GenerationName name = parse_generation(each.entry.name);
      if (each.entry.kind == EntryClass::committed && name.generation > 1 &&
          each.generation == name.generation) {
        std::uint32_t& highest = newest[std::string(name.base)];
        highest = std::max(highest, name.generation);
      }
    }
    for (Found& each : found) {
      const GenerationName name = parse_generation(each.entry.name);
      const auto successor = newest.find(name.base);
      const bool is_older = successor != newest.end() && each.generation == name.generation &&
                            name.generation < successor->second;
      if (each.entry.kind == EntryClass::committed && is_older) {
        each.entry.kind = EntryClass::retired;
        each.entry.note = fmt::format("replaced by {}", generation_name(name.base, successor->second));
      }
    }
  }

  void remove(Found& found) const noexcept {
    RecoveryEntry& entry = found.entry;
    try {
      if (found.is_empty) {
        // Never more than the empty directory: its writer may have claimed it since.
        root_.remove_empty_directory(entry.name);
      } else {
        retire(root_, entry.name, system_random);
      }
      entry.is_removed = true;
    } catch (...) {
      entry.note = describe(std::current_exception());
    }
  }

  Directory root_;
  RecoveryOptions options_;
  bool is_shared_;
};

}  // namespace

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
