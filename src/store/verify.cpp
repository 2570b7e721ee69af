// SPDX-License-Identifier: Apache-2.0
#include "store/internal/verify.hpp"

#include <system_error>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "io/internal/chunk_hash.hpp"
#include "store/contents.hpp"
#include "store/internal/committed_directory.hpp"

namespace cairn::store {
namespace {

constexpr std::chrono::milliseconds kProgressInterval{100};
constexpr std::uint64_t kBatchChunks = 8;  // What a thread takes at once: enough for read-ahead to work.

/// A file whose chunks are being compared.
struct OpenFile {
  const FileEntry* entry = nullptr;
  io::FileHandle handle;
  /// What each chunk must hash to; nothing when chunks.xxh3 does not say: then `found` is compared with the root.
  std::optional<io::FileDigest> expected;
  std::vector<std::uint64_t> found;
  std::atomic<std::uint64_t> chunks_left{0};
  std::atomic<bool> is_unreadable = false;
};

/// Some chunks of one file: [begin, end).
struct Batch {
  std::shared_ptr<OpenFile> file;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
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

/// The check of one checkpoint: threads take batches from a cursor that moves through the manifest's files.
class Check {
 public:
  Check(const CommittedDirectory& checkpoint, const VerifyOptions& options)
      : checkpoint_(checkpoint), options_(options), directory_(options.directory) {}

  VerifyReport run();

 private:
  [[nodiscard]] bool is_wanted(std::string_view path) const;
  void count_files();
  void check_table();
  void find_foreign();
  void look_at(const std::string& relative, const io::DirectoryEntry& entry,
               const std::set<std::string>& directories, std::vector<std::string>& pending);

  void run_threads();
  void wait_for_threads();
  void work() noexcept;
  [[nodiscard]] std::optional<Batch> take();
  [[nodiscard]] std::shared_ptr<OpenFile> open(const FileEntry& entry);
  [[nodiscard]] bool has_expected_form(const std::string& path, std::uint64_t size_bytes);
  [[nodiscard]] std::optional<io::FileDigest> digest(const FileEntry& entry);
  void compare(const Batch& batch, std::span<std::byte> buffer);
  void compare_root(const OpenFile& file);
  void report(Damage damage, std::string file, std::uint64_t size_bytes, std::string_view why);
  void report_chunk(Damage damage, const FileEntry& entry, std::uint64_t chunk, std::string_view why);
  void keep(VerifyProblem problem);

  const CommittedDirectory& checkpoint_;
  const VerifyOptions& options_;
  const std::string directory_;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t table_bytes_ = 0;
  bool is_table_usable_ = true;
  std::atomic<std::uint64_t> checked_bytes_{0};  // Also those that could not be read: for progress.
  std::atomic<std::uint64_t> compared_bytes_{0};
  std::atomic<bool> is_stopped_ = false;

  std::mutex cursor_mutex_;  // Protects the cursor: the next file, and the one that is being handed out.
  std::size_t next_file_ = 0;
  std::shared_ptr<OpenFile> current_;
  std::uint64_t next_chunk_ = 0;

  std::mutex mutex_;  // Protects what follows.
  std::condition_variable ended_;
  std::size_t running_ = 0;
  std::exception_ptr failure_;
  VerifyReport report_;
};

bool Check::is_wanted(std::string_view path) const {
  return directory_.empty() ||
         (path.size() > directory_.size() && path.starts_with(directory_) && path[directory_.size()] == '/');
}

VerifyReport Check::run() {
  count_files();
  check_table();
  run_threads();
  find_foreign();
  report_.path = checkpoint_.path();
  report_.bytes = compared_bytes_;
  std::sort(report_.problems.begin(), report_.problems.end(), [](const auto& a, const auto& b) {
    return std::tie(a.file, a.begin_bytes) < std::tie(b.file, b.begin_bytes);
  });
  std::sort(report_.foreign.begin(), report_.foreign.end());
  return std::move(report_);
}

void Check::count_files() {
  const Manifest& manifest = checkpoint_.manifest();
  const auto is_directory = [this](const CheckpointableEntry& entry) {
    return entry.directory == directory_;
  };
  if (!directory_.empty() &&
      std::none_of(manifest.checkpointables.begin(), manifest.checkpointables.end(), is_directory)) {
    throw Error(Errc::not_found,
                fmt::format("{} has no checkpointable in '{}'", checkpoint_.path().string(), directory_));
  }
  report_.files = 3;  // COMMIT and checkpoint.json were compared when they were read.
  compared_bytes_ = kCommitBytes + checkpoint_.commit().manifest_bytes;
  for (const FileEntry& entry : manifest.files) {
    if (is_wanted(entry.path)) {
      ++report_.files;
      total_bytes_ += entry.size_bytes;
    }
  }
}

/// Every byte of the table is compared with some root, except those of a table of another size.
void Check::check_table() {
  table_bytes_ = chunk_table_bytes(checkpoint_.manifest().files);
  is_table_usable_ = has_expected_form(std::string(kChunksName), table_bytes_);
}

void Check::run_threads() {
  const std::size_t wanted = options_.threads != 0
                                 ? options_.threads
                                 : std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
  const std::uint64_t useful = std::max<std::uint64_t>(total_bytes_ / (kBatchChunks * io::kChunkBytes), 1);
  running_ = static_cast<std::size_t>(std::min<std::uint64_t>(wanted, useful));
  std::vector<std::jthread> threads;
  const std::size_t count = running_;
  try {
    while (threads.size() < count) {
      threads.emplace_back([this] { work(); });
    }
  } catch (const std::system_error&) {
    // Fewer threads do the same work. Without any, this one does it, and nobody hears of progress.
    const std::lock_guard lock(mutex_);
    running_ -= count - threads.size() - (threads.empty() ? 1 : 0);
  }
  if (threads.empty()) {
    work();
  }
  wait_for_threads();
}

void Check::wait_for_threads() {
  std::unique_lock lock(mutex_);
  for (bool is_over = false; !is_over;) {
    is_over = ended_.wait_for(lock, kProgressInterval, [this] { return running_ == 0; });
    if (failure_) {
      continue;  // The other threads end soon.
    }
    if (options_.progress) {
      const VerifyProgress progress{total_bytes_, checked_bytes_, report_.problem_count};
      lock.unlock();
      try {
        options_.progress(progress);
      } catch (...) {
        is_stopped_ = true;  // The threads are joined while the exception leaves.
        throw;
      }
      lock.lock();
    }
  }
  if (failure_) {
    std::rethrow_exception(failure_);
  }
}

void Check::work() noexcept {
  std::exception_ptr failure;
  try {
    std::vector<std::byte> buffer(io::kChunkBytes);
    while (const std::optional<Batch> batch = take()) {
      compare(*batch, buffer);
    }
  } catch (...) {
    failure = std::current_exception();
    is_stopped_ = true;
  }
  const std::lock_guard lock(mutex_);
  if (failure && !failure_) {
    failure_ = failure;
  }
  --running_;
  ended_.notify_all();
}

std::optional<Batch> Check::take() {
  const std::lock_guard lock(cursor_mutex_);
  const std::vector<FileEntry>& files = checkpoint_.manifest().files;
  while (!is_stopped_) {
    if (current_) {
      const std::uint64_t chunks = io::chunk_count(current_->entry->size_bytes);
      const Batch batch{current_, next_chunk_, std::min(next_chunk_ + kBatchChunks, chunks)};
      next_chunk_ = batch.end;
      if (next_chunk_ == chunks) {
        current_.reset();
      }
      return batch;
    }
    if (next_file_ == files.size()) {
      return std::nullopt;
    }
    const FileEntry& entry = files[next_file_++];
    if (is_wanted(entry.path)) {
      current_ = open(entry);
      next_chunk_ = 0;
    }
  }
  return std::nullopt;
}

/// Null when there is nothing to compare: the problem has been reported.
std::shared_ptr<OpenFile> Check::open(const FileEntry& entry) {
  auto file = std::make_shared<OpenFile>();
  file->entry = &entry;
  file->expected = digest(entry);
  const std::uint64_t chunks = io::chunk_count(entry.size_bytes);
  bool is_open = has_expected_form(entry.path, entry.size_bytes);
  if (is_open) {
    try {
      file->handle = checkpoint_.open_file(entry.path);
    } catch (const Error& error) {
      is_open = false;
      report(Damage::unreadable, entry.path, entry.size_bytes, error.what());
    }
  }
  if (!is_open) {
    checked_bytes_ += entry.size_bytes;
    return nullptr;
  }
  if (!file->expected) {
    file->found.resize(chunks);
  }
  file->chunks_left = chunks;
  if (chunks == 0) {
    compare_root(*file);
    return nullptr;
  }
  return file;
}

bool Check::has_expected_form(const std::string& path, std::uint64_t size_bytes) {
  try {
    const std::optional<io::FileStatus> status = checkpoint_.directory().status(path);
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
  if (!is_table_usable_) {
    return std::nullopt;
  }
  try {
    return checkpoint_.digest(entry.path);
  } catch (const Error& error) {
    const Damage damage = error.code() == Errc::checksum_mismatch ? Damage::altered : Damage::unreadable;
    report(damage, std::string(kChunksName), table_bytes_, error.what());
    return std::nullopt;
  }
}

void Check::compare(const Batch& batch, std::span<std::byte> buffer) {
  OpenFile& file = *batch.file;
  const FileEntry& entry = *file.entry;
  const std::filesystem::path path = checkpoint_.path() / entry.path;
  for (std::uint64_t chunk = batch.begin; chunk < batch.end && !is_stopped_; ++chunk) {
    const std::uint64_t offset = chunk * io::kChunkBytes;
    const auto size =
        static_cast<std::size_t>(std::min<std::uint64_t>(io::kChunkBytes, entry.size_bytes - offset));
    const std::span<std::byte> bytes = buffer.first(size);
    checked_bytes_ += size;
    try {
      io::read_all(file.handle, bytes, offset, path);
    } catch (const Error& error) {
      file.is_unreadable = true;
      report_chunk(Damage::unreadable, entry, chunk, error.what());
      continue;
    }
    compared_bytes_ += size;
    const std::uint64_t found = io::hash_chunk(bytes);
    if (!file.expected) {
      file.found[chunk] = found;
    } else if (found != file.expected->chunks[chunk]) {
      report_chunk(Damage::altered, entry, chunk, "not the bytes that were written");
    }
  }
  if (file.chunks_left.fetch_sub(batch.end - batch.begin) == batch.end - batch.begin) {
    compare_root(file);
  }
}

/// The last resort where chunks.xxh3 is damaged: it says whether a file is whole, not where it is not.
void Check::compare_root(const OpenFile& file) {
  const FileEntry& entry = *file.entry;
  if (!file.expected && !file.is_unreadable && !is_stopped_ &&
      io::hash_root(file.found, entry.size_bytes) != entry.root) {
    report(Damage::altered, entry.path, entry.size_bytes, "not the bytes that were written");
  }
}

void Check::find_foreign() {
  std::set<std::string> directories;
  for (const CheckpointableEntry& entry : checkpoint_.manifest().checkpointables) {
    directories.insert(entry.directory);
  }
  for (const FileEntry& entry : checkpoint_.manifest().files) {
    for (std::size_t at = entry.path.find('/'); at != std::string::npos; at = entry.path.find('/', at + 1)) {
      directories.insert(entry.path.substr(0, at));
    }
  }
  std::vector<std::string> pending{directory_};
  while (!pending.empty()) {
    const std::string prefix = std::exchange(pending.back(), {});
    pending.pop_back();
    try {
      const io::Directory& root = checkpoint_.directory();
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
  if (is_own_file(relative) || checkpoint_.find(relative) != nullptr) {
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
  const std::lock_guard lock(mutex_);
  if (report_.foreign_count++ < options_.max_problems) {
    report_.foreign.push_back(relative);
  }
}

void Check::report(Damage damage, std::string file, std::uint64_t size_bytes, std::string_view why) {
  VerifyProblem problem;
  problem.damage = damage;
  problem.end_bytes = size_bytes;
  const std::string path = (checkpoint_.path() / file).string();
  // Errors of the layers below name the file themselves.
  problem.text =
      why.find(path) != std::string_view::npos ? std::string(why) : fmt::format("{}: {}", path, why);
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
  problem.text = fmt::format("{}: chunk {} (bytes {} to {}): {}", (checkpoint_.path() / entry.path).string(),
                             chunk, problem.begin_bytes, problem.end_bytes, why);
  keep(std::move(problem));
}

void Check::keep(VerifyProblem problem) {
  const std::lock_guard lock(mutex_);
  ++report_.problem_count;
  if (report_.problems.size() < options_.max_problems) {
    report_.problems.push_back(std::move(problem));
  }
}

}  // namespace

std::string_view name(Damage damage) noexcept {
  static constexpr std::array<std::string_view, 5> kNames = {"missing", "wrong kind", "wrong size", "altered",
                                                             "unreadable"};
  return kNames[static_cast<std::size_t>(damage)];
}

VerifyReport verify(io::Syscalls& syscalls, const std::filesystem::path& path, const VerifyOptions& options) {
  for (int restarts = 0;; ++restarts) {
    const CommittedDirectory checkpoint = CommittedDirectory::open(syscalls, path);
    VerifyReport report = Check(checkpoint, options).run();
    if (report.is_sound() || !checkpoint.directory().is_replaced()) {
      return report;
    }
    if (restarts == kMostRestarts) {
      throw Error(Errc::not_found, fmt::format("{}: it was replaced each of the {} times that it was read",
                                               path.string(), kMostRestarts + 1));
    }
  }
}

}  // namespace cairn::store
