// SPDX-License-Identifier: Apache-2.0
#include "store/internal/committed_directory.hpp"

#include <system_error>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <boost/endian/arithmetic.hpp>
#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "store/commit_record.hpp"
#include "store/commit_time.hpp"
#include "store/file_index.hpp"
#include "store/names.hpp"

namespace cairn::store {
namespace {

constexpr std::size_t kMaxCommitBytes = 4096;  // A later format's record may be longer than ours.
constexpr std::uint64_t kMaxChunkTableBytes = std::uint64_t{1} << 30;  // Of one file: 128 TiB of data.

struct Opened {
  CommitRecord commit;
  Manifest manifest;
};

/// Reads a file that a checkpoint must have; one that is missing throws `code`.
std::string read_part(const io::Directory& directory, std::string_view name, std::size_t max_bytes,
                      Errc code) {
  try {
    return io::read_small_file(directory, name, max_bytes);
  } catch (const Error& error) {
    if (error.code() == Errc::not_found) {
      throw Error(code, fmt::format("{} has no {}", directory.path().string(), name));
    }
    throw;
  }
}

/// Returns whether a text is the manifest that COMMIT vouches for.
bool vouches_for(const CommitRecord& commit, std::string_view text) {
  return text.size() == commit.manifest_bytes && hash_text(text) == commit.manifest_hash;
}

/// The manifest's text.
std::string read_manifest_text(const io::Directory& directory, const CommitRecord& commit) {
  std::string text = read_part(directory, kManifestName, kMaxManifestBytes, Errc::malformed_metadata);
  if (!vouches_for(commit, text)) {
    throw Error(Errc::checksum_mismatch, directory.path() / kManifestName);
  }
  return text;
}

/// The chain's first links: COMMIT, and the manifest that it vouches for; `known` is that, perhaps.
Opened read_commit(const io::Directory& directory, const std::string& known = {}) {
  Opened opened;
  const std::string manifest_path = directory.path() / kManifestName;
  opened.commit = read_commit_record(directory);
  const std::string text =
      vouches_for(opened.commit, known) ? known : read_manifest_text(directory, opened.commit);
  opened.manifest = decode_manifest(text, manifest_path);
  if (opened.manifest.uuid != opened.commit.uuid) {
    CAIRN_PROBE("store.manifest_of_another_commit");
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: the uuid is not the one in COMMIT", manifest_path));
  }
  return opened;
}

ManifestFacts facts_of(const Manifest& manifest) {
  ManifestFacts facts;
  facts.committed = manifest.committed;
  facts.commit_time = parse_commit_time(manifest.committed, manifest.committed_nanoseconds);
  facts.start_time = parse_commit_time(manifest.started, manifest.started_nanoseconds);
  facts.checkpointables = manifest.checkpointables.size();
  facts.annotations = manifest.annotations;
  for (const FileEntry& file : manifest.files) {
    facts.bytes += file.size_bytes;
  }
  return facts;
}

[[noreturn]] void throw_not_committed(const std::filesystem::path& path, std::string_view why) {
  throw Error(Errc::not_committed, fmt::format("{}: {}", path.string(), why));
}

/// Opens `path` as any program would; says what is there instead of a directory.
io::Directory open_checkpoint(io::Syscalls& syscalls, const std::filesystem::path& path) {
  try {
    return io::Directory::open(syscalls, path);
  } catch (const Error& error) {
    if (error.code() == std::errc::no_such_file_or_directory) {
      throw Error(Errc::not_found, path.string());
    }
    if (error.code() == std::errc::not_a_directory) {
      throw_not_committed(path, "this is a file, not a directory");
    }
    throw;
  }
}

/// The generations above the first of the checkpoint at `path`, the highest first.
std::vector<std::uint32_t> later_generations(io::Syscalls& syscalls, const std::filesystem::path& path) {
  const std::filesystem::path parent = path.parent_path();
  const std::string name = path.filename();
  if (!io::is_plain_relative(name)) {
    return {};
  }
  try {
    std::vector<std::uint32_t> generations =
        list_generations(io::Directory::open(syscalls, parent.empty() ? "." : parent), name);
    std::erase(generations, 1u);
    CAIRN_ASSERT(std::is_sorted(generations.rbegin(), generations.rend()),
                 "generations come from the highest down");
    return generations;
  } catch (const Error& error) {
    if (error.code() == std::errc::no_such_file_or_directory || error.code() == std::errc::not_a_directory ||
        error.code() == std::errc::permission_denied) {
      return {};  // Opening the checkpoint itself says better what is wrong.
    }
    throw;
  }
}

/// A checkpoint that was found and opened.
struct Found {
  io::Directory directory;
  Opened opened;
};

/// Reads the checkpoint that a directory is; nothing when it was replaced or removed meanwhile.
std::optional<Found> read_undisturbed(io::Directory directory, const std::string& known) {
  try {
    Opened opened = read_commit(directory, known);
    return Found{std::move(directory), std::move(opened)};
  } catch (const Error&) {
    if (!directory.is_replaced()) {
      throw;
    }
    CAIRN_PROBE("store.replaced_while_opened");
    return std::nullopt;
  }
}

/// Opens the highest generation of the checkpoint at `path`; nothing when generations came or went meanwhile.
std::optional<Found> find_undisturbed(io::Syscalls& syscalls, const std::filesystem::path& path,
                                      const std::string& known) {
  const std::vector<std::uint32_t> generations = later_generations(syscalls, path);
  try {
    for (const std::uint32_t generation : generations) {
      io::Directory directory = open_checkpoint(
          syscalls, path.parent_path() / generation_name(path.filename().string(), generation));
      if (!has_commit(directory)) {
        if (directory.is_replaced()) {
          CAIRN_PROBE("store.generation_replaced_while_opened");
          return std::nullopt;
        }
        continue;  // Still being written.
      }
      std::optional<Found> found = read_undisturbed(std::move(directory), known);
      // Of another generation: a checkpoint that is called so.
      if (!found || found->opened.manifest.generation == generation) {
        return found;
      }
    }
    return read_undisturbed(open_checkpoint(syscalls, path), known);
  } catch (const Error& error) {
    if (error.code() != Errc::not_found || later_generations(syscalls, path) == generations) {
      throw;
    }
    return std::nullopt;
  }
}

/// Returns whether an error says nothing about the checkpoint.
bool is_shortage(const Error& error) {
  return error.code() == std::errc::too_many_files_open ||
         error.code() == std::errc::too_many_files_open_in_system ||
         error.code() == std::errc::not_enough_memory;
}

/// Tells what is wrong with a checkpoint from what keeps it from being read.
///
/// Errors: passes on what says nothing about the checkpoint.
void explain(CommitCheck& check, const Error& error) {
  if (is_shortage(error)) {
    CAIRN_PROBE("store.shortage_while_checked");
    throw;
  }
  check.problem = error.what();
  const bool is_gone = error.code() == std::errc::no_such_file_or_directory ||
                       error.code() == std::errc::not_a_directory ||
                       error.code() == std::errc::too_many_symbolic_link_levels;
  if (error.code().category() == std::system_category() && !is_gone) {
    check.unreadable = error.code();
  }
}

}  // namespace

CommitRecord read_commit_record(const io::Directory& directory) {
  const std::string path = (directory.path() / kCommitName).string();
  for (int reads = 1;; ++reads) {
    const std::string bytes = read_part(directory, kCommitName, kMaxCommitBytes, Errc::not_committed);
    try {
      return decode_commit(bytes, path);
    } catch (const Error& error) {
      if (error.code() == Errc::unsupported_version) {  // Whole, as far as anybody can tell here.
        throw;
      }
      if (directory.status(kUncommittedName)) {
        CAIRN_PROBE("store.commit_not_whole");
        throw_not_committed(directory.path(),
                            "its COMMIT is not whole: a save is writing it, or was cut short");
      }
      if (reads > 1) {
        CAIRN_PROBE("store.commit_damaged");
        throw;
      }
    }
    // Without the mark it is damaged; or its save has ended since it was read, which another look tells.
  }
}

bool has_commit(const io::Directory& directory) {
  if (!directory.status(kCommitName)) {
    return false;
  }
  if (!directory.status(kUncommittedName)) {
    return true;
  }
  try {
    static_cast<void>(read_commit_record(directory));
  } catch (const Error& error) {
    if (error.code().category() != cairn_category()) {
      throw;
    }
    return error.code() != Errc::not_committed;
  }
  return true;
}

CommittedDirectory::CommittedDirectory(io::Directory directory, CommitRecord commit, Manifest manifest)
    : directory_(std::move(directory)),
      commit_(commit),
      manifest_(std::move(manifest)),
      index_(std::make_shared<const FileIndex<>>(manifest_.files)) {}

CommittedDirectory CommittedDirectory::open(io::Syscalls& syscalls, const std::filesystem::path& path,
                                            const std::string& known_manifest) {
  const std::filesystem::path plain = io::named_path(path);
  if (reserved_kind(plain.filename().string())) {
    throw_not_committed(plain, "this is the temporary directory of a save");
  }
  for (int restarts = 0; restarts <= kMostRestarts; ++restarts) {
    if (std::optional<Found> found = find_undisturbed(syscalls, plain, known_manifest)) {
      return {std::move(found->directory), found->opened.commit, std::move(found->opened.manifest)};
    }
  }
  CAIRN_PROBE("store.replaced_each_time");
  throw Error(Errc::not_found, fmt::format("{}: it was replaced each of the {} times that it was opened",
                                           plain.string(), kMostRestarts + 1));
}

std::string CommittedDirectory::manifest_text() const {
  return read_manifest_text(directory_, commit_);
}

const FileEntry* CommittedDirectory::find(std::string_view relative) const noexcept {
  const auto* found = index_->find(relative);
  return found == nullptr ? nullptr : &manifest_.files[found->position];
}

std::vector<std::string> CommittedDirectory::files_below(std::string_view directory) const {
  return index_->below(directory);
}

io::FileHandle CommittedDirectory::open_file(std::string_view relative, int flags) const {
  const std::string path = this->path() / relative;
  const FileEntry* entry = find(relative);
  if (entry == nullptr) {
    throw Error(Errc::not_found, fmt::format("{} does not belong to the checkpoint", path));
  }
  io::FileHandle file = directory_.open_file(relative, flags);
  io::FileStatus status;
  io::require(io::uninterrupted([&] { return file.syscalls().status(file.fd(), status); }), "stat", path);
  if (status.size_bytes != entry->size_bytes) {
    throw Error(Errc::checksum_mismatch,
                fmt::format("{}: {} bytes instead of {}", path, status.size_bytes, entry->size_bytes));
  }
  return file;
}

io::FileDigest CommittedDirectory::digest(std::string_view relative) const {
  const auto* found = index_->find(relative);
  if (found == nullptr) {
    throw Error(Errc::not_found,
                fmt::format("{} does not belong to the checkpoint", (path() / relative).string()));
  }
  const FileEntry& entry = manifest_.files[found->position];
  const std::string table_path = path() / table_name(entry.rank);
  const io::FileHandle table = directory_.open_file(table_name(entry.rank));
  io::FileStatus status;
  io::require(io::uninterrupted([&] { return table.syscalls().status(table.fd(), status); }), "stat",
              table_path);
  const std::uint64_t expected = index_->table_bytes(entry.rank);
  const std::uint64_t bytes = io::chunk_count(entry.size_bytes) * sizeof(std::uint64_t);
  CAIRN_ASSERT(found->first_chunk * sizeof(std::uint64_t) + bytes <= expected,
               "the hashes of a file lie within the table of its rank");
  if (status.size_bytes != expected || bytes > kMaxChunkTableBytes) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: {} bytes instead of {}", table_path, status.size_bytes, expected));
  }
  std::vector<boost::endian::little_uint64_t> chunks(
      static_cast<std::size_t>(io::chunk_count(entry.size_bytes)));
  io::read_all(table, std::as_writable_bytes(std::span(chunks)), found->first_chunk * sizeof(std::uint64_t),
               table_path);
  const io::FileDigest digest{entry.path, entry.size_bytes, {chunks.begin(), chunks.end()}};
  if (digest.root() != entry.root) {
    CAIRN_PROBE("store.damaged_hashes");
    throw Error(Errc::checksum_mismatch, fmt::format("{}: the hashes of '{}'", table_path, entry.path));
  }
  return digest;
}

std::string CommittedDirectory::read_verified(std::string_view relative, std::size_t max_bytes) const {
  const io::FileHandle file = open_file(relative);
  const io::FileDigest digest = this->digest(relative);
  const std::string path = this->path() / relative;
  if (digest.size_bytes > max_bytes) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{} has {} bytes; at most {} are allowed", path, digest.size_bytes, max_bytes));
  }
  std::string text(static_cast<std::size_t>(digest.size_bytes), '\0');
  CAIRN_ASSERT(digest.chunks.size() == io::chunk_count(digest.size_bytes),
               "a digest has a hash for each chunk");
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(text));
  io::read_all(file, bytes, 0, path);
  io::verify_chunks(path, 0, bytes, digest);
  return text;
}

Manifest read_manifest(const io::Directory& directory) {
  return read_commit(directory).manifest;
}

CommitCheck check_commit(const io::Directory& directory, bool check_files) {
  CommitCheck check;
  try {
    const Opened opened = read_commit(directory);
    check.uuid = opened.commit.uuid;
    check.generation = opened.manifest.generation;
    check.facts = facts_of(opened.manifest);
    if (check_files) {
      const auto require_size = [&directory](std::string_view path, std::uint64_t size_bytes) {
        const std::optional<io::FileStatus> status = directory.status(path);
        if (!status || status->kind != io::FileKind::regular || status->size_bytes != size_bytes) {
          throw Error(Errc::checksum_mismatch, fmt::format("{} is missing or of another size", path));
        }
      };
      for (const auto& [rank, bytes] : chunk_tables(opened.manifest.files)) {
        require_size(table_name(rank), bytes);
      }
      for (const FileEntry& file : opened.manifest.files) {
        require_size(file.path, file.size_bytes);
      }
    }
    check.is_committed = true;
  } catch (const Error& error) {
    explain(check, error);
  }
  CAIRN_ASSERT(check.is_committed ? check.problem.empty() && !check.unreadable : !check.problem.empty(),
               "a checkpoint is committed, or has a problem");
  return check;
}

CommitCheck check_commit(const io::Directory& parent, std::string_view name, bool check_files) {
  try {
    for (int restarts = 0;; ++restarts) {
      const io::Directory directory = parent.open_directory(name);
      CommitCheck check = check_commit(directory, check_files);
      if (check.is_committed || restarts == kMostRestarts || !directory.is_replaced()) {
        return check;
      }
    }
  } catch (const Error& error) {
    CommitCheck check;
    explain(check, error);
    return check;
  }
}

}  // namespace cairn::store
