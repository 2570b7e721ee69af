// SPDX-License-Identifier: Apache-2.0
// The commit: reliability rests on the order of the steps in this file. docs/reliability.md gives the reasons; a lint
// compares the steps.
//
//   1. The target is checked                                            save_target.cpp
//   2. .tmp-<name>-<uuid> is made next to it                            staged_directory.cpp
//   3. Data files are created with O_EXCL and O_NOFOLLOW                io/durable_file.cpp
//   4. When every write of a file has come back whole                   io/durable_file.cpp: it is synced and closed
//   5. chunks.xxh3, checkpoint.json and, last, COMMIT are written       publish_staged, seal
//   6. Every directory is synced, innermost first                       sync_tree
//   7. The save asks whether it may                                     require_permission; rename_staged, link_commit
//   8. The parent is synced, and then .owner                            settle: sync_visible,
//                                                                       require_working_file_system
//   9. .owner goes                                                      drop_mark; what was replaced goes before
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "io/internal/links.hpp"
#include "io/internal/remove_directory.hpp"
#include "store/commit_record.hpp"
#include "store/internal/checkpoint_lock.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/names.hpp"
#include "store/owner.hpp"
#include "store/retire.hpp"
#include "store/staged_state.hpp"

namespace cairn::store {
namespace {

constexpr int kMostInterruptions = 1000;  // As io::uninterrupted has it: no fault makes a save hang.
constexpr std::size_t kMaxRecordBytes = 4096;

using State = StagedDirectory::State;

void tell(const State& state, PublishStep step) {
  if (state.options.on_step) {
    state.options.on_step(step);
  }
}

void sync_tree(const io::Directory& directory) {
  for (const io::DirectoryEntry& entry : directory.list()) {
    if (entry.kind == io::FileKind::directory) {
      sync_tree(directory.open_directory(entry.name));
    }
  }
  directory.sync();
}

/// Requires that what other ranks have made durable is here to be seen, too: on a network file system it came
/// through other machines.
///
/// Errors: Errc::io_failure.
void require_visible(const io::Directory& staged, std::span<const FileEntry> others) {
  const auto require = [&staged](const std::string& path, std::uint64_t bytes, std::uint32_t rank) {
    const std::optional<io::FileStatus> status = staged.status(path);
    if (!status || status->kind != io::FileKind::regular || status->size_bytes != bytes) {
      throw Error(
          Errc::io_failure,
          fmt::format("{}: rank {} has written {} bytes, and rank 0 sees {}", (staged.path() / path).string(),
                      rank, bytes, status ? fmt::format("{} bytes", status->size_bytes) : "nothing"));
    }
  };
  for (const FileEntry& file : others) {
    require(file.path, file.size_bytes, file.rank);
  }
  for (const auto& [rank, bytes] : chunk_tables(others)) {
    if (rank != 0) {
      require(table_name(rank), bytes, rank);
    }
  }
}

/// Writes the tables of chunk hashes: that of rank 0, and those of the ranks that wrote what is copied.
void write_tables(const State& state, const std::map<std::string, std::uint32_t, std::less<>>& ranks,
                  std::span<const io::FileDigest> digests) {
  std::map<std::uint32_t, std::vector<io::FileDigest>> of_others;
  std::vector<io::FileDigest> own;
  for (const io::FileDigest& digest : digests) {
    const auto rank = ranks.find(digest.path);
    (rank == ranks.end() ? own : of_others[rank->second]).push_back(digest);
  }
  io::write_small_file(state.staged, kChunksName, encode_chunks(own));
  if (!of_others.empty()) {
    static_cast<void>(state.staged.make_directory(kTablesName, state.options.directory_mode));
  }
  for (const auto& [rank, table] : of_others) {
    io::write_small_file(state.staged, table_name(rank), encode_chunks(table));
  }
}

/// Writes the files that describe the others, COMMIT last, and makes all names durable.
/// A second call with another generation replaces what the first wrote.
void seal(State& state, Manifest& manifest, std::uint32_t generation) {
  CAIRN_ASSERT(generation > 0, "generations are counted from 1");
  CAIRN_ASSERT(manifest.uuid == state.checkpoint, "a manifest has the uuid of its checkpoint");
  CAIRN_ASSERT(!state.is_settled && !state.is_abandoned, "COMMIT is written before anything is visible");
  manifest.generation = generation;
  const std::string text = encode_manifest(manifest);
  for (const std::string_view name : {kCommitName, kManifestName}) {
    if (state.staged.status(name)) {
      CAIRN_PROBE("store.sealed_again");
      state.staged.remove_file(name);
    }
  }
  io::write_small_file(state.staged, kManifestName, text);
  const CommitRecord record{state.checkpoint, text.size(), hash_text(text)};
  io::write_small_file(state.staged, kCommitName, encode_commit(record));
  tell(state, PublishStep::describe);
  sync_tree(state.staged);
  tell(state, PublishStep::sync_directories);
}

/// The last moment at which a save can be stopped: what comes next may make the checkpoint visible.
///
/// Errors: Errc::cancelled.
void require_permission(const State& state) {
  if (state.options.may_publish && !state.options.may_publish()) {
    CAIRN_PROBE("store.given_up_before_it_was_visible");
    throw Error(Errc::cancelled, fmt::format("{}: the save was given up before its checkpoint was visible",
                                             state.target.string()));
  }
}

/// Says whether something is of this save. An error is not an answer: from `unknown` nothing may follow.
enum class Whose : std::uint8_t { ours, not_ours, unknown };

/// Returns whether an error says nothing about whose a file is: neither that it is missing nor that it is
/// another one.
bool says_nothing(const Error& error) {
  return error.code() != Errc::not_found && error.code() != Errc::malformed_metadata;
}

/// Whose directory `name` is.
Whose whose_directory(const State& state, const std::string& name) {
  try {
    const std::optional<io::FileStatus> found = state.parent.status(name);
    if (!found || found->kind != io::FileKind::directory) {
      return Whose::not_ours;
    }
    io::FileStatus staged;
    io::Syscalls& syscalls = state.parent.syscalls();
    const int result = io::uninterrupted([&] { return syscalls.status(state.staged.fd(), staged); });
    if (result >= 0 && staged.id == found->id) {
      return Whose::ours;  // The common case needs no descriptor: there may be none left.
    }
    CAIRN_PROBE("store.directory_numbered_anew");
    // Some network file systems number a directory anew: what it says of itself counts.
    const auto owner = parse_owner(io::read_small_file(state.parent.open_directory(name), kOwnerName, 4096));
    return owner && owner->uuid == state.uuid ? Whose::ours : Whose::not_ours;
  } catch (const Error& error) {
    CAIRN_PROBE("store.cannot_tell_whose_directory");
    return says_nothing(error) ? Whose::unknown : Whose::not_ours;
  }
}

/// Whose COMMIT a directory that has its final name holds (marker mode).
Whose whose_commit(const State& state, const io::Directory& published) {
  try {
    return read_commit_record(published).uuid == state.checkpoint ? Whose::ours : Whose::not_ours;
  } catch (const Error& error) {
    return error.code() == Errc::not_committed ? Whose::not_ours : Whose::unknown;
  }
}

/// The checkpoint may be visible: from here on neither this save's files nor what they may have replaced are removed.
[[noreturn]] void give_up_unknown(State& state, std::string_view operation, int result) {
  CAIRN_PROBE("store.outcome_unknown");
  state.is_settled = true;
  throw Error(Errc::commit_unknown,
              fmt::format("{}: {} failed ({}); whether it took effect cannot be determined",
                          state.target.string(), operation, std::system_category().message(-result)));
}

/// Renames the staged directory; returns 0 or -errno.
///
/// Errors: Errc::commit_unknown when nobody can tell whether it was renamed.
int rename_staged(State& state, const std::string& name, io::RenameMode mode) {
  require_permission(state);
  CAIRN_ASSERT(!state.is_settled && !state.is_joined,
               "rank 0 renames its directory before the save is settled");
  for (int interruptions = 0;; ++interruptions) {
    const int result = state.parent.syscalls().rename_at(state.parent.fd(), state.staged_name.c_str(),
                                                         state.parent.fd(), name.c_str(), mode);
    if (result >= 0 || io::is_unsupported(result) || result == -EXDEV) {  // Nothing was done, by any server.
      return result;
    }
    // A network file system may repeat a rename whose answer was lost, and report that the repetition failed.
    const Whose whose = whose_directory(state, name);
    if (whose == Whose::unknown) {
      give_up_unknown(state, "rename", result);
    }
    if (whose == Whose::ours) {
      CAIRN_PROBE("store.rename_answer_lost");
      return 0;
    }
    // Repeated only after this look: an exchange that is done twice is undone.
    if (result != -EINTR || interruptions == kMostInterruptions) {
      return result;
    }
  }
}

/// Makes COMMIT in the directory that has its final name, where nothing can be linked. While it is not whole it lies
/// beside the mark of this save, and is nobody's. From the first byte on it may be whole, whatever the file system
/// says.
///
/// Errors: as `link_commit`.
void create_commit(State& state, const io::Directory& published) {
  const std::string text = io::read_small_file(state.staged, kCommitName, kMaxRecordBytes);
  const std::filesystem::path path = published.path() / kCommitName;
  io::Syscalls& syscalls = published.syscalls();
  const int made = io::uninterrupted([&] {
    return syscalls.open_beneath(published.fd(), kCommitName.data(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
                                 0666);
  });
  if (made < 0) {  // One that was made all the same is empty.
    CAIRN_PROBE("store.commit_not_created");
    if (whose_commit(state, published) == Whose::unknown) {
      give_up_unknown(state, "creation of COMMIT", made);
    }
    throw_errno(-made, "create", path);
  }
  io::FileHandle commit(syscalls, made);
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  const std::int64_t written =
      io::uninterrupted([&] { return syscalls.write_at(commit.fd(), bytes, text.size(), 0); });
  if (written != static_cast<std::int64_t>(text.size())) {
    CAIRN_PROBE("store.commit_half_written");
    give_up_unknown(state, "write of COMMIT", written < 0 ? static_cast<int>(written) : -EIO);
  }
  if (const int result = syscalls.sync_data(commit.fd()); result < 0) {
    give_up_unknown(state, "fdatasync of COMMIT", result);
  }
  if (const int result = commit.close(); result < 0) {
    give_up_unknown(state, "close of COMMIT", result);
  }
}

/// Links COMMIT into the directory that has its final name.
///
/// Errors: as `rename_staged`; OS errors pass through: then it is not there.
void link_commit(State& state, const io::Directory& published) {
  require_permission(state);
  CAIRN_ASSERT(state.marked.has_value(), "COMMIT is linked into a directory that was marked");
  const std::string commit(kCommitName);
  const int result = io::uninterrupted([&] {
    return state.parent.syscalls().link_at(state.staged.fd(), commit.c_str(), published.fd(), commit.c_str());
  });
  if (result >= 0) {
    return;
  }
  if (io::has_no_links(result)) {
    CAIRN_PROBE("store.no_hard_links");
    create_commit(state, published);
    return;
  }
  const Whose whose = whose_commit(state, published);  // Its answer may be lost, too.
  CAIRN_PROBE("store.link_of_commit_failed");
  if (whose == Whose::unknown) {
    give_up_unknown(state, "link of COMMIT", result);
  }
  if (whose == Whose::not_ours) {
    throw_errno(-result, "link", published.path() / commit);
  }
}

[[noreturn]] void throw_unknown(const State& state, const std::filesystem::path& path, int result) {
  CAIRN_PROBE("store.visible_but_not_synced");
  throw Error(Errc::commit_unknown,
              fmt::format("{} is visible, but fsync {} failed ({})", state.target.string(), path.string(),
                          std::system_category().message(-result)));
}

void sync_visible(const State& state, const io::Directory& directory) {
  const int result = directory.syscalls().sync(directory.fd());
  if (result < 0) {
    throw_unknown(state, directory.path(), result);
  }
}

/// Makes sure that the syncs before were true: when XFS has shut down, because its journal could not be written, the
/// sync of a directory still succeeds; that of a file fails.
void require_working_file_system(const State& state) {
  const int result = state.owner.syscalls().sync(state.owner.fd());
  if (result < 0) {
    throw_unknown(state, state.staged.path() / kOwnerName, result);
  }
}

/// The checkpoint is visible: from here on nothing of it may be removed, whatever happens.
void settle(State& state, const io::Directory& published) {
  CAIRN_ASSERT(!state.is_settled, "a save is settled once");
  state.is_settled = true;
  tell(state, PublishStep::make_visible);
  if (published.fd() != state.staged.fd()) {  // In marker mode COMMIT is a new name in it.
    sync_visible(state, published);
  }
  sync_visible(state, state.parent);
  require_working_file_system(state);
  tell(state, PublishStep::sync_parent);
}

void add_problem(State& state, const std::string& problem) {
  if (!problem.empty()) {
    state.retirement_problem += (state.retirement_problem.empty() ? "" : "; ") + problem;
  }
}

/// Does what is left to do once the checkpoint is durable, and keeps the problem when it fails: the save is done.
/// Returns whether recovery has nothing left to do.
template <class Work>
bool tidy(State& state, Work work) noexcept {
  try {
    add_problem(state, work());
    return true;
  } catch (...) {
    CAIRN_PROBE("store.tidying_failed");
    try {
      add_problem(state, describe(std::current_exception()));
    } catch (...) {  // No memory for a sentence.
    }
  }
  return false;
}

/// Errors: Errc::cancelled when what was replaced is not for this save to remove.
void require_retirement(const State& state, const std::string& name) {
  if (state.options.may_retire && !state.options.may_retire()) {
    CAIRN_PROBE("store.retirement_left_to_recovery");
    throw Error(Errc::cancelled, fmt::format("{}: what was replaced is left to recovery",
                                             (state.parent.path() / name).string()));
  }
}

/// The last step: what this save has made is a checkpoint like any other, and what it has replaced is gone.
void drop_mark(State& state) noexcept {
  CAIRN_ASSERT(state.is_settled, "the mark of a save goes when its checkpoint is there");
  // A left-over is harmless: readers ignore it and recovery removes it.
  const io::Directory& published = state.marked ? *state.marked : state.staged;
  const std::string name(state.marked ? kUncommittedName : kOwnerName);
  io::uninterrupted([&] { return published.syscalls().unlink_at(published.fd(), name.c_str(), false); });
  [[maybe_unused]] const int ignored = (state.marked ? state.marker : state.owner).close();
}

[[noreturn]] void throw_not_renamed(const State& state, const std::string& name, int result) {
  const std::filesystem::path path = state.parent.path() / name;
  if (result == -EEXIST || result == -ENOTEMPTY) {
    CAIRN_PROBE("store.another_writer_was_first");
    throw Error(Errc::already_exists, fmt::format("{}: another writer was first", path.string()));
  }
  throw_errno(-result, fmt::format("rename {} to", state.staged.path().string()), path);
}

/// Makes the directory with the final name. It comes into being with its mark inside, by a rename: a crash at any
/// moment leaves a directory that recovery knows as ours.
const io::Directory& make_marked_directory(State& state, const std::string& name) {
  CAIRN_ASSERT(!state.marked.has_value(), "one directory is marked for a save");
  if (state.parent.status(name)) {  // The rename would replace a directory that is empty.
    throw_not_renamed(state, name, -EEXIST);
  }
  io::Directory marked = state.staged.make_directory(kPublishingName, state.options.directory_mode);
  state.marker = claim(marked, kUncommittedName, state.uuid);
  state.marker_name = name;  // Before there is something to lose.
  marked.sync();  // Before files move in: a power cut may keep these, and nothing else tells whose they are.
  const std::string publishing(kPublishingName);
  const int result = io::uninterrupted([&] {
    return state.parent.syscalls().rename_at(state.staged.fd(), publishing.c_str(), state.parent.fd(),
                                             name.c_str(), io::RenameMode::replace);
  });
  if (result < 0 && !is_called(state.parent, name, marked)) {
    throw_not_renamed(state, name, result);  // Without COMMIT it is not a checkpoint, wherever it is.
  }
  return state.marked.emplace(std::move(marked));
}

/// For file systems without a rename that refuses to replace: everything moves into a directory that has its final
/// name already, and COMMIT is linked into it last, or made there; neither ever replaces.
void publish_by_marker(State& state, const std::string& name) {
  const io::Directory& final_directory = make_marked_directory(state, name);
  for (const io::DirectoryEntry& entry : state.staged.list()) {
    if (entry.name != kCommitName && entry.name != kOwnerName) {
      state.staged.rename(entry.name, final_directory, entry.name, io::RenameMode::replace);
    }
  }
  final_directory.sync();
  link_commit(state, final_directory);
  settle(state, final_directory);
  // The temporary directory is still there, with COMMIT and the mark of this save and nothing else.
  tidy(state, [&state] {
    constexpr std::array<std::string_view, 2> kLast = {kCommitName, kOwnerName};
    io::remove_directory(state.parent, state.staged_name, state.staged, kLast);
    return std::string();
  });
  [[maybe_unused]] const int ignored = state.owner.close();
}

/// Publishes under a name that is free. The mark of this save stays, for `drop_mark`.
void publish_as(State& state, const std::string& name) {
  if (state.options.commit_mode == CommitMode::automatic) {
    const int result = rename_staged(state, name, io::RenameMode::no_replace);
    if (result >= 0) {
      settle(state, state.staged);
      return;
    }
    if (!io::is_unsupported(result)) {
      throw_not_renamed(state, name, result);
    }
  }
  CAIRN_PROBE("store.published_by_marker");
  publish_by_marker(state, name);
}

/// Holds what is about to be replaced, and asks whether it may be; nothing where nobody wants to be asked.
///
/// Errors: what the question throws; EBUSY where somebody else holds it for too long.
std::optional<CheckpointLock> lock_replaced(const State& state, const std::string& name) {
  if (!state.options.before_replacing) {
    return std::nullopt;
  }
  std::optional<CheckpointLock> checkpoint_lock;
  checkpoint_lock.emplace(state.parent, name);
  while (!checkpoint_lock->is_held()) {
    CAIRN_PROBE("store.waits_for_the_lock_of_what_it_replaces");
    if (!state.options.wait_for_lock || !state.options.wait_for_lock()) {
      throw Error(std::error_code(EBUSY, std::system_category()),
                  fmt::format("{} is not replaced: it is being pinned or removed by somebody else",
                              (state.parent.path() / name).string()));
    }
    checkpoint_lock.emplace(state.parent, name);
  }
  state.options.before_replacing();
  return checkpoint_lock;
}

/// Swaps the staged directory with the old checkpoint; false when the file system cannot.
bool publish_by_exchange(State& state) {
  const std::optional<CheckpointLock> checkpoint_lock = lock_replaced(state, state.name);
  // What was looked at is what is removed, even if the names change meanwhile.
  const io::Directory old = state.parent.open_directory(state.name);
  if (!is_checkpoint(old)) {
    throw_not_renamed(state, state.name, -EEXIST);
  }
  const int result = rename_staged(state, state.name, io::RenameMode::exchange);
  // EXDEV: the old one lies in the lower layer of an overlay file system, whose directories keep their names.
  if (io::is_unsupported(result) || result == -EXDEV) {
    CAIRN_PROBE("store.no_exchange");
    return false;
  }
  if (result < 0) {
    throw_not_renamed(state, state.name, result);
  }
  settle(state, state.staged);  // The old checkpoint, now under the temporary name, stays when this throws.
  drop_mark(state);
  tidy(state, [&] {
    require_retirement(state, state.staged_name);
    return remove_retired(state.parent, state.staged_name, old);
  });
  return true;
}

std::uint32_t next_generation(const State& state) {
  const std::vector<std::uint32_t> generations = list_generations(state.parent, state.name);
  return std::max(generations.empty() ? 1 : generations.front(), 1u) + 1;
}

/// Returns whether `name` is an older generation of the target, and not somebody else's directory that is
/// called so.
bool is_older_generation(const State& state, const std::string& name, std::uint32_t generation,
                         const Current& current) {
  if (generation == 1 || name == current.name) {
    return is_checkpoint(state.parent.open_directory(name));
  }
  const CommitCheck check = check_commit(state.parent, name, false);
  return check.is_committed && check.generation == generation;
}

/// Returns what was kept, for people.
std::string retire_generation(const State& state, const std::string& name) {
  try {
    return retire(state.parent, name, state.name, state.parent.open_directory(name), Retirement::replaced,
                  state.options.random);
  } catch (const Error& error) {
    CAIRN_PROBE("store.older_generation_not_retired");
    if (error.code() == std::error_code(EXDEV, std::system_category())) {
      return error.what();  // Recovery could do no more.
    }
    throw;
  }
}

/// Returns whether none is left for recovery.
bool remove_older(State& state, const Current& current, std::uint32_t generation) noexcept {
  CAIRN_ASSERT(generation > 1 && state.is_settled, "older generations go when a newer one is there");
  bool is_done = true;
  const bool is_listed = tidy(state, [&] {
    for (const std::uint32_t older : list_generations(state.parent, state.name)) {
      const std::string name = generation_name(state.name, older);
      if (older >= generation || !is_older_generation(state, name, older, current)) {
        continue;
      }
      const bool is_retired = tidy(state, [&] {
        require_retirement(state, name);
        return retire_generation(state, name);
      });
      is_done = is_done && is_retired;
    }
    return std::string();
  });
  return is_done && is_listed;
}

void replace(State& state, Manifest& manifest, const Current& current) {
  CAIRN_ASSERT(state.options.overwrite, "a checkpoint is replaced where that was asked for");
  if (current.generation == 1 && state.options.commit_mode == CommitMode::automatic) {
    seal(state, manifest, 1);
    if (publish_by_exchange(state)) {
      return;
    }
  }
  const std::uint32_t generation = next_generation(state);
  CAIRN_ASSERT(generation > current.generation, "a new generation is higher than the one that it replaces");
  CAIRN_PROBE("store.replaced_by_a_generation");
  seal(state, manifest, generation);
  {
    const std::optional<CheckpointLock> checkpoint_lock = lock_replaced(state, current.name);
    publish_as(state, generation_name(state.name, generation));
  }
  // While the mark is there, recovery knows that an older generation was replaced by this one. Without the mark it
  // would take it for a copy that somebody has put there.
  if (remove_older(state, current, generation)) {
    drop_mark(state);
  }
}

}  // namespace

void publish_staged(State& state, Manifest manifest, std::span<const io::FileDigest> digests,
                    std::span<const FileEntry> others) {
  CAIRN_ASSERT(!state.is_joined && !state.is_settled && !state.is_abandoned,
               "rank 0 publishes once what was not abandoned");
  manifest.uuid = state.checkpoint;
  std::map<std::string, std::uint32_t, std::less<>> ranks;  // Of files that not rank 0 wrote.
  for (const FileEntry& file : manifest.files) {
    if (file.rank != 0) {
      ranks.emplace(file.path, file.rank);
    }
  }
  manifest.files.assign(others.begin(), others.end());
  for (const io::FileDigest& digest : digests) {
    if (digest.chunks.size() != io::chunk_count(digest.size_bytes)) {
      throw Error(Errc::invalid_argument, fmt::format("'{}': {} chunk hashes for {} bytes", digest.path,
                                                      digest.chunks.size(), digest.size_bytes));
    }
    const auto rank = ranks.find(digest.path);
    manifest.files.push_back(
        {digest.path, digest.size_bytes, digest.root(), rank == ranks.end() ? 0 : rank->second});
  }
  if (!others.empty()) {
    require_visible(state.staged, others);
    const auto by_path = [](const auto& a, const auto& b) { return a.path < b.path; };
    CAIRN_ASSERT(std::is_sorted(digests.begin(), digests.end(), by_path),
                 "the table of hashes has the order of the files");
    std::sort(manifest.files.begin(), manifest.files.end(), by_path);
  }
  write_tables(state, ranks, digests);
  const std::optional<Current> current = find_current(state.parent, state.name);
  if (!current) {
    seal(state, manifest, 1);
    publish_as(state, state.name);
    drop_mark(state);
    return;
  }
  require_replaceable(state.parent, *current, state.options.overwrite);
  replace(state, manifest, *current);
}

}  // namespace cairn::store
