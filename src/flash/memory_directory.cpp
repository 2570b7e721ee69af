// SPDX-License-Identifier: Apache-2.0
#include "flash/memory_directory.hpp"

#include <fcntl.h>
#include <system_error>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "flash/internal/run_images.hpp"
#include "io/internal/check.hpp"
#include "io/internal/file.hpp"
#include "io/internal/remove_directory.hpp"

namespace cairn::flash {
namespace {

constexpr std::uint32_t kOwnMode = 0700;
constexpr std::string_view kRunName = "run";
constexpr std::size_t kMaxRunBytes = 100;
/// A program that was killed has its memory until the kernel has taken it apart.
constexpr std::chrono::seconds kMostWait{5};
constexpr std::chrono::milliseconds kLookAgain{10};

std::filesystem::path canonical_of(const std::filesystem::path& path) {
  std::error_code failed;
  const std::filesystem::path found = std::filesystem::weakly_canonical(path, failed);
  return failed ? std::filesystem::absolute(path).lexically_normal() : found;
}

bool lies_in(const std::filesystem::path& path, const std::filesystem::path& other) {
  const std::filesystem::path relative = path.lexically_relative(other);
  return !relative.empty() && *relative.begin() != "..";
}

void require_apart(const std::filesystem::path& memory, const std::filesystem::path& root) {
  const std::filesystem::path a = canonical_of(memory);
  const std::filesystem::path b = canonical_of(root);
  if (a == b || lies_in(a, b) || lies_in(b, a)) {
    refuse_memory(memory, fmt::format("it and the directory of steps, {}, lie in each other", root.string()));
  }
}

/// Makes a directory where it is missing; one that is there is looked at by who opens it.
void make_directory(io::Syscalls& syscalls, int above, const std::string& name,
                    const std::filesystem::path& path, std::uint32_t mode = kOwnMode) {
  const int made = io::uninterrupted([&] { return syscalls.make_directory_at(above, name.c_str(), mode); });
  if (made != -EEXIST) {
    io::require(made, "mkdir", path);
  }
}

/// Opens the directory, which is made where it is missing, and refuses what others could change.
io::Directory open_memory(io::Syscalls& syscalls, const std::filesystem::path& path) {
  make_directory(syscalls, AT_FDCWD, path, path);
  io::FileStatus named;
  io::require(io::uninterrupted([&] { return syscalls.status_at(AT_FDCWD, path.c_str(), named); }), "stat",
              path);
  if (named.kind != io::FileKind::directory) {
    refuse_memory(path,
                  named.kind == io::FileKind::symlink ? "it is a symbolic link" : "it is not a directory");
  }
  io::Directory directory = io::Directory::open(syscalls, path);
  io::FileStatus status;
  io::require(io::uninterrupted([&] { return syscalls.status(directory.fd(), status); }), "stat", path);
  if (status.id != named.id) {
    refuse_memory(path, "it was replaced while it was opened");
  }
  require_memory(directory);
  return directory;
}

/// Gives a file that others may make at the same moment its name, whole: who comes second reads the first one's.
void write_once(const io::Directory& directory, std::string_view name, std::string_view text,
                const store::RandomSource& random) {
  const std::string made = fmt::format("{}.{}", name, store::to_string(store::make_uuid(random)));
  const std::string wanted(name);
  io::write_small_file(directory, made, text, 0600);
  const int linked = io::uninterrupted([&] {
    return directory.syscalls().link_at(directory.fd(), made.c_str(), directory.fd(), wanted.c_str());
  });
  io::remove_if_there([&] { directory.remove_file(made); });
  // Who was first may have tidied up since.
  const bool is_second = linked == -EEXIST || (linked == -ENOENT && directory.status(name));
  if (!is_second) {
    io::require(linked, "link", directory.path() / name);
  }
  directory.sync();
}

/// Returns whether an entry was to get its name by `write_once`.
bool is_unfinished(const io::DirectoryEntry& entry, std::string_view name) {
  const std::string begin = fmt::format("{}.", name);
  return entry.kind == io::FileKind::regular && entry.name.starts_with(begin) &&
         store::parse_uuid(std::string_view(entry.name).substr(begin.size()));
}

/// Once the file has its name: removes what programs have left that were killed before they gave it that.
void remove_unfinished(const io::Directory& directory, std::string_view name) {
  for (const io::DirectoryEntry& entry : directory.list()) {
    if (is_unfinished(entry, name)) {
      io::remove_if_there([&] { directory.remove_file(entry.name); });
    }
  }
}

/// The name of the run whose steps are in this directory; one that has none gets one.
std::string name_run(io::Syscalls& syscalls, const std::filesystem::path& root,
                     const store::RandomSource& random) {
  make_directory(syscalls, AT_FDCWD, root, root, io::kDirectoryMode);
  const io::Directory steps = io::Directory::open(syscalls, root);
  make_directory(syscalls, steps.fd(), std::string(training::kFlashName), root / training::kFlashName);
  std::optional<std::string> run = run_in(steps);
  if (!run) {
    write_once(steps.open_directory(training::kFlashName), kRunName,
               store::to_string(store::make_uuid(random)), random);
    steps.sync();
    run = run_in(steps);
  }
  for (const std::string_view name : {kRunName, training::kLineName}) {
    remove_unfinished(steps.open_directory(training::kFlashName), name);
  }
  return run.value();
}

/// Makes the mark and the directory of the rank where they are missing. Refuses the memory of another run.
void require_own(const io::Directory& memory, const Memory::Options& options,
                 const store::RandomSource& random) {
  const std::string run = name_run(memory.syscalls(), options.root, random);
  if (!memory.status(store::kMemoryMarkName)) {
    for (const io::DirectoryEntry& entry : memory.list()) {
      if (!is_unfinished(entry, store::kMemoryMarkName) && !memory.status(store::kMemoryMarkName)) {
        refuse_memory(memory.path(), fmt::format("it is not empty, and has no {}", store::kMemoryMarkName));
      }
    }
    write_once(memory, store::kMemoryMarkName, store::encode_mark(mark_of(options, run)), random);
  }
  const std::string name(kRankName);
  make_directory(memory.syscalls(), memory.fd(), name, memory.path() / name);
  const std::optional<store::MemoryMark> mark = store::read_mark_above(memory.open_directory(name));
  if (!mark) {
    refuse_memory(memory.path(), fmt::format("its {} is not a file of this user", store::kMemoryMarkName));
  }
  if (mark->run != run) {
    refuse_memory(memory.path(), fmt::format("it is that of run {}, with its steps in {}; {} has run {}",
                                             mark->run, mark->root.string(), options.root.string(), run));
  }
  require_one_rank(*mark, memory.path());
}

std::shared_ptr<store::MemoryRoot> claim_in_time(const io::Directory& memory,
                                                 const store::RandomSource& random) {
  const auto end = std::chrono::steady_clock::now() + kMostWait;
  while (true) {
    try {
      return store::MemoryRoot::claim(memory.open_directory(kRankName), 0, random);
    } catch (const Error& error) {
      if (error.code() != std::errc::device_or_resource_busy || std::chrono::steady_clock::now() >= end) {
        throw;
      }
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace

store::MemoryMark mark_of(const Memory::Options& options, const std::string& run) {
  const StepFormat& format = options.names.format;
  store::MemoryMark mark;
  mark.run = run;
  mark.root = options.root;
  mark.limit_bytes = options.limit_bytes;
  mark.step_zero = format.name(0);
  mark.names.push_back({format.prefix(), format.width()});
  for (const StepFormat& other : options.names.also_read) {
    mark.names.push_back({other.prefix(), other.width()});
  }
  return mark;
}

std::optional<std::string> run_in(const io::Directory& steps) {
  const std::string name = fmt::format("{}/{}", training::kFlashName, kRunName);
  try {
    return io::read_small_file(steps, name, kMaxRunBytes);
  } catch (const Error& error) {
    if (error.code() != Errc::not_found) {
      throw;
    }
    return std::nullopt;
  }
}

std::shared_ptr<store::MemoryRoot> claim_memory(const Memory::Options& options, io::Syscalls& syscalls,
                                                const store::RandomSource& random) {
  require_apart(options.memory, options.root);
  const io::Directory memory = open_memory(syscalls, options.memory);
  require_own(memory, options, random);
  std::shared_ptr<store::MemoryRoot> root = claim_in_time(memory, random);
  remove_unfinished(memory, store::kMemoryMarkName);  // Who has the claim alone renews the mark.
  return root;
}

}  // namespace cairn::flash
