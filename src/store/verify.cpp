// SPDX-License-Identifier: Apache-2.0
#include "store/internal/verify.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"

#include "async/internal/start.hpp"
#include "base/internal/assert.hpp"
#include "base/internal/mutex.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/chunk_hash.hpp"
#include "staging/internal/checked_file.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/commit_record.hpp"
#include "store/contents.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/source.hpp"
#include "store/names.hpp"

namespace cairn::store {
namespace {

constexpr std::chrono::milliseconds kProgressInterval{100};

/// The bytes of small files that a worker checks one after the other; larger files are checked in runs, by
/// several workers.
constexpr std::uint64_t kVisitBytes = std::uint64_t{8} << 20;
constexpr std::size_t kVisitFiles = 64;

/// A file whose chunks are being compared.
struct Examined {
  Examined(staging::DataPlane& plane, const FileEntry& what, staging::FileToRead how)
      : entry(what), file(plane, std::move(how), what.size_bytes) {}

  const FileEntry& entry;
  staging::CheckedFile file;
  /// What each chunk must hash to; nothing when the table does not say: then `found` is compared with the root.
  std::optional<io::FileDigest> expected;
  std::vector<std::uint64_t> found;
  std::atomic<bool> is_unreadable = false;
  std::uint64_t next_run = 0;  // Where it begins; on the strand.
};

std::string_view kind_name(io::FileKind kind) {
  switch (kind) {
    case io::FileKind::regular:
      return "a file";
    case io::FileKind::directory:
      return "a directory";
    case io::FileKind::symlink:
      return "a symbolic link";
    case io::FileKind::other:
      break;
  }
  return "a special file";
}

std::string origin_text(std::optional<std::uint32_t> rank) {
  return rank ? fmt::format(" (written by rank {})", *rank) : "";
}

/// The check of one checkpoint: coroutines on a strand take files in the manifest's order, and large ones apart;
/// workers read what is small or cached, and compare.
class Check {
 public:
  Check(io::Syscalls& syscalls, const Source& checkpoint, const VerifyOptions& options)
      : checkpoint_(checkpoint),
        options_(options),
        directory_(options.directory),
        threads_(options.threads != 0 ? options.threads
                                      : std::max<std::size_t>(std::thread::hardware_concurrency(), 1)),
        own_(syscalls, threads_) {}

  VerifyReport run();

 private:
  [[nodiscard]] bool is_wanted(std::string_view path) const;
  void count_files();
  void check_tables();
  void find_foreign(const io::Directory& root);
  void look_at(const std::string& relative, const io::DirectoryEntry& entry,
               const std::set<std::string>& directories, std::vector<std::string>& pending);

  void check_files();
  void tell_progress();
  /// The next files that are taken at once: small ones, or a large one alone.
  [[nodiscard]] std::span<const FileEntry* const> take();
  Awaitable<> walk();
  Awaitable<> check_large(const FileEntry* entry);
  /// Several share the runs of a file.
  Awaitable<> check_runs(Examined* file);
  void check_small(const FileEntry& entry, std::span<std::byte> buffer);
  [[nodiscard]] staging::FileToRead to_read(const FileEntry& entry) const;
  /// False when there is nothing to compare: the problem has been reported.
  [[nodiscard]] bool open(Examined& file);
  [[nodiscard]] std::optional<io::FileStatus> status(const std::string& path) const;
  [[nodiscard]] bool has_expected_form(const std::string& path, std::uint64_t size_bytes);
  [[nodiscard]] std::optional<io::FileDigest> digest(const FileEntry& entry);
  /// Reads some of a file here and now, and compares each chunk while it is in the processor's caches.
  void check_now(Examined& file, std::uint64_t offset_bytes, std::uint64_t bytes,
                 std::span<std::byte> buffer);
  void compare(Examined& file, std::uint64_t offset_bytes, std::span<const std::byte> data);
  void compare_root(const Examined& file);
  /// Returns which rank wrote a file of several ranks' checkpoint.
  [[nodiscard]] std::optional<std::uint32_t> writer_of(const std::string& file) const;
  void report(Damage damage, std::string file, std::uint64_t size_bytes, std::string_view why);
  void report_chunk(Damage damage, const FileEntry& entry, std::uint64_t chunk, std::string_view why);
  void keep(VerifyProblem problem);

  const Source& checkpoint_;
  const VerifyOptions& options_;
  const std::string directory_;
  const std::size_t threads_;
  std::uint64_t total_bytes_ = 0;
  std::map<std::uint32_t, std::uint64_t> tables_;  // By rank: bytes of its table of chunk hashes.
  std::set<std::uint32_t> damaged_tables_;
  std::map<std::string, std::uint32_t> tables_by_name_;  // And whose they are.
  std::vector<const FileEntry*> wanted_;
  std::size_t next_ = 0;                         // Of those, on the strand.
  std::atomic<std::uint64_t> checked_bytes_{0};  // Also those that could not be read: for progress.
  std::atomic<std::uint64_t> compared_bytes_{0};
  std::atomic<bool> is_stopped_ = false;

  Mutex mutex_;
  VerifyReport report_ CAIRN_GUARDED_BY(mutex_);

  staging::OwnPlane own_;  // Last: its threads use the rest.
};

bool Check::is_wanted(std::string_view path) const {
  return directory_.empty() ||
         (path.size() > directory_.size() && path.starts_with(directory_) && path[directory_.size()] == '/');
}

VerifyReport Check::run() {
  count_files();
  check_tables();
  check_files();
  if (const io::Directory* root = checkpoint_.directory()) {
    find_foreign(*root);
  }
  const MutexLock lock(mutex_);
  report_.path = checkpoint_.root();
  report_.bytes = compared_bytes_;
  std::sort(report_.problems.begin(), report_.problems.end(), [](const auto& a, const auto& b) {
    return std::tie(a.file, a.begin_bytes) < std::tie(b.file, b.begin_bytes);
  });
  std::sort(report_.foreign.begin(), report_.foreign.end());
  return std::move(report_);
}

void Check::count_files() {
  const Manifest& manifest = *checkpoint_.manifest();
  const auto is_directory = [this](const CheckpointableEntry& entry) {
    return entry.directory == directory_;
  };
  if (!directory_.empty() &&
      std::none_of(manifest.checkpointables.begin(), manifest.checkpointables.end(), is_directory)) {
    throw Error(Errc::not_found,
                fmt::format("{} has no checkpointable in '{}'", checkpoint_.root().string(), directory_));
  }
  const MutexLock lock(mutex_);
  if (checkpoint_.directory() != nullptr) {
    tables_ = chunk_tables(manifest.files);
    report_.files = 2 + tables_.size();  // COMMIT and checkpoint.json were compared when they were read.
    compared_bytes_ = kCommitBytes + checkpoint_.manifest_bytes();
  }
  for (const FileEntry& entry : manifest.files) {
    if (is_wanted(entry.path)) {
      ++report_.files;
      total_bytes_ += entry.size_bytes;
      wanted_.push_back(&entry);
    }
  }
}

/// Every byte of a table is compared with some root, except those of a table of another size.
void Check::check_tables() {
  for (const auto& [rank, bytes] : tables_) {
    tables_by_name_.emplace(table_name(rank), rank);
    if (!has_expected_form(table_name(rank), bytes)) {
      damaged_tables_.insert(rank);
    }
  }
}

void Check::check_files() {
  std::vector<Awaitable<>> walkers;
  while (walkers.size() < threads_) {
    walkers.push_back(walk());
  }
  const async::Event ended = async::start(own_.strand(), async::when_all(std::move(walkers)));
  while (!ended.wait_for(kProgressInterval)) {
    try {
      tell_progress();
    } catch (...) {
      is_stopped_ = true;
      static_cast<void>(ended.wait_for(std::chrono::nanoseconds::max()));
      throw;
    }
  }
  ended.get();
  tell_progress();
}

void Check::tell_progress() {
  if (!options_.progress) {
    return;
  }
  CAIRN_ASSERT(checked_bytes_ <= total_bytes_, "no more is checked than there is");
  VerifyProgress progress{total_bytes_, checked_bytes_, 0};
  {
    const MutexLock lock(mutex_);
    progress.problems = report_.problem_count;
  }
  options_.progress(progress);
}

std::span<const FileEntry* const> Check::take() {
  const std::size_t begin = next_;
  std::uint64_t bytes = 0;
  while (next_ < wanted_.size() && next_ - begin < kVisitFiles) {
    bytes += wanted_[next_]->size_bytes;
    if (bytes > kVisitBytes && next_ != begin) {
      break;
    }
    ++next_;
  }
  CAIRN_ASSERT(next_ > begin || next_ == wanted_.size(), "a visit takes a file while there are any");
  return std::span(wanted_).subspan(begin, next_ - begin);
}

Awaitable<> Check::walk() {
  for (auto files = take(); !files.empty() && !is_stopped_; files = take()) {
    if (files.front()->size_bytes > kVisitBytes) {
      co_await check_large(files.front());
      continue;
    }
    const staging::Buffer buffer = co_await own_.plane().acquire_buffer();
    std::function<void()> visit = [&] {
      for (const FileEntry* entry : files) {
        check_small(*entry, buffer.bytes());
      }
    };
    co_await own_.plane().run(std::move(visit));
  }
}

void Check::check_small(const FileEntry& entry, std::span<std::byte> buffer) {
  Examined file(own_.plane(), entry, to_read(entry));
  if (open(file)) {
    check_now(file, 0, entry.size_bytes, buffer);
    compare_root(file);
  }
}

Awaitable<> Check::check_large(const FileEntry* entry) {
  Examined file(own_.plane(), *entry, to_read(*entry));
  bool is_open = false;
  std::function<void()> open = [&] { is_open = this->open(file); };
  co_await own_.plane().run(std::move(open));
  if (!is_open) {
    co_return;
  }
  std::vector<Awaitable<>> sharers;
  while (sharers.size() < (file.file.is_direct() ? own_.plane().sharers() : threads_)) {
    sharers.push_back(check_runs(&file));
  }
  co_await async::when_all(std::move(sharers));
  compare_root(file);
}

Awaitable<> Check::check_runs(Examined* file) {
  const std::uint64_t size = file->entry.size_bytes;
  while (file->next_run < size && !is_stopped_) {
    const std::uint64_t offset = std::exchange(file->next_run, file->next_run + staging::kBufferBytes);
    CAIRN_ASSERT(offset < size && offset % staging::kBufferBytes == 0,
                 "runs of a file are checked one behind the other");
    const staging::Buffer buffer = co_await own_.plane().acquire_buffer();
    const std::span<std::byte> data = buffer.bytes().first(
        static_cast<std::size_t>(std::min<std::uint64_t>(staging::kBufferBytes, size - offset)));
    bool is_read = false;
    if (file->file.is_direct()) {
      try {
        co_await file->file.read(offset, data);
        is_read = true;
      } catch (const Error&) {  // Which chunk of it cannot be read shows below.
        CAIRN_PROBE("store.verify_reads_chunk_by_chunk");
      }
    }
    std::function<void()> check = [&] {
      if (is_read) {
        compare(*file, offset, data);
      } else {
        check_now(*file, offset, data.size(), buffer.bytes());
      }
    };
    co_await own_.plane().run(std::move(check));
  }
}

staging::FileToRead Check::to_read(const FileEntry& entry) const {
  staging::FileToRead file;
  file.name = entry.path;
  file.path = checkpoint_.root() / entry.path;
  file.size_bytes = entry.size_bytes;
  file.open = [this, &entry](io::Engine& engine, bool use_direct) {
    return checkpoint_.open_file(engine, entry.path, use_direct);
  };
  return file;
}

bool Check::open(Examined& file) {
  const FileEntry& entry = file.entry;
  file.expected = digest(entry);
  bool is_open = has_expected_form(entry.path, entry.size_bytes);
  if (is_open) {
    try {
      file.file.open();
    } catch (const Error& error) {
      is_open = false;
      report(Damage::unreadable, entry.path, entry.size_bytes, error.what());
    }
  }
  if (!is_open) {
    checked_bytes_ += entry.size_bytes;
  } else if (!file.expected) {
    file.found.resize(io::chunk_count(entry.size_bytes));
  }
  return is_open;
}

std::optional<io::FileStatus> Check::status(const std::string& path) const {
  if (const io::Directory* root = checkpoint_.directory()) {
    return root->status(path);
  }
  const std::optional<std::uint64_t> bytes = checkpoint_.file_bytes(path);
  if (!bytes) {
    return std::nullopt;
  }
  io::FileStatus status;
  status.kind = io::FileKind::regular;
  status.size_bytes = *bytes;
  return status;
}

bool Check::has_expected_form(const std::string& path, std::uint64_t size_bytes) {
  try {
    const std::optional<io::FileStatus> status = this->status(path);
    if (!status) {
      report(Damage::missing, path, size_bytes, "it is missing");
      return false;
    }
    if (status->kind != io::FileKind::regular) {
      report(Damage::wrong_kind, path, size_bytes, fmt::format("it is {}", kind_name(status->kind)));
      return false;
    }
    if (status->size_bytes != size_bytes) {
      report(Damage::wrong_size, path, size_bytes,
             fmt::format("it has {} bytes instead of {}", status->size_bytes, size_bytes));
      return false;
    }
    return true;
  } catch (const Error& error) {
    const bool is_form = error.code() == std::errc::not_a_directory ||
                         error.code() == std::errc::too_many_symbolic_link_levels;
    report(is_form ? Damage::wrong_kind : Damage::unreadable, path, size_bytes, error.what());
    return false;
  }
}

std::optional<io::FileDigest> Check::digest(const FileEntry& entry) {
  if (damaged_tables_.contains(entry.rank)) {
    return std::nullopt;
  }
  try {
    return checkpoint_.digest(entry.path);
  } catch (const Error& error) {
    CAIRN_PROBE("store.verify_finds_damaged_hashes");
    const Damage damage = error.code() == Errc::checksum_mismatch ? Damage::altered : Damage::unreadable;
    report(damage, table_name(entry.rank), tables_.at(entry.rank), error.what());
    return std::nullopt;
  }
}

void Check::check_now(Examined& file, std::uint64_t offset_bytes, std::uint64_t bytes,
                      std::span<std::byte> buffer) {
  const std::uint64_t end = offset_bytes + bytes;
  CAIRN_ASSERT(bytes <= buffer.size() || bytes == 0 || buffer.size() >= io::kChunkBytes,
               "a chunk fits into the buffer");
  for (std::uint64_t offset = offset_bytes; offset < end && !is_stopped_; offset += io::kChunkBytes) {
    const std::span<std::byte> chunk =
        buffer.first(static_cast<std::size_t>(std::min<std::uint64_t>(io::kChunkBytes, end - offset)));
    try {
      file.file.read_now(offset, chunk);
    } catch (const Error& error) {
      CAIRN_PROBE("store.verify_cannot_read_a_chunk");
      file.is_unreadable = true;
      checked_bytes_ += chunk.size();
      report_chunk(Damage::unreadable, file.entry, offset / io::kChunkBytes, error.what());
      continue;
    }
    compare(file, offset, chunk);
  }
}

void Check::compare(Examined& file, std::uint64_t offset_bytes, std::span<const std::byte> data) {
  checked_bytes_ += data.size();
  compared_bytes_ += data.size();
  io::for_each_chunk(offset_bytes, data, [&](std::uint64_t index, std::span<const std::byte> chunk) {
    const std::uint64_t found = io::hash_chunk(chunk);
    CAIRN_ASSERT(index < (file.expected ? file.expected->chunks.size() : file.found.size()),
                 "there is a hash for each chunk that is compared");
    if (!file.expected) {
      file.found[index] = found;
    } else if (found != file.expected->chunks[index]) {
      report_chunk(Damage::altered, file.entry, index, "not the bytes that were written");
    }
  });
}

/// The last resort where a table is damaged: it says whether a file is whole, not where it is not.
void Check::compare_root(const Examined& file) {
  const FileEntry& entry = file.entry;
  if (!file.expected && !file.is_unreadable && !is_stopped_ &&
      io::hash_root(file.found, entry.size_bytes) != entry.root) {
    report(Damage::altered, entry.path, entry.size_bytes, "not the bytes that were written");
  }
}

void Check::find_foreign(const io::Directory& root) {
  std::set<std::string> directories;
  if (tables_.size() > 1) {
    directories.insert(std::string(kTablesName));
  }
  for (const CheckpointableEntry& entry : checkpoint_.manifest()->checkpointables) {
    directories.insert(entry.directory);
  }
  for (const FileEntry& entry : checkpoint_.manifest()->files) {
    for (std::size_t at = entry.path.find('/'); at != std::string::npos; at = entry.path.find('/', at + 1)) {
      directories.insert(entry.path.substr(0, at));
    }
  }
  std::vector<std::string> pending{directory_};
  while (!pending.empty()) {
    const std::string prefix = std::exchange(pending.back(), {});
    pending.pop_back();
    try {
      const std::vector<io::DirectoryEntry> entries =
          prefix.empty() ? root.list() : root.open_directory(prefix).list();
      for (const io::DirectoryEntry& entry : entries) {
        look_at(prefix.empty() ? entry.name : prefix + "/" + entry.name, entry, directories, pending);
      }
    } catch (const Error& error) {
      // What is not a directory, or is gone, was reported with the files that should be in it.
      if (error.code() != std::errc::no_such_file_or_directory &&
          error.code() != std::errc::not_a_directory &&
          error.code() != std::errc::too_many_symbolic_link_levels) {
        report(Damage::unreadable, prefix, 0, error.what());
      }
    }
  }
}

void Check::look_at(const std::string& relative, const io::DirectoryEntry& entry,
                    const std::set<std::string>& directories, std::vector<std::string>& pending) {
  if (is_own_file(relative) || tables_by_name_.contains(relative) || checkpoint_.file_bytes(relative)) {
    return;
  }
  if (directories.contains(relative)) {
    if (entry.kind == io::FileKind::directory) {
      pending.push_back(relative);
    } else {
      report(Damage::wrong_kind, relative, 0,
             fmt::format("it is {}, not a directory", kind_name(entry.kind)));
    }
    return;
  }
  const MutexLock lock(mutex_);
  if (report_.foreign_count++ < options_.max_problems) {
    report_.foreign.push_back(relative);
  }
}

std::optional<std::uint32_t> Check::writer_of(const std::string& file) const {
  if (checkpoint_.manifest()->world_size < 2) {
    return std::nullopt;
  }
  if (const std::optional<std::uint32_t> rank = checkpoint_.writer_of(file)) {
    return rank;
  }
  const auto table = tables_by_name_.find(file);
  return table == tables_by_name_.end() ? std::nullopt : std::optional(table->second);
}

void Check::report(Damage damage, std::string file, std::uint64_t size_bytes, std::string_view why) {
  VerifyProblem problem;
  problem.damage = damage;
  problem.end_bytes = size_bytes;
  problem.rank = writer_of(file);
  const std::string path = (checkpoint_.root() / file).string();
  // Errors of the layers below name the file themselves.
  problem.text = why.find(path) != std::string_view::npos
                     ? fmt::format("{}{}", why, origin_text(problem.rank))
                     : fmt::format("{}{}: {}", path, origin_text(problem.rank), why);
  problem.file = std::move(file);
  keep(std::move(problem));
}

void Check::report_chunk(Damage damage, const FileEntry& entry, std::uint64_t chunk, std::string_view why) {
  VerifyProblem problem;
  problem.damage = damage;
  problem.file = entry.path;
  problem.chunk = chunk;
  problem.begin_bytes = chunk * io::kChunkBytes;
  problem.end_bytes = std::min(problem.begin_bytes + io::kChunkBytes, entry.size_bytes);
  problem.rank = writer_of(entry.path);
  problem.text =
      fmt::format("{}{}: chunk {} (bytes {} to {}): {}", (checkpoint_.root() / entry.path).string(),
                  origin_text(problem.rank), chunk, problem.begin_bytes, problem.end_bytes, why);
  keep(std::move(problem));
}

void Check::keep(VerifyProblem problem) {
  const MutexLock lock(mutex_);
  ++report_.problem_count;
  if (report_.problems.size() < options_.max_problems) {
    report_.problems.push_back(std::move(problem));
    CAIRN_ASSERT(report_.problems.size() <= report_.problem_count,
                 "no more problems are listed than were found");
  }
}

}  // namespace

std::string_view name(Damage damage) noexcept {
  static constexpr std::array<std::string_view, 5> kNames = {"missing", "wrong kind", "wrong size", "altered",
                                                             "unreadable"};
  return kNames[static_cast<std::size_t>(damage)];
}

VerifyReport verify(io::Syscalls& syscalls, const std::filesystem::path& path, const VerifyOptions& options,
                    const Store& store) {
  for (int restarts = 0;; ++restarts) {
    const std::shared_ptr<const Source> checkpoint = store.open_committed(syscalls, path);
    VerifyReport report = Check(syscalls, *checkpoint, options).run();
    if (report.is_sound() || checkpoint->directory() == nullptr || !checkpoint->directory()->is_replaced()) {
      return report;
    }
    if (restarts == kMostRestarts) {
      CAIRN_PROBE("store.replaced_each_time_it_was_verified");
      throw Error(Errc::not_found, fmt::format("{}: it was replaced each of the {} times that it was read",
                                               path.string(), kMostRestarts + 1));
    }
  }
}

}  // namespace cairn::store
