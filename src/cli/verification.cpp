// SPDX-License-Identifier: Apache-2.0
#include "cli/verification.hpp"

#include <system_error>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "cli/describe.hpp"
#include "cli/listing.hpp"
#include "cli/paths.hpp"
#include "cli/records.hpp"
#include "store/internal/committed_directory.hpp"
#include "tools/internal/verify_foreign.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kProgressInterval{100};

std::uint64_t bytes_of(const store::CommittedDirectory& checkpoint, const std::string& directory) {
  std::uint64_t bytes = 0;
  for (const store::FileEntry& file : checkpoint.manifest().files) {
    const bool is_wanted = directory.empty() || file.path.starts_with(directory + "/");
    bytes += is_wanted ? file.size_bytes : 0;
  }
  return bytes;
}

/// Returns whether `path` is the directory of a checkpointable of the checkpoint above it.
///
/// Errors: what keeps the checkpoint above from being opened, unless there is none.
bool is_checkpointable(const fs::path& path) {
  try {
    const auto checkpoint = store::CommittedDirectory::open(io::posix_syscalls(), parent_of(path));
    const auto& entries = checkpoint.manifest().checkpointables;
    return std::any_of(entries.begin(), entries.end(),
                       [name = name_of(path)](const auto& entry) { return entry.directory == name; });
  } catch (const Error& error) {
    // A user who may not look into a directory may be given what is in it.
    if (error.code() == Errc::not_committed || error.code() == Errc::not_found ||
        error.code() == std::errc::permission_denied) {
      return false;
    }
    throw;
  }
}

VerifyTarget checkpoint_at(const fs::path& path, const std::string& directory = {}) {
  VerifyTarget target;
  target.path = path;
  target.directory = directory;
  target.bytes = bytes_of(store::CommittedDirectory::open(io::posix_syscalls(), path), directory);
  return target;
}

std::vector<VerifyTarget> targets_below(const fs::path& path) {
  std::vector<VerifyTarget> targets;
  for (const store::FoundCheckpoint& listed : find_checkpoints(path)) {
    VerifyTarget target;
    // A damaged one is looked at where it is, whatever generation stands in its place.
    const bool is_whole = listed.kind == store::EntryClass::committed && listed.counts();
    target.path = path / (is_whole ? listed.name : listed.entry);
    target.is_listed = true;
    target.bytes = listed.bytes;
    if (!listed.counts()) {
      target.aside = fmt::format("{}: {}", name(listed.kind), listed.note);
    } else if (!listed.is_open) {
      target.problem = listed.problem;
    }
    targets.push_back(std::move(target));
  }
  for (const ForeignEntry& entry : find_foreign(path)) {
    VerifyTarget& target = targets.emplace_back();
    target.path = path / entry.name;
    target.is_listed = true;
    target.is_foreign = true;
    target.bytes = entry.bytes;
  }
  return targets;
}

VerifyTarget foreign_at(const fs::path& path, const std::string& layout) {
  VerifyTarget target;
  target.path = path;
  target.is_foreign = true;
  target.layout = layout;
  target.bytes = total_bytes(describe(path, layout));
  return target;
}

/// The verification of several targets: threads take one after the other.
class ParallelVerify {
 public:
  ParallelVerify(std::span<const VerifyTarget> targets, const VerifyManyOptions& options)
      : options_(options), done_bytes_(targets.size()) {
    for (const VerifyTarget& target : targets) {
      total_bytes_ += target.bytes;
      outcomes_.emplace_back().target = target;
    }
    const std::size_t cores = std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
    const std::size_t threads = options.threads != 0 ? options.threads : cores;
    jobs_ = std::clamp<std::size_t>(options.jobs != 0 ? options.jobs : threads, 1,
                                    std::max<std::size_t>(targets.size(), 1));
    threads_each_ = std::max<std::size_t>(threads / jobs_, 1);
  }

  std::vector<VerifyOutcome> run() {
    std::vector<std::jthread> threads;
    working_ = jobs_;
    try {
      while (threads.size() < jobs_) {
        threads.emplace_back([this] { work(); });
      }
    } catch (const std::system_error&) {  // Fewer threads do the same work.
      const std::lock_guard lock(mutex_);
      working_ -= jobs_ - threads.size();
      if (threads.empty()) {
        throw;
      }
    }
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, kProgressInterval, [this] { return working_ == 0; })) {
      lock.unlock();
      tell();
      lock.lock();
    }
    lock.unlock();
    threads.clear();
    return std::move(outcomes_);
  }

 private:
  void work() noexcept {
    for (std::size_t i = next_++; i < outcomes_.size(); i = next_++) {
      verify(outcomes_[i], done_bytes_[i]);
    }
    const std::lock_guard lock(mutex_);
    --working_;
    ended_.notify_all();
  }

  void verify(VerifyOutcome& outcome, std::atomic<std::uint64_t>& done_bytes) const noexcept {
    VerifyTarget& target = outcome.target;
    try {
      if (target.is_records) {
        outcome.report =
            verify_records(target.path, [&done_bytes](std::uint64_t bytes) { done_bytes = bytes; });
      } else if (target.problem.empty() && target.is_foreign) {
        // This waits for whoever counts.
        const std::shared_ptr<std::atomic<std::uint64_t>> done(std::shared_ptr<void>(), &done_bytes);
        tools::ForeignVerification found =
            tools::verify_foreign(target.path, target.layout, threads_each_, done);
        for (store::VerifyProblem& problem : found.report.problems) {
          problem.text = as_typed(std::move(problem.text), std::span(&target.path, 1));
        }
        outcome.report = std::move(found.report);
        outcome.members = found.members;
        outcome.unchecked_bytes = found.unchecked_bytes;
        outcome.notes = std::move(found.notes);
        outcome.unchecked_files = std::move(found.unchecked_files);
      } else if (target.problem.empty() && target.aside.empty()) {
        store::VerifyOptions options;
        options.threads = threads_each_;
        options.directory = target.directory;
        options.progress = [&done_bytes](const store::VerifyProgress& progress) {
          done_bytes = progress.checked_bytes;
        };
        outcome.report = store::verify(io::posix_syscalls(), target.path, options);
      }
    } catch (...) {
      target.problem = as_typed(cairn::describe(std::current_exception()), std::span(&target.path, 1));
    }
    done_bytes = target.bytes;
  }

  void tell() const {
    std::uint64_t done = 0;
    for (const auto& each : done_bytes_) {
      done += each;
    }
    if (options_.progress) {
      options_.progress(done, total_bytes_);
    }
  }

  const VerifyManyOptions& options_;
  std::uint64_t total_bytes_ = 0;
  std::size_t jobs_ = 1;
  std::size_t threads_each_ = 1;
  std::vector<VerifyOutcome> outcomes_;
  std::vector<std::atomic<std::uint64_t>> done_bytes_;  // Of each target.
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t working_ = 0;  // Threads; protected by the mutex.
};

}  // namespace

std::vector<VerifyTarget> verify_targets_of(const fs::path& path, const std::string& layout) {
  if (is_records_file(path)) {
    VerifyTarget target;
    target.path = path;
    target.is_records = true;
    target.bytes = fs::file_size(path);
    return {target};
  }
  try {
    return {checkpoint_at(path)};
  } catch (const Error& error) {
    if (error.code() != Errc::not_committed) {
      throw;
    }
  }
  if (is_checkpointable(path)) {
    return {checkpoint_at(parent_of(path), name_of(path))};
  }
  try {
    return {foreign_at(path, layout)};
  } catch (const Error& error) {
    if (!layout.empty() || !may_be_listed(path, error)) {
      throw;
    }
    std::vector<VerifyTarget> targets = targets_below(path);
    if (targets.empty() && !may_be_root(path)) {
      throw;
    }
    return targets;
  }
}

std::vector<VerifyOutcome> verify_all(std::span<const VerifyTarget> targets,
                                      const VerifyManyOptions& options) {
  return ParallelVerify(targets, options).run();
}

}  // namespace cairn::cli
