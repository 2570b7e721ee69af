// SPDX-License-Identifier: Apache-2.0
// The commit: reliability rests on the order of the steps in this file.
#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "io/check.hpp"
#include "io/names.hpp"
#include "io/owner.hpp"
#include "io/retire.hpp"
#include "io/staged_state.hpp"

namespace cairn::io {
namespace {

using State = StagedDirectory::State;

bool is_unsupported(int result) {
  return result == -EINVAL || result == -ENOSYS || result == -EOPNOTSUPP;
}

void tell(const State& state, PublishStep step) {
  if (state.options.on_step) {
    state.options.on_step(step);
  }
}

void sync_tree(const Directory& directory) {
  for (const DirectoryEntry& entry : directory.list()) {
    if (entry.kind == FileKind::directory) {
      sync_tree(directory.open_directory(entry.name));
    }
  }
  directory.sync();
}

/// Writes the files that describe the others, COMMIT last, and makes all names durable.
/// A second call with another generation replaces what the first wrote.
void seal(State& state, Manifest& manifest, std::uint32_t generation) {
  manifest.generation = generation;
  const std::string text = encode_manifest(manifest);
  for (const std::string_view name : {kCommitName, kManifestName}) {
    if (state.staged.status(name)) {
      state.staged.remove_file(name);
    }
  }
  write_small_file(state.staged, kManifestName, text);
  const CommitRecord record{state.uuid, text.size(), hash_text(text)};
  write_small_file(state.staged, kCommitName, encode_commit(record));
  tell(state, PublishStep::describe);
  sync_tree(state.staged);
  tell(state, PublishStep::sync_directories);
}

/// Whether the directory called `name` is the one of this save.
bool is_ours(const State& state, const std::string& name) {
  try {
    const auto owner = parse_owner(read_small_file(state.parent.open_directory(name), kOwnerName, 4096));
    return owner && owner->uuid == state.uuid;
  } catch (const Error&) {
    return false;
  }
}

/// The last moment at which a save can be stopped: what comes next may make the checkpoint visible.
///
/// Errors: Errc::cancelled.
void require_permission(const State& state) {
  if (state.options.may_publish && !state.options.may_publish()) {
    throw Error(Errc::cancelled, fmt::format("{}: the save was given up before its checkpoint was visible",
                                             state.target.string()));
  }
}

/// Renames the staged directory; returns 0 or -errno.
int rename_staged(const State& state, const std::string& name, RenameMode mode) {
  require_permission(state);
  const int result = state.parent.syscalls().rename_at(state.parent.fd(), state.staged_name.c_str(),
                                                       state.parent.fd(), name.c_str(), mode);
  // A network file system may repeat a rename whose answer was lost, and report that the repetition failed.
  return result < 0 && is_ours(state, name) ? 0 : result;
}

[[noreturn]] void throw_unknown(const State& state, const std::filesystem::path& path, int result) {
  throw Error(Errc::commit_unknown,
              fmt::format("{} is visible, but fsync {} failed ({})", state.target.string(), path.string(),
                          std::system_category().message(-result)));
}

void sync_visible(const State& state, const Directory& directory) {
  const int result = directory.syscalls().sync(directory.fd());
  if (result < 0) {
    throw_unknown(state, directory.path(), result);
  }
}

/// Makes sure that the syncs before were no empty promises: when XFS has shut down, because its journal could not be
/// written, it still says yes to the sync of a directory; to that of a file it says no.
void require_working_file_system(const State& state) {
  const int result = state.owner.syscalls().sync(state.owner.fd());
  if (result < 0) {
    throw_unknown(state, state.staged.path() / kOwnerName, result);
  }
}

/// The checkpoint is visible: from here on nothing of it may be removed, whatever happens.
void settle(State& state, const Directory& published) {
  state.is_settled = true;
  tell(state, PublishStep::make_visible);
  if (published.fd() != state.staged.fd()) {  // In marker mode COMMIT is a new name in it.
    sync_visible(state, published);
  }
  sync_visible(state, state.parent);
  require_working_file_system(state);
  tell(state, PublishStep::sync_parent);
}

/// Removes what the new checkpoint has made superfluous. Never fails the save, which is done.
void remove_replaced(State& state, const std::string& name, const Directory& directory) noexcept {
  if (state.options.may_retire && !state.options.may_retire()) {
    const std::string path = state.parent.path() / name;
    state.retirement_problem = fmt::format("{}: what was replaced is left to recovery", path);
    return;
  }
  try {
    retire(state.parent, name, directory, state.options.random);
  } catch (...) {
    state.retirement_problem = describe(std::current_exception());
  }
}

/// In marker mode the temporary directory is still there, with the marks of this save and nothing else of it.
void remove_emptied(State& state) noexcept {
  try {
    retire(state.parent, state.staged_name, state.staged, state.options.random);
  } catch (...) {
    state.retirement_problem = describe(std::current_exception());
  }
}

void drop_mark(const Directory& published, std::string_view mark, FileHandle& lock) noexcept {
  // A left-over is harmless: readers ignore it and recovery removes it.
  const std::string name(mark);
  published.syscalls().unlink_at(published.fd(), name.c_str(), false);
  [[maybe_unused]] const int ignored = lock.close();
}

[[noreturn]] void throw_not_renamed(const State& state, const std::string& name, int result) {
  const std::filesystem::path path = state.parent.path() / name;
  if (result == -EEXIST || result == -ENOTEMPTY) {
    throw Error(Errc::already_exists, fmt::format("{}: another writer was first", path.string()));
  }
  throw_errno(-result, fmt::format("rename {} to", state.staged.path().string()), path);
}

/// Makes the directory with the final name. It comes into being with its mark inside, by a rename: a crash at any
/// moment leaves a directory that recovery knows as ours.
const Directory& make_marked_directory(State& state, const std::string& name) {
  if (state.parent.status(name)) {  // The rename would replace a directory that is empty.
    throw_not_renamed(state, name, -EEXIST);
  }
  Directory marked = state.staged.make_directory(kPublishingName, state.options.directory_mode);
  state.marker = claim(marked, kUncommittedName, state.uuid);
  state.marker_name = name;  // Before there is something to lose.
  const std::string publishing(kPublishingName);
  const int result = state.parent.syscalls().rename_at(state.staged.fd(), publishing.c_str(),
                                                       state.parent.fd(), name.c_str(), RenameMode::replace);
  if (result < 0) {
    throw_not_renamed(state, name, result);
  }
  return state.marked.emplace(std::move(marked));
}

/// For file systems without a rename that refuses to replace: everything moves into a directory that has its final
/// name already, and COMMIT is linked into it last; link never replaces.
void publish_by_marker(State& state, const std::string& name) {
  const Directory& final_directory = make_marked_directory(state, name);
  for (const DirectoryEntry& entry : state.staged.list()) {
    if (entry.name != kCommitName && entry.name != kOwnerName) {
      state.staged.rename(entry.name, final_directory, entry.name, RenameMode::replace);
    }
  }
  final_directory.sync();
  const std::string commit(kCommitName);
  require_permission(state);
  const int result = state.parent.syscalls().link_at(state.staged.fd(), commit.c_str(), final_directory.fd(),
                                                     commit.c_str());
  if (result < 0) {
    throw_errno(-result, "link", state.parent.path() / name / commit);
  }
  settle(state, final_directory);
  drop_mark(final_directory, kUncommittedName, state.marker);
  remove_emptied(state);
  [[maybe_unused]] const int ignored = state.owner.close();
}

/// Publishes under a name that is free.
void publish_as(State& state, const std::string& name) {
  if (state.options.commit_mode == CommitMode::automatic) {
    const int result = rename_staged(state, name, RenameMode::no_replace);
    if (result >= 0) {
      settle(state, state.staged);
      drop_mark(state.staged, kOwnerName, state.owner);
      return;
    }
    if (!is_unsupported(result)) {
      throw_not_renamed(state, name, result);
    }
  }
  publish_by_marker(state, name);
}

/// Swaps the staged directory with the old checkpoint; false when the file system cannot.
bool publish_by_exchange(State& state) {
  // What was looked at is what goes, whoever plays with the names meanwhile.
  const Directory old = state.parent.open_directory(state.name);
  if (!is_checkpoint(old)) {
    throw_not_renamed(state, state.name, -EEXIST);
  }
  const int result = rename_staged(state, state.name, RenameMode::exchange);
  if (is_unsupported(result)) {
    return false;
  }
  if (result < 0) {
    throw_not_renamed(state, state.name, result);
  }
  settle(state, state.staged);  // The old checkpoint, now under the temporary name, stays when this throws.
  drop_mark(state.staged, kOwnerName, state.owner);
  remove_replaced(state, state.staged_name, old);
  return true;
}

std::uint32_t next_generation(const State& state) {
  const std::vector<std::uint32_t> generations = list_generations(state.parent, state.name);
  return std::max(generations.empty() ? 1 : generations.front(), 1u) + 1;
}

void remove_older(State& state, const Current& current, std::uint32_t generation) noexcept {
  try {
    for (const std::uint32_t older : list_generations(state.parent, state.name)) {
      const std::string name = generation_name(state.name, older);
      if (older >= generation || (older != 1 && name != current.name)) {
        continue;
      }
      const Directory directory = state.parent.open_directory(name);
      // A directory of somebody else's may have the target's name, beside the later generation that was
      // overwritten.
      if (is_checkpoint(directory)) {
        remove_replaced(state, name, directory);
      }
    }
  } catch (...) {
    state.retirement_problem = describe(std::current_exception());
  }
}

void replace(State& state, Manifest& manifest, const Current& current) {
  if (current.generation == 1 && state.options.commit_mode == CommitMode::automatic) {
    seal(state, manifest, 1);
    if (publish_by_exchange(state)) {
      return;
    }
  }
  const std::uint32_t generation = next_generation(state);
  seal(state, manifest, generation);
  publish_as(state, generation_name(state.name, generation));
  remove_older(state, current, generation);
}

}  // namespace

void publish_staged(State& state, Manifest manifest, std::span<const FileDigest> digests) {
  manifest.uuid = state.uuid;
  manifest.files.clear();
  for (const FileDigest& digest : digests) {
    if (digest.chunks.size() != chunk_count(digest.size_bytes)) {
      throw Error(Errc::invalid_argument, fmt::format("'{}': {} chunk hashes for {} bytes", digest.path,
                                                      digest.chunks.size(), digest.size_bytes));
    }
    manifest.files.push_back({digest.path, digest.size_bytes, digest.root()});
  }
  write_small_file(state.staged, kChunksName, encode_chunks(digests));
  const std::optional<Current> current = find_current(state.parent, state.name);
  if (!current) {
    seal(state, manifest, 1);
    publish_as(state, state.name);
    return;
  }
  require_replaceable(state.parent, *current, state.options.overwrite);
  replace(state, manifest, *current);
}

}  // namespace cairn::io
