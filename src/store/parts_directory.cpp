// SPDX-License-Identifier: Apache-2.0
// What lies in a directory of parts is Cairn's only where Cairn can tell: a part by its annotation, a temporary by
// the rules of recovery, a mark by its name and size. All else may be a user's, and stays where it is.
#include "store/internal/parts_directory.hpp"

#include <fcntl.h>
#include <system_error>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/json_reader.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "io/internal/read_small_file.hpp"
#include "io/internal/remove_directory.hpp"
#include "store/contents.hpp"
#include "store/internal/manifest.hpp"
#include "store/internal/recovery.hpp"
#include "store/names.hpp"
#include "store/owner.hpp"
#include "store/retire.hpp"
#include "store/staged_state.hpp"

namespace cairn::store {
namespace {

constexpr std::size_t kMostMarkBytes = 4096;
constexpr std::string_view kPartPrefix = "part-";

std::string name_of(const SaveTarget& target) {
  return std::string(kPartialPrefix) + target.name;
}

/// Another may have made it, and have died before its name was durable; or makes it meanwhile, and begins to work
/// there.
void make_if_missing(const io::Directory& parent, const std::string& name) {
  const int made = io::uninterrupted(
      [&] { return parent.syscalls().make_directory_at(parent.fd(), name.c_str(), io::kDirectoryMode); });
  if (made != -EEXIST) {
    io::require(made, "mkdir", parent.path() / name);
  }
  parent.sync();
}

bool is_small_file(const io::Directory& directory, std::string_view name) {
  const std::optional<io::FileStatus> status = directory.status(name);
  return status && status->kind == io::FileKind::regular && status->size_bytes <= kMostMarkBytes;
}

/// A mark that a kill has left before it got its name.
bool is_next_mark(const io::Directory& directory, std::string_view name) {
  const std::optional<ReservedName> reserved = parse_reserved(name);
  return reserved && reserved->kind == ReservedKind::temporary && reserved->base == kOwnerName &&
         is_small_file(directory, name);
}

bool is_mark(const io::Directory& directory, std::string_view name) {
  return (name == kOwnerName && is_small_file(directory, name)) || is_next_mark(directory, name);
}

/// Returns what the mark says; nothing for another text, and where there is none.
std::optional<Owner> read_mark(const io::Directory& directory) {
  if (!is_small_file(directory, kOwnerName)) {
    return std::nullopt;
  }
  return parse_owner(io::read_small_file(directory, kOwnerName, kMostMarkBytes));
}

bool is_part_directory(const io::DirectoryEntry& entry) {
  return entry.kind == io::FileKind::directory && part_number(entry.name).has_value();
}

/// A temporary or the trash of a part: recovery knows which of them may go.
bool is_temporary_of_part(const io::DirectoryEntry& entry) {
  const std::optional<ReservedName> reserved = parse_reserved(entry.name);
  return entry.kind == io::FileKind::directory && reserved && part_number(reserved->base);
}

bool has_part_member(const Manifest& manifest, const std::string& path) {
  JsonReader json(manifest.annotations, path);
  json.begin_object();
  bool is_found = false;
  while (const auto key = json.next_key()) {
    is_found = is_found || *key == kPartMember;
    json.skip_value();
  }
  return is_found;
}

/// The manifest of a part, also of one that has lost its COMMIT; nothing for what cannot be told to be a part.
std::optional<Manifest> manifest_of_part(const io::Directory& part) {
  try {
    const std::string path = part.path() / kManifestName;
    Manifest manifest = decode_manifest(io::read_small_file(part, kManifestName, kMaxManifestBytes), path);
    return has_part_member(manifest, path) ? std::optional(std::move(manifest)) : std::nullopt;
  } catch (const Error& error) {
    if (error.code().category() != cairn_category()) {
      throw;
    }
    CAIRN_PROBE("store.part_without_manifest");
    return std::nullopt;
  }
}

/// The end of a removal that was cut short.
bool is_remnant(const io::Directory& part) {
  return !part.status(kManifestName) && holds_only_own_files(part);
}

/// Returns whether a save by marker has left this at the name of its part, because it ended before COMMIT:
/// recovery removes it.
bool is_unpublished(const io::Directory& part) {
  return is_small_file(part, kUncommittedName) &&
         parse_owner(io::read_small_file(part, kUncommittedName, kMostMarkBytes)).has_value();
}

bool is_part(const io::Directory& directory, const io::DirectoryEntry& entry) {
  if (!is_part_directory(entry)) {
    return false;
  }
  const io::Directory part = directory.open_directory(entry.name);
  return manifest_of_part(part).has_value() || is_remnant(part);
}

void report(Foreign& others, const std::string& name) {
  constexpr std::size_t kMostReported = 10;
  if (others.count++ < kMostReported) {
    others.paths.push_back(name);
  }
}

std::string describe_others(const std::filesystem::path& where, const Foreign& others) {
  return others.count == 0 ? ""
                           : fmt::format("kept in {}, because nothing says that Cairn has written it: {}",
                                         where.string(), listed(others));
}

/// Holds what `PartsDirectory::remove` takes, and what it leaves.
struct Contents {
  std::vector<std::size_t> parts;
  Foreign others;
};

Contents contents_of(const io::Directory& directory) {
  Contents contents;
  for (const io::DirectoryEntry& entry : directory.list()) {
    if (is_part(directory, entry)) {
      contents.parts.push_back(*part_number(entry.name));
    } else if (!is_mark(directory, entry.name)) {
      report(contents.others, entry.name);
    }
  }
  std::sort(contents.parts.begin(), contents.parts.end());
  CAIRN_ASSERT(std::adjacent_find(contents.parts.begin(), contents.parts.end()) == contents.parts.end(),
               "a part has one number");
  return contents;
}

/// Returns what lies in a directory that is neither empty nor ours: without a part, and without the mark of a
/// program.
Foreign others_in(const io::Directory& directory) {
  Foreign others;
  if (read_mark(directory)) {
    return others;
  }
  for (const io::DirectoryEntry& entry : directory.list()) {
    if (is_part_directory(entry)) {
      const io::Directory part = directory.open_directory(entry.name);
      if (manifest_of_part(part) || is_unpublished(part)) {
        return {};
      }
    }
    const bool is_ours = is_mark(directory, entry.name) || is_temporary_of_part(entry);
    if (!is_ours &&
        directory.status(entry.name)) {  // Else it was the mark of a program that begins to work here.
      report(others, entry.name);
    }
  }
  return others;
}

/// Removes what the manifest of a part lists, as that of any checkpoint, and says what else was there, and where:
/// `home`.
std::string remove_part(const io::Directory& directory, const std::string& name, const io::Directory& part,
                        const std::filesystem::path& home) {
  const Foreign others =
      remove_checkpoint_files(part, manifest_of_part(part).value_or(Manifest()), RemovalOrder::durable);
  if (others.count != 0) {
    return fmt::format("kept in {}, because the part does not list it: {}", home.string(), listed(others));
  }
  io::remove_if_there([&] { directory.remove_empty_directory(name); });
  return "";
}

void remove_marks(const io::Directory& directory) {
  for (const io::DirectoryEntry& entry : directory.list()) {
    if (is_next_mark(directory, entry.name)) {
      io::remove_if_there([&] { directory.remove_file(entry.name); });
    }
  }
  if (is_small_file(directory, kOwnerName)) {
    io::remove_if_there([&] { directory.remove_file(kOwnerName); });
  }
}

bool is_other_layer(const Error& error) {
  return error.code() == std::error_code(EXDEV, std::system_category());
}

void keep(std::vector<std::string>& kept, std::string sentence) {
  if (!sentence.empty()) {
    kept.push_back(std::move(sentence));
  }
}

}  // namespace

std::string part_name(std::size_t number) {
  return fmt::format("{}{:05}", kPartPrefix, number);
}

std::optional<std::size_t> part_number(std::string_view name) {
  std::size_t number = 0;
  if (!name.starts_with(kPartPrefix)) {
    return std::nullopt;
  }
  const auto [end, error] =
      std::from_chars(name.data() + kPartPrefix.size(), name.data() + name.size(), number);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  return is_number && part_name(number) == name ? std::optional(number) : std::nullopt;
}

void require_outside_parts(const std::filesystem::path& target) {
  const std::filesystem::path plain = target.lexically_normal();
  for (const std::filesystem::path& above : plain.parent_path()) {
    if (above.native().starts_with(kPartialPrefix)) {
      throw Error(
          Errc::invalid_argument,
          fmt::format("'{}' lies in a directory of parts ({}), which holds only what a PartialSave adds",
                      target.string(), above.string()));
    }
  }
}

PartsDirectory::PartsDirectory(io::Directory parent, std::string name, io::Directory directory)
    : parent_(std::move(parent)), name_(std::move(name)), directory_(std::move(directory)) {
  claim();
}

/// Locks the mark, and replaces it by one that names this process. Whoever has opened the old one finds that it is
/// not the mark any more.
void PartsDirectory::claim() {
  const std::filesystem::path path = directory_.path() / kOwnerName;
  if (directory_.status(kOwnerName) && !is_small_file(directory_, kOwnerName)) {
    throw Error(Errc::already_exists,
                fmt::format("{} is not the mark of a program, and is not replaced by one", path.string()));
  }
  io::Syscalls& syscalls = directory_.syscalls();
  const ProcessFile before([&] {
    const int fd = io::uninterrupted([&] {
      return syscalls.open_beneath(directory_.fd(), kOwnerName.data(), O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
    });
    return io::FileHandle(syscalls, io::require(fd, "create", path));
  });
  // Any other refusal means that the file system has no locks: then nobody is kept from anything.
  const bool is_locked = io::uninterrupted([&] { return syscalls.try_lock(before.fd()); }) == -EAGAIN;
  io::FileStatus opened;
  io::require(io::uninterrupted([&] { return syscalls.status(before.fd(), opened); }), "stat", path);
  const std::optional<io::FileStatus> named = directory_.status(kOwnerName);
  if (is_locked || directory_.is_replaced() || !named || named->id != opened.id) {
    CAIRN_PROBE("store.parts_are_in_use");
    throw Error(std::error_code(EBUSY, std::system_category()),
                fmt::format("{}: another program is at work on these parts", directory_.path().string()));
  }
  if (const auto owner = parse_owner(io::read_small_file(before.file(), path, kMostMarkBytes))) {
    worked_before_ = fmt::format("process {} on {}", owner->pid, owner->host);
  }
  replace_mark();
}

void PartsDirectory::replace_mark() {
  std::string next;
  mark_.emplace([&] {
    if (!next.empty()) {
      CAIRN_PROBE("store.forked_while_parts_were_marked");
      directory_.remove_file(next);  // The process was forked meanwhile.
    }
    next = temporary_name(kOwnerName, make_uuid(system_random));
    return directory_.create_file(next);
  });
  try {
    // Nobody else knows it yet. Where there are no locks, nobody is kept from anything.
    static_cast<void>(io::uninterrupted([&] { return directory_.syscalls().try_lock(mark_->fd()); }));
    const std::string text = encode_owner(this_process({}));
    io::write_all(mark_->file(), std::as_bytes(std::span(text)), 0, directory_.path() / next);
    directory_.rename(next, directory_, kOwnerName, io::RenameMode::replace);
  } catch (...) {
    static_cast<void>(io::uninterrupted(
        [&] { return directory_.syscalls().unlink_at(directory_.fd(), next.c_str(), false); }));
    throw;
  }
}

std::string PartsDirectory::in_the_way(const SaveTarget& target) {
  const std::string name = name_of(target);
  const std::optional<io::FileStatus> status = target.parent.status(name);
  if (!status) {
    return "";
  }
  if (status->kind != io::FileKind::directory) {
    return fmt::format("{} is not a directory, and is left alone", (target.parent.path() / name).string());
  }
  Foreign others;
  try {
    others = others_in(target.parent.open_directory(name));
  } catch (const Error& error) {
    if (error.code() != std::errc::no_such_file_or_directory) {
      throw;
    }
    CAIRN_PROBE("store.parts_go_while_looked_at");
    // Somebody works there, and removes it perhaps: who opens it is told.
  }
  return others.count == 0 ? ""
                           : fmt::format("{} was not made by Cairn, and is left alone: {}",
                                         (target.parent.path() / name).string(), listed(others));
}

std::optional<PartsDirectory> PartsDirectory::open(SaveTarget target, Check check) {
  std::string name = name_of(target);
  if (!target.parent.status(name)) {
    return std::nullopt;
  }
  const std::string others = check == Check::everything ? in_the_way(target) : "";
  if (!others.empty()) {
    throw Error(Errc::already_exists, others);
  }
  io::Directory directory = target.parent.open_directory(name);
  return PartsDirectory(std::move(target.parent), std::move(name), std::move(directory));
}

PartsDirectory PartsDirectory::make(SaveTarget target) {
  require_outside_checkpoints(target.parent, target.path);
  std::string name = name_of(target);
  make_if_missing(target.parent, name);
  if (const std::string others = in_the_way(target); !others.empty()) {
    throw Error(Errc::already_exists, others);
  }
  io::Directory directory = target.parent.open_directory(name);
  return PartsDirectory(std::move(target.parent), std::move(name), std::move(directory));
}

/// Leaves to recovery what saves of parts have left.
void PartsDirectory::settle_temporaries() const {
  const std::vector<io::DirectoryEntry> entries = directory_.list();
  if (std::any_of(entries.begin(), entries.end(), is_temporary_of_part)) {
    static_cast<void>(recover(directory_.syscalls(), directory_.path(), {}));
  }
}

RemovalReport PartsDirectory::remove(const RandomSource& random) {
  RemovalReport report;
  settle_temporaries();
  const Contents contents = contents_of(directory_);
  if (contents.others.count == 0 && remove_whole(random, report)) {
    return report;
  }
  for (auto number = contents.parts.rbegin(); number != contents.parts.rend(); ++number) {
    keep(report.kept, remove_one(*number, random));
  }
  keep(report.kept, describe_others(directory_.path(), contents.others));
  remove_marks(directory_);  // From here on the directory is nobody's.
  if (report.kept.empty()) {
    io::remove_if_there([&] { parent_.remove_empty_directory(name_); });
  }
  parent_.sync();
  return report;
}

/// False when it cannot be renamed.
bool PartsDirectory::remove_whole(const RandomSource& random, RemovalReport& report) const {
  CAIRN_ASSERT(mark_.has_value(), "parts are removed by who has marked them");
  // By its mark recovery knows that it is ours, once it has a name that says that it is to go.
  io::require(directory_.syscalls().sync_data(mark_->fd()), "fdatasync", directory_.path() / kOwnerName);
  directory_.sync();
  const std::string trash = trash_name(name_, make_uuid(random));
  try {
    set_aside(parent_, name_, trash, directory_);
  } catch (const Error& error) {
    if (!is_other_layer(error)) {
      throw;
    }
    CAIRN_PROBE("store.parts_in_a_lower_layer");
    return false;
  }
  parent_.sync();
  keep(report.kept, remove_parts_set_aside(parent_, trash, directory_));
  return true;
}

std::string PartsDirectory::remove_one(std::size_t number, const RandomSource& random) const {
  CAIRN_ASSERT(mark_.has_value(), "a part is removed by who has marked the parts");
  const std::string name = part_name(number);
  const io::Directory part = directory_.open_directory(name);
  std::string current = trash_name(name, make_uuid(random));
  try {
    set_aside(directory_, name, current, part);
  } catch (const Error& error) {
    if (!is_other_layer(error)) {
      throw;
    }
    CAIRN_PROBE("store.part_in_a_lower_layer");
    // Without COMMIT nobody takes for a part what a crash leaves of it.
    io::remove_if_there([&] { part.remove_file(kCommitName); });
    part.sync();
    current = name;
  }
  directory_.sync();
  std::string kept = remove_part(directory_, current, part, directory_.path() / name);
  if (!kept.empty() && current != name) {
    CAIRN_PROBE("store.part_with_foreign_files_put_back");
    rename_to_free_name(directory_, current, name);  // Nobody else makes one while the mark is locked.
  }
  return kept;
}

std::string remove_parts_set_aside(const io::Directory& parent, const std::string& name,
                                   const io::Directory& directory) {
  const std::optional<ReservedName> reserved = parse_reserved(name);
  const std::string home(reserved ? reserved->base : name);
  std::vector<std::string> kept;
  Foreign others;
  for (const io::DirectoryEntry& entry : directory.list()) {
    if (is_part(directory, entry)) {
      keep(kept, remove_part(directory, entry.name, directory.open_directory(entry.name),
                             parent.path() / home / entry.name));
    } else if (!is_mark(directory, entry.name)) {
      report(others, entry.name);
    }
  }
  keep(kept, describe_others(parent.path() / home, others));
  if (kept.empty()) {
    remove_marks(directory);
    io::remove_if_there([&] { parent.remove_empty_directory(name); });
    return "";
  }
  // Its owner finds what is his where he has put it. The mark goes last: until then recovery knows whose the rest is.
  rename_to_free_name(parent, name, home);
  parent.sync();
  remove_marks(directory);
  return fmt::format("{}", fmt::join(kept, "; "));
}

}  // namespace cairn::store
