// SPDX-License-Identifier: Apache-2.0
// The part of another rank than rank 0 in a commit. docs/reliability.md, "Several processes", gives the reasons.
#include <fcntl.h>
#include <system_error>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "io/internal/remove_directory.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/staged_directory.hpp"
#include "store/names.hpp"
#include "store/owner.hpp"
#include "store/retire.hpp"
#include "store/staged_state.hpp"

namespace cairn::store {
namespace {

using State = StagedDirectory::State;

constexpr std::size_t kMostMarkBytes = 4096;

bool is_absent(const Error& error) {
  return error.code() == Errc::not_found || error.code() == std::errc::no_such_file_or_directory ||
         error.code() == std::error_code(ESTALE, std::system_category());
}

/// Nothing where the directory, or its mark, cannot be seen (yet).
///
/// Errors: Errc::malformed_metadata when it is of another save.
std::optional<io::Directory> try_open(const io::Directory& parent, const std::string& name,
                                      const Uuid& uuid) {
  try {
    io::Directory staged = parent.open_directory(name);
    const std::string text = io::read_small_file(staged, kOwnerName, kMostMarkBytes);
    const std::optional<Owner> owner = parse_owner(text);
    if (!owner && text.empty()) {
      CAIRN_PROBE("store.joined_before_its_owner_was_written");
      return std::nullopt;
    }
    if (!owner || owner->uuid != uuid) {
      throw Error(Errc::malformed_metadata,
                  fmt::format("{}: its {} is not that of this save", staged.path().string(), kOwnerName));
    }
    return staged;
  } catch (const Error& error) {
    if (!is_absent(error)) {
      throw;
    }
    return std::nullopt;
  }
}

/// The directories in which the names of these paths lie, innermost first; "" is the checkpoint's own.
std::vector<std::string> directories_of(std::span<const io::FileDigest> digests) {
  std::set<std::string> names;
  for (const io::FileDigest& digest : digests) {
    for (std::size_t at = digest.path.find('/'); at != std::string::npos;
         at = digest.path.find('/', at + 1)) {
      names.insert(digest.path.substr(0, at));
    }
  }
  return {names.rbegin(), names.rend()};  // "a/b" comes after "a".
}

void remove_made(const io::Directory& staged, const std::string& relative) {
  const std::size_t slash = relative.rfind('/');
  io::remove_if_there([&] {
    if (slash == std::string::npos) {
      staged.remove_file(relative);
    } else {
      staged.open_directory(relative.substr(0, slash)).remove_file(relative.substr(slash + 1));
    }
  });
}

/// The mark of a save, for its lock; closed when it is gone.
io::FileHandle open_mark(const io::Directory& staged) {
  try {
    return staged.open_file(kOwnerName, O_RDWR);
  } catch (const Error& error) {
    if (error.code() != Errc::not_found) {
      throw;
    }
    return {};
  }
}

/// Returns whether a directory is seen to be gone: another rank that removes it, too, was faster.
bool is_gone(const io::Directory& parent, const std::string& name) noexcept {
  io::FileStatus ignored;
  return io::uninterrupted([&] { return parent.syscalls().status_at(parent.fd(), name.c_str(), ignored); }) ==
         -ENOENT;
}

/// Removes what is left of a directory that rank 0 has let go of: it had to leave what ranks were still writing.
///
/// Errors: OS errors pass through.
void remove_rest(const State& state) {
  io::Syscalls& syscalls = state.parent.syscalls();
  if (!io::is_of_this_machine(syscalls, state.parent.fd()) ||
      !is_called(state.parent, state.staged_name, state.staged)) {
    return;  // There locks may be local to each machine.
  }
  const io::FileHandle owner = open_mark(state.staged);
  if (!owner.is_open()) {
    CAIRN_PROBE("store.joined_directory_without_owner");
    state.parent.remove_empty_directory(state.staged_name);
    return;
  }
  if (io::uninterrupted([&] { return syscalls.try_lock(owner.fd()); }) >= 0) {
    remove_unfinished(state.parent, state.staged_name, state.staged);
  }
}

[[noreturn]] void throw_unknown(const State& state, std::string_view why) {
  throw Error(Errc::commit_unknown, fmt::format("{}: {}", state.target.string(), why));
}

/// Returns whether one of the target's generations is the checkpoint of this save.
bool is_visible(const State& state) {
  for (const std::uint32_t generation : list_generations(state.parent, state.name)) {
    const CommitCheck check = check_commit(state.parent, generation_name(state.name, generation), false);
    if (check.is_committed && check.uuid == state.uuid) {
      return true;
    }
  }
  return false;
}

/// Says committed only of what this rank has itself made sure of.
LoneVerdict confirm_visible(const State& state) {
  if (!is_visible(state)) {
    CAIRN_PROBE("store.neither_directory_nor_checkpoint");
    throw_unknown(state, "neither its temporary directory nor the checkpoint was found");
  }
  const auto require = [&state](int result, const std::filesystem::path& path) {
    if (result < 0) {
      CAIRN_PROBE("store.visible_but_not_synced_by_a_rank");
      throw_unknown(state, fmt::format("the checkpoint is visible, but fsync {} failed ({})", path.string(),
                                       std::system_category().message(-result)));
    }
  };
  for (const io::Directory* directory : {&state.staged, &state.parent}) {
    require(directory->syscalls().sync(directory->fd()), directory->path());
  }
  // The syncs were true only if the file system works: see require_working_file_system in publish.cpp.
  const io::FileHandle commit = state.staged.open_file(kCommitName);
  require(commit.syscalls().sync(commit.fd()), state.staged.path() / kCommitName);
  return LoneVerdict::committed;
}

/// Makes it durable that rank 0's directory was moved away: a power cut must not give it its name back, under which
/// rank 0 could still publish it.
LoneVerdict confirm_aborted(State& state) {
  CAIRN_ASSERT(state.is_joined && !state.is_disputed, "one rank decides once that a save was aborted");
  CAIRN_PROBE("store.rank_decides_aborted");
  state.is_disputed = true;
  if (const int result = state.parent.syscalls().sync(state.parent.fd()); result < 0) {
    throw_unknown(state, fmt::format("fsync {} failed ({})", state.parent.path().string(),
                                     std::system_category().message(-result)));
  }
  return LoneVerdict::aborted;
}

LoneVerdict decide(State& state) {
  CAIRN_ASSERT(state.is_joined, "only a rank that has joined decides without rank 0");
  if (state.options.commit_mode == CommitMode::marker) {
    throw_unknown(
        state, "rank 0 does not respond, and in marker mode the outcome cannot be determined from the disk");
  }
  const std::string trash = trash_name(state.name, state.uuid);
  const auto rename = [&state](const std::string& from, const std::string& to) {
    return io::uninterrupted([&] {
      return state.parent.syscalls().rename_at(state.parent.fd(), from.c_str(), state.parent.fd(), to.c_str(),
                                               io::RenameMode::no_replace);
    });
  };
  const int moved = rename(state.staged_name, trash);
  if (io::is_unsupported(moved)) {
    CAIRN_PROBE("store.rank_cannot_decide");
    throw_unknown(state,
                  "rank 0 does not respond, and without RENAME_NOREPLACE the outcome cannot be determined "
                  "from the disk");
  }
  if (is_called(state.parent, trash, state.staged)) {
    return confirm_aborted(
        state);  // Moved here or, where that failed, by another rank; or its answer was lost.
  }
  if (moved >= 0) {
    CAIRN_PROBE("store.rank_has_moved_the_old_checkpoint");
    // The old checkpoint: the exchange of an overwrite has happened. What is left of it is rank 0's, or recovery's,
    // to remove.
    static_cast<void>(rename(trash, state.staged_name));
  } else if (moved != -ENOENT) {
    throw_unknown(state, fmt::format("rename {} failed ({})", (state.parent.path() / trash).string(),
                                     std::system_category().message(-moved)));
  }
  return confirm_visible(state);
}

}  // namespace

StagedDirectory StagedDirectory::join(io::Engine& engine, SaveTarget target, JoinOptions options) {
  const std::string name = temporary_name(target.name, options.uuid);
  std::optional<io::Directory> staged = try_open(target.parent, name, options.uuid);
  while (!staged) {
    if (!options.look_again || !options.look_again()) {
      throw Error(
          Errc::not_found,
          fmt::format("rank 0 created {}, but it is not visible here: do all ranks use one shared directory?",
                      (target.parent.path() / name).string()));
    }
    staged = try_open(target.parent, name, options.uuid);
  }
  auto state = std::make_unique<State>(engine, std::move(target.parent), std::move(*staged));
  state->options.commit_mode = options.commit_mode;
  state->target = std::move(target.path);
  state->name = std::move(target.name);
  state->staged_name = name;
  state->uuid = options.uuid;
  state->checkpoint = options.uuid;
  state->is_in_memory = target.is_in_memory;
  state->is_joined = true;
  state->rank = options.rank;
  return StagedDirectory(std::move(state));
}

std::vector<FileEntry> StagedDirectory::prepare(std::span<const io::FileDigest> digests) {
  std::vector<FileEntry> entries;
  if (digests.empty()) {
    return entries;
  }
  for (const io::FileDigest& digest : digests) {
    CAIRN_ASSERT(digest.chunks.size() == io::chunk_count(digest.size_bytes),
                 "a rank has a hash for each chunk of its files");
    entries.push_back({digest.path, digest.size_bytes, digest.root(), state_->rank});
  }
  const io::Directory& staged = state_->staged;
  const std::string table = table_name(state_->rank);
  adopt(table);
  io::write_small_file(staged, table, encode_chunks(digests));
  for (const std::string& directory : directories_of(digests)) {
    staged.open_directory(directory).sync();
  }
  staged.open_directory(kTablesName).sync();
  return entries;
}

void StagedDirectory::hand_over() noexcept {
  CAIRN_ASSERT(state_->is_joined && !state_->is_settled, "a rank hands over once what it has written");
  state_->is_settled = true;
}

void StagedDirectory::take_back() noexcept {
  CAIRN_ASSERT(state_->is_joined && state_->is_settled, "a rank takes back what it has handed over");
  state_->is_settled = false;
}

LoneVerdict StagedDirectory::decide_alone() {
  try {
    return decide(*state_);
  } catch (const Error& error) {
    if (error.code() == Errc::commit_unknown) {
      throw;
    }
    throw_unknown(*state_, error.detail());
  }
}

void abandon_joined(State& state) noexcept {
  CAIRN_ASSERT(state.is_joined, "only what was joined is left to rank 0");
  try {
    const MutexLock lock(state.made_mutex);
    for (const std::string& relative : state.made) {
      remove_made(state.staged, relative);
    }
    if (!state.is_disputed) {
      remove_rest(state);
    }
  } catch (const std::exception& error) {  // What is left is recovery's.
    CAIRN_PROBE("store.joined_directory_left_to_recovery");
    if (is_gone(state.parent, state.staged_name)) {
      return;
    }
    try {
      state.abandonment_problem = fmt::format(
          "{} is left to recovery: {}", (state.parent.path() / state.staged_name).string(), error.what());
    } catch (...) {  // No memory for a sentence.
    }
  }
}

}  // namespace cairn::store
