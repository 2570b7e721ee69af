// SPDX-License-Identifier: Apache-2.0
#include "store/internal/staged_directory.hpp"

#include <fcntl.h>
#include <system_error>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "io/internal/durable_file.hpp"
#include "io/internal/links.hpp"
#include "store/commit_record.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/parts_directory.hpp"
#include "store/internal/spare_files.hpp"
#include "store/names.hpp"
#include "store/owner.hpp"
#include "store/retire.hpp"
#include "store/staged_state.hpp"
#include "store/target.hpp"

namespace cairn::store {
namespace {

constexpr int kMostParents = 4096;  // Of directories above a target: no path has more.
/// A recovery that runs right now may take a directory that has no owner yet: one that runs without a pause takes
/// several.
constexpr int kMostAttempts = 100;

/// Removes a directory of this save as far as possible: what it failed for is what counts, and recovery
/// removes the rest.
void discard(const io::Directory& parent, const std::string& name, const io::Directory& directory,
             std::string* problem = nullptr) noexcept {
  try {
    try {
      remove_unfinished(parent, name, directory);
    } catch (const Error& error) {
      CAIRN_PROBE("store.staged_directory_left_to_recovery");
      if (problem != nullptr) {
        *problem = fmt::format("{} is left to recovery: {}", (parent.path() / name).string(), error.what());
      }
    }
  } catch (...) {  // No memory for a sentence.
  }
}

/// To list a directory takes a descriptor, and to open it another: the mark of ownership is the second. Taken before
/// anything is made that would have to be removed.
///
/// Errors: EMFILE, ENFILE.
io::FileHandle open_reserve(const io::Directory& parent) {
  io::Syscalls& syscalls = parent.syscalls();
  const int fd =
      io::uninterrupted([&] { return syscalls.open_at(parent.fd(), ".", O_PATH | O_DIRECTORY, 0); });
  if (fd == -EMFILE || fd == -ENFILE) {
    throw_errno(-fd, "open", parent.path());
  }
  return fd < 0 ? io::FileHandle() : io::FileHandle(syscalls, fd);
}

/// Nothing when a recovery took the empty directory before it could be opened; the last attempt's error says so.
std::optional<io::Directory> make_staged(const io::Directory& parent, const std::string& name,
                                         std::uint32_t mode, int attempt) {
  try {
    return parent.make_directory(name, mode);
  } catch (const Error& error) {
    CAIRN_PROBE("store.staged_directory_not_made");
    // A call that failed may have made it all the same. Its name has the uuid of this save; what has something in it
    // stays.
    static_cast<void>(
        io::uninterrupted([&] { return parent.syscalls().unlink_at(parent.fd(), name.c_str(), true); }));
    if (error.code() != std::errc::no_such_file_or_directory || attempt + 1 == kMostAttempts) {
      throw;
    }
    return std::nullopt;
  }
}

/// Returns what `name` is, seen from a directory; nothing when there is no such thing, or when nobody may
/// look.
std::optional<io::FileStatus> look_up(const io::Directory& directory, const std::string& name) {
  io::FileStatus status;
  const int result =
      io::uninterrupted([&] { return directory.syscalls().status_at(directory.fd(), name.c_str(), status); });
  if (result == -ENOENT || result == -ENOTDIR || result == -EACCES) {
    return std::nullopt;
  }
  io::require(result, "stat", directory.path() / name);
  return status;
}

/// Makes the directories below that of a checkpointable which a file lies in, where another file has not made them.
void make_directories(const io::Directory& staged, std::string_view relative) {
  std::size_t begin = relative.find('/');
  if (begin == relative.rfind('/')) {
    return;  // The checkpointable's own is there, or the file lies above.
  }
  io::Directory at = staged.open_directory(relative.substr(0, begin));
  for (std::size_t end = relative.find('/', ++begin); end != std::string_view::npos;
       end = relative.find('/', begin)) {
    const std::string name(relative.substr(begin, end - begin));
    const int made = io::uninterrupted(
        [&] { return at.syscalls().make_directory_at(at.fd(), name.c_str(), io::kDirectoryMode); });
    if (made != -EEXIST) {
      io::require(made, "mkdir", at.path() / name);
    }
    at = at.open_directory(name);
    begin = end + 1;
  }
}

/// A path for people: without "..", where the system can tell.
std::string readable(const std::filesystem::path& path) {
  std::error_code failed;
  const std::filesystem::path resolved = std::filesystem::canonical(path, failed);
  return failed ? path.string() : resolved.string();
}

/// Removes what this process has made, as far as possible.
void abandon_own(StagedDirectory::State& state) noexcept {
  CAIRN_ASSERT(!state.is_joined && !state.is_settled, "only what was not published is abandoned");
  // Who sees the directory without its lock now may remove it as well: it is to go.
  for (io::FileHandle* handle : {&state.marker, &state.owner, &state.reserve}) {
    [[maybe_unused]] const int ignored = handle->close();
  }
  if (state.marked) {
    discard(state.parent, state.marker_name, *state.marked, &state.abandonment_problem);
  }
  discard(state.parent, state.staged_name, state.staged, &state.abandonment_problem);
}

bool holds_commit(const io::Directory& parent, const std::string& name) {
  const std::optional<io::FileStatus> directory = parent.status(name);
  return directory && directory->kind == io::FileKind::directory && has_commit(parent.open_directory(name));
}

}  // namespace

void require_outside_checkpoints(const io::Directory& parent, const std::filesystem::path& target) {
  std::optional<io::FileStatus> here = look_up(parent, ".");
  std::string up;
  for (int level = 0; here && level < kMostParents; ++level) {
    const auto is_file = [&](std::string_view name) {
      const std::optional<io::FileStatus> found = look_up(parent, up + std::string(name));
      return found && found->kind == io::FileKind::regular;
    };
    if (is_file(kCommitName) && is_file(kManifestName)) {
      throw Error(Errc::invalid_argument,
                  fmt::format("'{}' lies in the checkpoint {}, which holds only its own files",
                              target.string(), readable(parent.path() / up)));
    }
    up += "../";
    std::optional<io::FileStatus> above = look_up(parent, up);
    if (above && above->id == here->id) {
      return;  // The root is its own parent.
    }
    here = above;
  }
}

io::FileHandle claim(const io::Directory& directory, std::string_view owner_name, const Uuid& uuid) {
  const std::string name(owner_name);
  const std::filesystem::path path = directory.path() / name;  // Before there is a descriptor to lose.
  io::Syscalls& syscalls = directory.syscalls();
  const int fd = io::uninterrupted([&] {
    return syscalls.open_beneath(directory.fd(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
  });
  if (fd == -ENOENT) {
    CAIRN_PROBE("store.directory_removed_before_it_was_claimed");
    return {};
  }
  io::FileHandle owner(syscalls, io::require(fd, "create", path));
  if (io::uninterrupted([&] { return syscalls.try_lock(fd); }) == -EAGAIN) {
    CAIRN_PROBE("store.mark_locked_by_a_recovery");
    return {};
  }
  // Any other refusal means that the file system has no locks; then pid and boot id must do.
  if (!directory.status(name)) {  // A recovery had the lock before us: it took the file for a dead writer's.
    CAIRN_PROBE("store.mark_removed_by_a_recovery");
    return {};
  }
  const std::string text = encode_owner(this_process(uuid));
  io::write_all(owner, std::as_bytes(std::span(text)), 0, path);
  io::require(syscalls.sync_data(fd), "fdatasync", path);
  return owner;
}

std::optional<Current> find_current(const io::Directory& parent, const std::string& name) {
  for (const std::uint32_t generation : list_generations(parent, name)) {
    CAIRN_ASSERT(generation > 0, "generations that are listed are counted from 1");
    std::string found = generation_name(name, generation);
    if (generation == 1) {
      return Current{std::move(found), 1};
    }
    const CommitCheck check = check_commit(parent, found, false);
    if (check.unreadable) {
      throw Error(check.unreadable, check.problem);
    }
    // A damaged one is what readers find, too: they take nothing below it for the checkpoint.
    if (check.is_committed ? check.generation == generation : holds_commit(parent, found)) {
      return Current{std::move(found), generation};
    }
  }
  if (parent.status(name)) {  // A file or a link.
    return Current{name, 1};
  }
  return std::nullopt;
}

bool is_checkpoint(const io::Directory& directory) {
  const auto is_file = [&directory](std::string_view name) {
    const std::optional<io::FileStatus> status = directory.status(name);
    return status && status->kind == io::FileKind::regular;
  };
  return is_file(kCommitName) && is_file(kManifestName) && has_commit(directory);
}

void require_replaceable(const io::Directory& parent, const Current& current, bool overwrite) {
  const std::string path = parent.path() / current.name;
  if (!overwrite) {
    throw Error(Errc::already_exists, path);
  }
  for (int restarts = 0; restarts <= kMostRestarts; ++restarts) {
    const std::optional<io::FileStatus> status = parent.status(current.name);
    if (!status) {
      return;
    }
    if (status->kind != io::FileKind::directory) {
      break;
    }
    try {
      const io::Directory directory = parent.open_directory(current.name);
      if (is_checkpoint(directory)) {
        return;
      }
      if (!directory.is_replaced()) {
        break;
      }
      // What another save has just replaced loses its files one by one: the name leads to the new one.
    } catch (const Error& error) {
      if (error.code() != std::errc::no_such_file_or_directory) {
        throw;
      }
      CAIRN_PROBE("store.replaced_while_looked_at");
    }
  }
  throw Error(Errc::already_exists, fmt::format("{} is not a checkpoint, and is not overwritten", path));
}

StagedDirectory::StagedDirectory(std::unique_ptr<State> state) : state_(std::move(state)) {}

std::filesystem::path temporary_path(const std::filesystem::path& target, const Uuid& uuid) {
  const Target parsed = parse_target(target);
  return parsed.parent / temporary_name(parsed.name, uuid);
}

StagedDirectory::StagedDirectory(StagedDirectory&& other) noexcept = default;

StagedDirectory::~StagedDirectory() {
  abandon();
}

StagedDirectory StagedDirectory::create(io::Engine& engine, const std::filesystem::path& target,
                                        StagedOptions options) {
  require_outside_parts(parse_target(target).path);
  return create(engine, open_target(engine.syscalls(), target), std::move(options));
}

StagedDirectory StagedDirectory::create(io::Engine& engine, SaveTarget parsed, StagedOptions options) {
  io::Directory parent = std::move(parsed.parent);
  if (const auto current = find_current(parent, parsed.name)) {
    require_replaceable(parent, *current, options.overwrite);
  }
  require_outside_checkpoints(parent, parsed.path);
  const std::shared_ptr<MemoryRoot> memory =
      parsed.is_in_memory ? MemoryRoot::find(parsed.directory) : nullptr;
  if (memory) {
    memory->begin();
  }
  io::FileHandle reserve = open_reserve(parent);
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const Uuid uuid = options.uuid ? *options.uuid : make_uuid(options.random);
    const std::string name = temporary_name(parsed.name, uuid);
    std::optional<io::Directory> staged = make_staged(parent, name, options.directory_mode, attempt);
    if (!staged) {
      continue;
    }
    io::FileHandle owner;
    try {
      owner = claim(*staged, kOwnerName, uuid);
    } catch (...) {
      [[maybe_unused]] const int ignored = reserve.close();
      discard(parent, name, *staged);
      throw;
    }
    if (!owner.is_open()) {
      CAIRN_PROBE("store.staged_directory_taken_by_a_recovery");
      discard(parent, name, *staged);  // Its name may be settled: then the next attempt takes it again.
      continue;
    }
    auto state = std::make_unique<State>(engine, std::move(parent), std::move(*staged));
    state->options = std::move(options);
    state->target = parsed.path;
    state->name = parsed.name;
    state->staged_name = name;
    state->uuid = uuid;
    state->checkpoint = state->options.original.value_or(uuid);
    state->owner = std::move(owner);
    state->reserve = std::move(reserve);
    state->use = std::move(parsed.use);
    state->is_in_memory = parsed.is_in_memory;
    state->memory = memory;
    CAIRN_ASSERT(state->owner.is_open() && !state->staged_name.empty(),
                 "a temporary directory has an owner and a name");
    StagedDirectory made(std::move(state));
    if (const std::shared_ptr<ParentUse>& use = made.state_->use) {
      use->sync();  // Before the commit; where no directory was made there is nothing to do.
    }
    return made;
  }
  throw Error(Errc::io_failure, fmt::format("{}: another process keeps removing the temporary directories",
                                            parent.path().string()));
}

const std::filesystem::path& StagedDirectory::target() const noexcept {
  return state_->target;
}

const std::filesystem::path& StagedDirectory::path() const noexcept {
  return state_->staged.path();
}

const Uuid& StagedDirectory::uuid() const noexcept {
  return state_->uuid;
}

const io::Directory* StagedDirectory::directory() const noexcept {
  return &state_->staged;
}

const std::string& StagedDirectory::abandonment_problem() const noexcept {
  return state_->abandonment_problem;
}

const std::string& StagedDirectory::retirement_problem() const noexcept {
  return state_->retirement_problem;
}

void StagedDirectory::make_directory(std::string_view name) {
  static_cast<void>(state_->staged.make_directory(name, state_->options.directory_mode));
}

std::unique_ptr<io::NewFile> StagedDirectory::create_file(std::string_view relative,
                                                          const io::NewFileOptions& options) {
  make_directories(state_->staged, relative);
  if (state_->is_joined) {
    adopt(relative);
  }
  io::NewFileOptions how = options;
  how.is_filled_in_place =
      options.is_filled_in_place && state_->is_in_memory && options.expected_bytes >= kMinFilledBytes;
  if (how.is_filled_in_place && state_->memory) {
    return state_->memory->create_file(state_->engine, state_->staged, relative, how);
  }
  if (state_->memory) {
    state_->memory->reserve(state_->staged.path() / relative, options.expected_bytes);
  }
  return std::make_unique<io::DurableFile>(
      io::DurableFile::create(state_->engine, state_->staged, relative, how));
}

bool StagedDirectory::link_file(std::string_view relative, const io::Directory& from) {
  const std::size_t slash = relative.rfind('/');
  if (slash == std::string_view::npos) {
    throw Error(Errc::malformed_metadata,
                fmt::format("'{}' lies in no checkpointable's directory", relative));
  }
  make_directories(state_->staged, relative);
  const std::string name(relative.substr(slash + 1));
  const io::Directory there = from.open_directory(relative.substr(0, slash));
  const io::Directory here = state_->staged.open_directory(relative.substr(0, slash));
  const int linked = io::done_at_last(
      -EEXIST, [&] { return here.syscalls().link_at(there.fd(), name.c_str(), here.fd(), name.c_str()); });
  if (io::has_no_links(linked) || linked == -EXDEV) {
    CAIRN_PROBE("store.file_not_linked");
    return false;
  }
  io::require(linked, fmt::format("link {} to", (there.path() / name).string()), here.path() / name);
  return true;
}

void StagedDirectory::adopt(std::string_view relative) {
  const MutexLock lock(state_->made_mutex);
  state_->made.emplace_back(relative);
}

void StagedDirectory::publish(Manifest manifest, std::span<const io::FileDigest> digests,
                              std::span<const FileEntry> others) {
  if (state_->is_settled || state_->is_abandoned || state_->is_joined) {
    throw Error(Errc::closed, fmt::format("publish {}", state_->target.string()));
  }
  try {
    publish_staged(*state_, std::move(manifest), digests, others);
  } catch (const Error& error) {
    // Other ranks that hear nothing of rank 0 move its directory away, and take back what they have written.
    const std::string trash = trash_name(state_->name, state_->uuid);
    if (error.code() == Errc::cancelled || !is_called(state_->parent, trash, state_->staged)) {
      throw;
    }
    CAIRN_PROBE("store.given_up_by_other_ranks");
    throw Error(
        Errc::peer_lost,
        fmt::format("{}: the other ranks have given the save up, because they have heard nothing of rank 0 "
                    "for too long: it was stopped, or cut off",
                    state_->target.string()));
  }
  CAIRN_ASSERT(state_->is_settled, "a save that was published is settled");
  if (state_->use) {
    state_->use->keep();
  }
}

void StagedDirectory::abandon() noexcept {
  if (!state_ || state_->is_settled) {
    return;
  }
  state_->is_abandoned = true;
  CAIRN_PROBE("store.abandoned");
  state_->abandonment_problem.clear();
  if (state_->is_joined) {
    abandon_joined(*state_);
  } else {
    abandon_own(*state_);
  }
  // A handler that outlives its verdict may still write, past its context: what sees its end calls this once more.
  state_->is_settled = state_->abandonment_problem.empty();
}

}  // namespace cairn::store
