// SPDX-License-Identifier: Apache-2.0
#include "store/internal/memory_root.hpp"

#include <fcntl.h>
#include <system_error>

#include <algorithm>
#include <cerrno>
#include <map>
#include <string>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/checked.hpp"
#include "base/internal/mutex.hpp"
#include "base/internal/per_process.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "io/internal/durable_file.hpp"
#include "store/internal/memory_mark.hpp"
#include "store/names.hpp"

namespace cairn::store {

/// Which roots this process has. The system would give it a second claim of one, and take the first from it when either
/// is closed.
struct MemoryRoot::Table {
  Mutex mutex;
  std::map<Key, std::weak_ptr<MemoryRoot>> roots CAIRN_GUARDED_BY(mutex);

  static Table& of_process() {
    static constinit PerProcess<Table> tables;  // A forked child has no claim of its parent.
    return tables.get();
  }
};

namespace {

constexpr std::uint64_t kPageBytes = 4096;
/// Of the files that describe a checkpoint, which are written when all others are there.
constexpr std::uint64_t kDescriptionBytes = std::uint64_t{64} << 10;

io::FileStatus look_at(const io::Directory& directory) {
  io::FileStatus status;
  io::require(io::uninterrupted([&] { return directory.syscalls().status(directory.fd(), status); }), "stat",
              directory.path());
  return status;
}

io::Directory make_spare_folder(const io::Directory& root) {
  constexpr std::uint32_t kOwnMode = 0700;
  const std::string name(kSpareName);
  const int made =
      io::uninterrupted([&] { return root.syscalls().make_directory_at(root.fd(), name.c_str(), kOwnMode); });
  if (made != -EEXIST) {
    io::require(made, "mkdir", root.path() / name);
  }
  return root.open_directory(name);
}

}  // namespace

MemoryRoot::MemoryRoot(io::Directory root, Key key, std::unique_ptr<ProgramClaim> claim, io::Directory spare,
                       std::uint64_t limit_bytes)
    : root_(std::move(root)),
      key_(std::move(key)),
      claim_(std::move(claim)),
      spare_(std::move(spare), limit_bytes) {
  CAIRN_ASSERT(claim_, "a memory is filled by who has claimed it");
}

std::shared_ptr<MemoryRoot> MemoryRoot::claim(io::Directory root, std::uint32_t rank,
                                              const RandomSource& random) {
  if (!lies_in_memory(root.syscalls(), root.fd())) {
    throw Error(Errc::invalid_argument, fmt::format("{} is not on a tmpfs", root.path().string()));
  }
  const std::optional<MemoryMark> mark = read_mark_above(root);
  if (!mark) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} is not in the memory of a run: there is no {} of this user above it",
                            root.path().string(), kMemoryMarkName));
  }
  const io::FileId id = look_at(root).id;
  const Key key(id.device, id.inode);
  Table& table = Table::of_process();
  std::shared_ptr<MemoryRoot> made;  // Before the lock, which its end takes, too.
  const MutexLock lock(table.mutex);
  if (table.roots.contains(key)) {
    throw Error(Errc::invalid_argument, fmt::format("this process fills {} already", root.path().string()));
  }
  auto claim = std::make_unique<ProgramClaim>(root, rank, random);
  io::Directory spare = make_spare_folder(root);
  made.reset(new MemoryRoot(std::move(root), key, std::move(claim), std::move(spare), mark->limit_bytes));
  table.roots.emplace(key, made);
  return made;
}

std::shared_ptr<MemoryRoot> MemoryRoot::find(io::FileId directory) {
  Table& table = Table::of_process();
  const MutexLock lock(table.mutex);
  const auto found = table.roots.find({directory.device, directory.inode});
  return found == table.roots.end() ? nullptr : found->second.lock();
}

MemoryRoot::~MemoryRoot() {
  Table& table = Table::of_process();
  const MutexLock lock(table.mutex);
  claim_.reset();  // Not after another claim of this root, which would lose its lock by that.
  table.roots.erase(key_);
}

void MemoryRoot::begin() {
  claim_->renew();
  asked_bytes_ = kDescriptionBytes;
  spare_.look();
  mappings_.drop_removed();
  mappings_.begin_round();
  make_way();
}

/// A file that is being prepared is waited for: it is a spare one then, which is taken, or gives way.
void MemoryRoot::ask(const std::filesystem::path& file, std::uint64_t bytes) {
  const MutexLock lock(making_);
  if ((asked_bytes_ += round_up(bytes, kPageBytes)) > allowed_bytes_) {
    throw Error(
        std::error_code(ENOSPC, std::system_category()),
        fmt::format("{}: a checkpoint with it takes more than the limit of the memory leaves, {} bytes",
                    file.string(), allowed_bytes_.load()));
  }
}

void MemoryRoot::make_way() {
  const std::uint64_t allowed = allowed_bytes_;
  drop_beyond(allowed - std::min(allowed, asked_bytes_.load()));
}

void MemoryRoot::reserve(const std::filesystem::path& file, std::uint64_t bytes) {
  ask(file, bytes);
  make_way();
}

void MemoryRoot::trim(std::uint64_t most_bytes) {
  spare_.look();
  drop_beyond(most_bytes);
}

void MemoryRoot::drop_beyond(std::uint64_t most_bytes) {
  if (spare_.trim(most_bytes)) {
    mappings_.drop_removed();
  }
}

void MemoryRoot::drop_spare() {
  spare_.clear();
  mappings_.drop_removed();
}

/// Maps a file of the root, if it is one that is filled where it lies.
void MemoryRoot::map(const io::Directory& directory, const std::string& name) {
  const io::FileHandle file = directory.open_file(name, O_RDWR);
  io::FileStatus status;
  const std::filesystem::path path = directory.path() / name;
  io::require(io::uninterrupted([&] { return root_.syscalls().status(file.fd(), status); }), "stat", path);
  std::string refusal;
  if (status.size_bytes < kMinFilledBytes || status.allocated_bytes < status.size_bytes) {
    return;
  }
  static_cast<void>(mappings_.map(file, status.size_bytes, path, {}, refusal));
}

void MemoryRoot::warm(const std::string& checkpoint) {
  for (const std::string& top : {checkpoint, std::string(kSpareName)}) {
    const io::Directory directory = root_.open_directory(top);
    for (const io::DirectoryEntry& entry : directory.list()) {
      if (entry.kind == io::FileKind::regular) {
        map(directory, entry.name);
      } else if (entry.kind == io::FileKind::directory) {
        const io::Directory below = directory.open_directory(entry.name);
        for (const io::DirectoryEntry& file : below.list()) {
          if (file.kind == io::FileKind::regular) {
            map(below, file.name);
          }
        }
      }
    }
  }
  make_ready();
}

void MemoryRoot::prepare(std::span<const std::uint64_t> sizes, const std::function<bool()>& is_over) {
  for (const std::uint64_t size : sizes) {
    if (size < kMinFilledBytes || is_over()) {
      continue;
    }
    const MutexLock lock(making_);
    const std::uint64_t allowed =
        allowed_bytes_;  // Before the look: what is given up is spare before it is allowed.
    spare_.look();
    if (asked_bytes_ + spare_.bytes() + size > allowed) {
      return;
    }
    const std::string name = fmt::format("new-{}-{}", to_string(claim_->record().program), prepared_++);
    std::string refusal;
    try {
      const io::FileHandle file = spare_.make(name, size);
      static_cast<void>(mappings_.map(file, size, root_.path() / kSpareName / name, {}, refusal));
      make_ready();
    } catch (const Error& error) {
      if (error.code() != std::errc::no_space_on_device) {
        throw;
      }
      return;
    }
    spare_.look();
  }
}

std::unique_ptr<io::NewFile> MemoryRoot::create_file(io::Engine& engine, const io::Directory& directory,
                                                     std::string_view relative, io::NewFileOptions options) {
  ask(directory.path() / relative, options.expected_bytes);
  options.is_filled_in_place = true;
  options.mappings = &mappings_;
  const std::size_t slash = relative.rfind('/');
  CAIRN_ASSERT(slash != std::string_view::npos, "each file lies in the directory of its checkpointable");
  const std::string name(relative.substr(slash + 1));
  const io::Directory at = directory.open_directory(relative.substr(0, slash));
  const auto is_in_use = [this](io::FileId file) { return mappings_.is_in_use(file); };
  std::optional<io::FileHandle> spare = spare_.take(at, name, options.expected_bytes, is_in_use);
  if (spare) {
    return std::make_unique<io::DurableFile>(
        io::DurableFile::reuse(engine, std::move(*spare), at.path() / name, options));
  }
  make_way();
  try {
    return std::make_unique<io::DurableFile>(io::DurableFile::create(engine, at, name, options));
  } catch (const Error& error) {
    if (error.code() != std::errc::no_space_on_device || !spare_.trim(0)) {
      throw;
    }
    mappings_.drop_removed();
    CAIRN_PROBE("store.spare_files_trimmed_for_a_new_one");
  }
  at.remove_file(name);  // It was made, but not large enough.
  return std::make_unique<io::DurableFile>(io::DurableFile::create(engine, at, name, options));
}

}  // namespace cairn::store
