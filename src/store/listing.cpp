// SPDX-License-Identifier: Apache-2.0
#include "store/internal/listing.hpp"

#include <system_error>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/store/reports.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/natural_order.hpp"
#include "store/commit_record.hpp"
#include "store/directory_scan.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/manifest.hpp"
#include "store/names.hpp"

namespace cairn::store {
namespace {

constexpr std::size_t kMostThreads =
    4;  // More wait for each other in the kernel: all look names up in one directory.

/// Why an entry that counts cannot be loaded. Errors of the layers below name the path themselves.
std::string problem_of(const std::filesystem::path& path, const std::string& note) {
  const bool is_named = note.find(path.string()) != std::string::npos;
  return is_named ? note : fmt::format("{}: {}", path.string(), note);
}

FoundCheckpoint found_of(const std::filesystem::path& root, const ScannedEntry& scanned) {
  FoundCheckpoint found;
  found.entry = scanned.entry.name;
  found.name = found.entry;
  found.kind = scanned.entry.kind;
  found.generation = scanned.entry.generation;
  found.is_hidden = scanned.entry.is_hidden;
  found.note = scanned.entry.note;
  if (scanned.classification.facts && found.counts()) {
    const ManifestFacts& facts = *scanned.classification.facts;
    found.committed = facts.committed;
    found.commit_time = facts.commit_time;
    found.start_time = facts.start_time;
    found.checkpointables = facts.checkpointables;
    found.bytes = facts.bytes;
    found.annotations = facts.annotations;
    found.is_open = !reserved_kind(found.entry);
  }
  // An overwritten checkpoint lies in "<name>.g<generation>" and is opened by its name. One that is only called so is
  // opened by all of it.
  const GenerationName parsed = parse_generation(found.entry);
  if (found.is_sound() && parsed.generation == found.generation) {
    found.name = parsed.base;
  }
  found.path = root / found.name;
  if (found.counts() && !found.is_sound()) {
    found.problem = problem_of(root / found.entry, found.note);
  }
  return found;
}

/// A later generation that readers find and that is not sound.
struct Obstacle {
  std::uint32_t generation = 0;
  std::string problem;
};

/// Readers take nothing for a checkpoint that lies below a later generation with a COMMIT, sound or not.
void mark_obstructed(const std::vector<ScannedEntry>& scanned, std::vector<FoundCheckpoint>& found) {
  CAIRN_ASSERT(scanned.size() == found.size(), "each entry that was scanned has its answer");
  std::map<std::string, Obstacle, std::less<>> obstacles;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const GenerationName parsed = parse_generation(found[i].entry);
    if (scanned[i].classification.hides_older && parsed.generation > 1) {
      Obstacle& highest = obstacles[std::string(parsed.base)];
      if (parsed.generation > highest.generation) {
        highest = {parsed.generation, found[i].problem};
      }
    }
  }
  for (FoundCheckpoint& each : found) {
    const auto obstacle = obstacles.find(each.name);
    if (obstacle != obstacles.end() && each.is_sound() && each.generation < obstacle->second.generation) {
      each.problem = obstacle->second.problem;
      each.is_open = false;
    }
  }
}

bool is_earlier(const FoundCheckpoint& a, const FoundCheckpoint& b) {
  return a.commit_time != b.commit_time ? a.commit_time < b.commit_time
                                        : is_before_by_name(a, b, NumbersInNames::apart);
}

void put_in_order(std::vector<FoundCheckpoint>& found, const ListOptions& options) {
  const auto by = [](NumbersInNames numbers) {
    return [numbers](const FoundCheckpoint& a, const FoundCheckpoint& b) {
      return is_before_by_name(a, b, numbers);
    };
  };
  bool is_by_time = options.order == CheckpointOrder::by_time;
  if (!is_by_time) {
    std::stable_sort(found.begin(), found.end(), by(options.numbers.value_or(NumbersInNames::apart)));
    is_by_time = !options.numbers && !std::is_sorted(found.begin(), found.end(), by(NumbersInNames::decimal));
  }
  if (is_by_time) {
    std::stable_sort(found.begin(), found.end(), is_earlier);
  }
}

/// The names of checkpoints of which there may be later generations, or what saves and removals of them have left.
std::set<std::string, std::less<>> accompanied_names(const std::vector<io::DirectoryEntry>& entries) {
  std::set<std::string, std::less<>> names;
  for (const io::DirectoryEntry& entry : entries) {
    if (const std::optional<ReservedName> reserved = parse_reserved(entry.name)) {
      names.emplace(reserved->base);
    } else if (const GenerationName parsed = parse_generation(entry.name); parsed.generation > 1) {
      names.emplace(parsed.base);
    }
  }
  return names;
}

/// Returns whether a directory has a COMMIT. One that cannot be looked at may have one: who opens it is told
/// why.
bool may_be_checkpoint(const io::Directory& root, const std::string& name) {
  try {
    const io::Directory directory = root.open_directory(name);
    const std::optional<io::FileStatus> commit = directory.status(kCommitName);
    // One look at each name: what has the size of a COMMIT counts as one.
    return commit && (commit->size_bytes >= kCommitBytes || has_commit(directory));
  } catch (const Error& error) {
    if (error.code() == std::errc::no_such_file_or_directory || error.code() == std::errc::not_a_directory) {
      return false;
    }
    const bool says_nothing_of_it = error.code() == std::errc::too_many_files_open ||
                                    error.code() == std::errc::too_many_files_open_in_system ||
                                    error.code() == std::errc::not_enough_memory;
    if (says_nothing_of_it) {
      throw;
    }
    return true;
  }
}

/// Returns whether the directory of `entry`, whose checkpoint is called `name`, is among those of an earlier list.
bool is_among(std::span<const NamedCheckpoint> earlier, const io::DirectoryEntry& entry,
              std::string_view name) {
  const auto same = std::ranges::lower_bound(earlier, name, {}, &NamedCheckpoint::name);
  return same != earlier.end() && same->name == name && same->entry == entry.name &&
         same->inode == entry.inode && entry.inode != 0;
}

}  // namespace

bool FoundCheckpoint::counts() const noexcept {
  switch (kind) {
    case EntryClass::committed:
      return !is_hidden;
    case EntryClass::damaged:
    case EntryClass::displaced:
      return true;
    case EntryClass::unreadable:
      return !entry.starts_with('.');  // Else it is what some save has left or is writing.
    case EntryClass::live:
    case EntryClass::abandoned:
    case EntryClass::retired:
    case EntryClass::foreign:
      break;
  }
  return false;
}

std::string_view name_in_root(const FoundCheckpoint& found) {
  const bool has_another = found.kind == EntryClass::displaced || found.kind == EntryClass::live;
  const auto reserved = has_another ? parse_reserved(found.entry) : std::nullopt;
  return reserved ? reserved->base : std::string_view(found.name);
}

bool is_called_like_ours(std::string_view name) noexcept {
  return has_reserved_prefix(name) || name.starts_with(kPartialPrefix) || name.starts_with(kRunPrefix);
}

bool is_before_by_name(const FoundCheckpoint& a, const FoundCheckpoint& b, NumbersInNames numbers) {
  return numbers == NumbersInNames::decimal ? is_decimally_less(name_in_root(a), name_in_root(b))
                                            : is_naturally_less(name_in_root(a), name_in_root(b));
}

std::vector<NamedCheckpoint> list_names(const io::Directory& root, std::span<const NamedCheckpoint> earlier) {
  struct Generation {
    std::uint32_t number = 0;
    std::string entry;
    std::uint64_t inode = 0;
  };
  std::map<std::string, Generation, std::less<>> highest;
  const std::vector<io::DirectoryEntry> entries = root.list();
  const std::set<std::string, std::less<>> accompanied = accompanied_names(entries);
  for (const io::DirectoryEntry& entry : entries) {
    if (entry.kind != io::FileKind::directory || reserved_kind(entry.name)) {
      continue;
    }
    GenerationName parsed = parse_generation(entry.name);
    if (is_among(earlier, entry, entry.name)) {
      parsed = {entry.name, 1};
    } else if (!is_among(earlier, entry, parsed.base)) {
      if (!may_be_checkpoint(root, entry.name)) {
        continue;
      }
      if (parsed.generation > 1 && check_commit(root, entry.name, false).generation != parsed.generation) {
        parsed = {entry.name, 1};  // It is only called so.
      }
    }
    Generation& generation = highest[std::string(parsed.base)];
    if (parsed.generation > generation.number) {
      generation = {parsed.generation, entry.name, entry.inode};
    }
  }
  std::vector<NamedCheckpoint> found;
  found.reserve(highest.size());
  for (auto& [name, generation] : highest) {
    CAIRN_ASSERT(generation.number >= 1 && !generation.entry.empty(),
                 "a checkpoint that is listed has an entry");
    const bool is_alone = generation.entry == name && !accompanied.contains(name);
    found.push_back({name, std::move(generation.entry), is_alone, generation.inode});
  }
  return found;
}

std::vector<FoundCheckpoint> list_checkpoints(io::Syscalls& syscalls, const std::filesystem::path& root,
                                              const ListOptions& options) {
  return list_checkpoints(open_root(syscalls, root), options);
}

std::vector<FoundCheckpoint> list_checkpoints(const io::Directory& root, const ListOptions& options) {
  RecoveryOptions dry;
  dry.dry_run = true;
  const std::vector<ScannedEntry> scanned = DirectoryScan(root, dry).run(kMostThreads);
  std::vector<FoundCheckpoint> found;
  found.reserve(scanned.size());
  for (const ScannedEntry& each : scanned) {
    found.push_back(found_of(root.path(), each));
  }
  mark_obstructed(scanned, found);
  std::erase_if(found, [&](const FoundCheckpoint& each) { return !options.everything && !each.is_sound(); });
  put_in_order(found, options);
  return found;
}

bool is_committed(io::Syscalls& syscalls, const std::filesystem::path& path) {
  try {
    const CommitCheck check = check_commit(CommittedDirectory::open(syscalls, path).directory(), true);
    if (check.unreadable) {
      throw Error(check.unreadable, check.problem);
    }
    return check.is_committed;
  } catch (const Error& error) {
    const bool is_answer = error.code() == Errc::not_found || error.code() == Errc::not_committed ||
                           error.code() == Errc::checksum_mismatch ||
                           error.code() == Errc::malformed_metadata;
    if (!is_answer) {
      throw;
    }
    return false;
  }
}

}  // namespace cairn::store
