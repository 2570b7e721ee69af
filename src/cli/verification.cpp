// SPDX-License-Identifier: Apache-2.0
#include "cli/verification.hpp"

#include <system_error>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "cli/describe.hpp"
#include "cli/listing.hpp"
#include "cli/paths.hpp"
#include "cli/side.hpp"
#include "store/internal/committed_directory.hpp"

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

Subject checkpoint_at(const fs::path& path, const std::string& directory = {}) {
  Subject subject;
  subject.path = path;
  subject.directory = directory;
  subject.bytes = bytes_of(store::CommittedDirectory::open(io::posix_syscalls(), path), directory);
  return subject;
}

std::vector<Subject> subjects_below(const fs::path& path) {
  std::vector<Subject> subjects;
  for (const store::FoundCheckpoint& listed : find_checkpoints(path)) {
    Subject subject;
    // A damaged one is looked at where it is, whatever generation stands in its place.
    const bool is_whole = listed.kind == store::EntryClass::committed && listed.counts();
    subject.path = path / (is_whole ? listed.name : listed.entry);
    subject.is_listed = true;
    subject.bytes = listed.bytes;
    if (!listed.counts()) {
      subject.aside = fmt::format("{}: {}", name(listed.kind), listed.note);
    } else if (!listed.is_open) {
      subject.problem = listed.problem;
    }
    subjects.push_back(std::move(subject));
  }
  return subjects;
}

Subject foreign_at(const fs::path& path) {
  Subject subject;
  subject.path = path;
  subject.is_foreign = true;
  subject.bytes = total_bytes(describe(path));  // That the headers hold together is all that can be told.
  return subject;
}

/// The verification of several subjects: threads take one after the other.
class Crowd {
 public:
  Crowd(std::span<const Subject> subjects, const VerifyManyOptions& options)
      : options_(options), done_bytes_(subjects.size()) {
    for (const Subject& subject : subjects) {
      total_bytes_ += subject.bytes;
      verdicts_.push_back({subject, std::nullopt});
    }
    const std::size_t cores = std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
    const std::size_t threads = options.threads != 0 ? options.threads : cores;
    jobs_ = std::clamp<std::size_t>(options.jobs != 0 ? options.jobs : threads, 1,
                                    std::max<std::size_t>(subjects.size(), 1));
    threads_each_ = std::max<std::size_t>(threads / jobs_, 1);
  }

  std::vector<Verdict> run() {
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
    return std::move(verdicts_);
  }

 private:
  void work() noexcept {
    for (std::size_t i = next_++; i < verdicts_.size(); i = next_++) {
      verify(verdicts_[i], done_bytes_[i]);
    }
    const std::lock_guard lock(mutex_);
    --working_;
    ended_.notify_all();
  }

  void verify(Verdict& verdict, std::atomic<std::uint64_t>& done_bytes) const noexcept {
    Subject& subject = verdict.subject;
    try {
      if (subject.problem.empty() && subject.aside.empty() && !subject.is_foreign) {
        store::VerifyOptions options;
        options.threads = threads_each_;
        options.directory = subject.directory;
        options.progress = [&done_bytes](const store::VerifyProgress& progress) {
          done_bytes = progress.checked_bytes;
        };
        verdict.report = store::verify(io::posix_syscalls(), subject.path, options);
      }
    } catch (...) {
      subject.problem = as_typed(cairn::describe(std::current_exception()), std::span(&subject.path, 1));
    }
    done_bytes = subject.bytes;
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
  std::vector<Verdict> verdicts_;
  std::vector<std::atomic<std::uint64_t>> done_bytes_;  // Of each subject.
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t working_ = 0;  // Threads; protected by the mutex.
};

}  // namespace

std::vector<Subject> subjects_of(const fs::path& path) {
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
    return {foreign_at(path)};
  } catch (const Error& error) {
    std::error_code ignored;
    if (error.code() != Errc::not_committed || !fs::is_directory(path, ignored)) {
      throw;
    }
    std::vector<Subject> subjects = subjects_below(path);
    if (subjects.empty() && !may_be_root(path)) {
      throw;
    }
    return subjects;
  }
}

std::vector<Verdict> verify_all(std::span<const Subject> subjects, const VerifyManyOptions& options) {
  return Crowd(subjects, options).run();
}

}  // namespace cairn::cli
