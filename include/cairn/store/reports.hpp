// SPDX-License-Identifier: Apache-2.0
#pragma once

// Recoveries, checks, removals and listings of checkpoints take and return these.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::store {

/// Says what recovery takes an entry of the root for.
enum class EntryClass : std::uint8_t {
  committed,   ///< A checkpoint whose COMMIT and manifest agree and whose files are all there, in
               ///< size.
  damaged,     ///< A checkpoint that is not: kept, and reported.
  unreadable,  ///< A directory that cannot be looked at, and may be a checkpoint: kept, and reported.
  displaced,   ///< A sound checkpoint under a temporary name that nothing has replaced: put back, or kept and
               ///< reported.
  live,        ///< Being written by somebody who is, or may be, alive: kept.
  abandoned,   ///< The temporary directory of a writer that is gone: removed.
  retired,     ///< A checkpoint that a sound one has replaced, or whose removal was asked for: removed.
  foreign,     ///< Not ours: never touched.
};

/// "committed", "damaged", …
[[nodiscard]] std::string_view name(EntryClass kind) noexcept;

/// Says what recovery does with an entry.
enum class RecoveryAction : std::uint8_t {
  keep,     ///< Nothing.
  unmark,   ///< A commit is finished: the mark of its writer, which a crash has left in it, goes.
  restore,  ///< A displaced checkpoint gets its name back.
  remove,   ///< What a crash has left goes. What is in a checkpoint and is not the checkpoint's stays.
};

/// "keep", "unmark", "restore", "remove".
[[nodiscard]] std::string_view name(RecoveryAction action) noexcept;

struct RecoveryEntry {
  std::string name;
  EntryClass kind = EntryClass::foreign;
  RecoveryAction action = RecoveryAction::keep;  ///< Decided before anything is done: the same in a dry run.
  std::uint32_t generation = 0;                  ///< The generation of a sound checkpoint; else 0.
  bool is_hidden = false;  ///< A committed one that readers do not find: a later generation has its name.
  bool is_removed = false;
  bool has_failed = false;  ///< The action was stopped.
  std::string note;         ///< Why, or what stopped the action.
};

struct RecoveryReport {
  std::vector<RecoveryEntry> entries;  ///< Sorted by name.
};

struct RecoveryOptions {
  RecoveryOptions() = default;

  /// Only decide; change nothing. A run after it decides the same, for as long as nobody changes the
  /// directory.
  bool dry_run = false;
  /// Also remove temporaries made on other machines of a shared file system, where locks prove
  /// little. Only for callers who know that no other machine writes here.
  bool other_hosts = false;
  /// Told of each entry when its action was done, or was stopped; on the thread that recovers. Null: nobody is.
  std::function<void(const RecoveryEntry& entry)> on_done;
};

/// In which way a part of a checkpoint is not what was written.
enum class Damage : std::uint8_t {
  missing,     ///< The file is not there.
  wrong_kind,  ///< A directory, a link or a device is in the file's place.
  wrong_size,  ///< The file is shorter or longer; its bytes were not compared.
  altered,     ///< Bytes differ from what was written.
  unreadable,  ///< The operating system could not read the bytes.
};

/// "missing", "wrong kind", …
[[nodiscard]] std::string_view name(Damage damage) noexcept;

struct VerifyProblem {
  Damage damage = Damage::altered;
  std::string file;  ///< Relative to the checkpoint.
  /// Who wrote the file; nothing where one process wrote all.
  std::optional<std::uint32_t> rank;
  /// Which chunk of the file; nothing when the whole file is concerned, or nobody can tell which part.
  std::optional<std::uint64_t> chunk;
  std::uint64_t begin_bytes =
      0;  ///< The bytes concerned: [begin_bytes, end_bytes) of the file as it was written.
  std::uint64_t end_bytes = 0;
  std::string text;  ///< For people: the path, the chunk and its range, and what is wrong.
};

struct VerifyProgress {
  std::uint64_t total_bytes = 0;  ///< The size of all files that are to be compared.
  std::uint64_t checked_bytes = 0;
  std::uint64_t problems = 0;
};

struct VerifyReport {
  std::filesystem::path path;
  std::uint64_t files = 0;              ///< That the checkpoint lists, its own three included.
  std::uint64_t bytes = 0;              ///< That were read and compared.
  std::uint64_t problem_count = 0;      ///< All of them, also those beyond VerifyOptions::max_problems.
  std::vector<VerifyProblem> problems;  ///< Sorted by file, then by position.
  /// What lies in the checkpoint's directory and is not the checkpoint's, relative and sorted; of a whole tree its top.
  /// Not a problem: nothing of it is read, and nothing of Cairn removes it.
  std::vector<std::string> foreign;
  std::uint64_t foreign_count = 0;  ///< All of it, also beyond VerifyOptions::max_problems.

  [[nodiscard]] bool is_sound() const noexcept { return problem_count == 0; }
};

struct VerifyOptions {
  VerifyOptions() = default;

  /// Threads that hash, and read what is small or in the page cache; 0: as many as the machine has cores. Each costs
  /// up to 20 MiB of memory, for the transfers that it keeps in flight.
  std::size_t threads = 0;
  /// Check only what lies below this directory of the checkpoint; empty: everything.
  std::string directory;
  /// Problems that are kept, and foreign files; more are counted. Bounds memory when a large checkpoint is destroyed.
  std::size_t max_problems = 10'000;
  /// Called about ten times a second and once at the end, on the calling thread. What it throws ends the check.
  std::function<void(const VerifyProgress&)> progress;
};

struct RemovalReport {
  /// What was in the checkpoint's directory and is not the checkpoint's, and where it was kept: a sentence for each
  /// generation that held any; or an earlier checkpoint that was replaced, and is so damaged that nobody can tell its
  /// files. Empty as a rule.
  std::vector<std::string> kept;
};

/// When a checkpoint was committed, as the clock of its writer had it.
using CommitTime = std::chrono::sys_time<std::chrono::nanoseconds>;

/// The order of a list of checkpoints: the oldest comes first, the newest last.
enum class CheckpointOrder : std::uint8_t {
  by_name,  ///< Digits count as numbers: "step-9" before "step-10".
  /// By the time of the commit, as the clock of who saved had it, then by name. Those without one come first. Where a
  /// clock was set back, an older one may come last.
  by_time,
};

/// How numbers in names are read. Names that are padded to one width behind the point are in the same order either
/// way.
enum class NumbersInNames : std::uint8_t {
  apart,  ///< Each run of digits is a number, as in versions: "1.9" before "1.10".
  /// As fractions, also with an exponent, and with a sign where nothing stands before it: "0.15" before "0.2", "-10"
  /// before "-5".
  decimal,
};

/// Something in a directory of checkpoints.
struct FoundCheckpoint {
  std::string name;  ///< What it is opened by in its root; of what cannot be opened, what it is called there.
  std::filesystem::path path;  ///< The root and the name: for loads, removals and saves that overwrite.
  EntryClass kind = EntryClass::committed;  ///< As recovery sees it.
  std::string committed;  ///< As CheckpointMetadata::committed; empty when it cannot be told.
  std::optional<CommitTime>
      commit_time;  ///< The same for programs, with nanoseconds where they were recorded.
  std::optional<CommitTime>
      start_time;  ///< When its save began, by the same clock; nothing where it cannot be told.
  std::uint64_t checkpointables = 0;
  std::uint64_t bytes = 0;         ///< In its files.
  std::string annotations = "{}";  ///< As CheckpointMetadata::annotations.
  std::uint32_t generation = 0;    ///< The generation of a sound checkpoint; else 0. See docs/reliability.md.
  std::string entry;               ///< What its directory is called: "<name>.g2" of a second generation.
  bool is_hidden = false;  ///< A committed one that readers do not find: a later generation has its name.
  bool is_open = false;    ///< Its COMMIT and manifest agree: its files can be verified.
  std::string note;        ///< What recovery says of it; empty as a rule.
  std::string problem;     ///< Why a checkpoint cannot be loaded, with its path; empty when it can.

  /// Returns whether it can be loaded, as far as can be told without reading data.
  [[nodiscard]] bool is_sound() const noexcept {
    return kind == EntryClass::committed && !is_hidden && problem.empty();
  }
  /// Returns whether it is a checkpoint, sound or not: not what a save has left or is writing, no older
  /// generation.
  [[nodiscard]] bool counts() const noexcept;
};

struct ListOptions {
  ListOptions() = default;

  CheckpointOrder order = CheckpointOrder::by_name;
  /// How names are read for `order`. Unset: as both readings say or, where they do not agree on the order of these
  /// names, by the time of the commit.
  std::optional<NumbersInNames> numbers;
  /// Also what cannot be loaded and is or was Cairn's: damaged and displaced checkpoints, older generations, what
  /// saves are writing or have left.
  bool everything = false;
};

}  // namespace cairn::store
