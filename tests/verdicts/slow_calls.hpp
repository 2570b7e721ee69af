// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cairn/io/syscalls.hpp"

#include "verdicts/dice.hpp"
#include "verdicts/harness_clock.hpp"
#include "verdicts/journal.hpp"

namespace cairn::verdicts {

enum class CallKind : std::uint8_t {
  open,
  close,
  allocate,
  truncate,
  read,
  write,
  sync_data,
  sync,
  status,
  list,
  make_directory,
  rename,
  link,
  unlink,
  lock,
};

inline constexpr std::size_t kCallKinds = 15;

/// Which calls are slow.
enum class Focus : std::uint8_t {
  all,
  transfers,  ///< Large ones, which have the caller's memory, perhaps.
  commit,     ///< Those around the rename.
};

/// How often what goes wrong, one in so many calls; 0: never.
struct Disturbances {
  std::size_t slow = 0;  ///< Takes up to `longest`, before or after it is done.
  Focus focus = Focus::all;
  std::size_t failing = 0;
  std::size_t lost_answers = 0;  ///< Of renames and links: done, and reported as failed.
  std::size_t odd = 0;           ///< Interrupted, or shorter than asked for: nobody should hear of it.
  Duration longest = std::chrono::seconds(3);
};

/// The operating system of a program: some calls are slow, some fail.
///
/// Calls that belong to a calm folder (see `kCalmFolder`) are as they are in reality.
/// Threads: every method may be called from any thread.
class SlowCalls final : public io::Syscalls {
 public:
  static constexpr const char* kCalmFolder = "/calm";

  /// `journal` is told of what goes wrong.
  SlowCalls(std::shared_ptr<const HarnessClock> clock, std::shared_ptr<Journal> journal, std::uint64_t seed,
            Disturbances disturbances)
      : clock_(std::move(clock)), journal_(std::move(journal)), seed_(seed), disturbances_(disturbances) {}

  /// At first, and after `calm_down`, every call is quick and succeeds.
  void stir_up() { is_calm_ = false; }
  void calm_down() { is_calm_ = true; }
  /// How many calls have failed that the system would have let succeed.
  [[nodiscard]] std::uint64_t failures() const { return failures_; }
  /// How many answers of renames and links were lost.
  [[nodiscard]] std::uint64_t lost_answers() const { return lost_answers_; }
  [[nodiscard]] std::uint64_t slow_calls() const { return slow_calls_; }

  int open_at(int directory, const char* path, int flags, std::uint32_t mode) noexcept override;
  int open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept override;
  int close(int fd) noexcept override;
  int allocate(int fd, std::uint64_t size) noexcept override;
  int truncate(int fd, std::uint64_t size) noexcept override;
  std::int64_t read_at(int fd, std::byte* data, std::size_t size, std::uint64_t offset) noexcept override;
  std::int64_t write_at(int fd, const std::byte* data, std::size_t size,
                        std::uint64_t offset) noexcept override;
  int sync_data(int fd) noexcept override;
  int sync(int fd) noexcept override;
  int status(int fd, io::FileStatus& status) noexcept override;
  int status_at(int directory, const char* name, io::FileStatus& status) noexcept override;
  int list(int directory, std::vector<io::DirectoryEntry>& entries) noexcept override;
  int make_directory_at(int directory, const char* name, std::uint32_t mode) noexcept override;
  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                io::RenameMode mode) noexcept override;
  int link_at(int old_directory, const char* old_name, int new_directory,
              const char* new_name) noexcept override;
  int unlink_at(int directory, const char* name, bool is_directory) noexcept override;
  int try_lock(int fd) noexcept override;
  int is_network_file_system(int fd) noexcept override;

 private:
  enum class Trouble : std::uint8_t { none, failure, lost_answer, oddity };

  /// What happens to one call.
  struct Fate {
    Trouble trouble = Trouble::none;
    Duration before{0};
    Duration after{0};
    int error = 0;
  };

  /// Most slow calls at once: a library with few threads for them must still serve others.
  static constexpr int kMostSlow = 2;

  /// One in how many calls of this kind is slow; 0: none.
  [[nodiscard]] std::size_t slowness(CallKind kind, std::size_t bytes) const;
  [[nodiscard]] Fate decide(CallKind kind, int fd, std::size_t bytes = 0);
  void dawdle(CallKind kind, Duration duration);
  void tell(CallKind kind, const std::string& what);
  void mark(int fd, bool is_calm);
  [[nodiscard]] bool is_calm(int fd) const;

  template <class Real>
  auto run(CallKind kind, int fd, Real real, std::size_t bytes = 0) noexcept -> decltype(real());

  io::Syscalls& real_ = io::posix_syscalls();
  const std::shared_ptr<const HarnessClock> clock_;  // A context may outlive its program.
  const std::shared_ptr<Journal> journal_;
  const std::uint64_t seed_;
  const Disturbances disturbances_;
  std::atomic<bool> is_calm_{true};
  std::atomic<int> slow_now_{0};
  std::atomic<std::uint64_t> failures_{0};
  std::atomic<std::uint64_t> lost_answers_{0};
  std::atomic<std::uint64_t> slow_calls_{0};
  std::array<std::atomic<std::uint64_t>, kCallKinds> seen_{};
  std::array<std::atomic<bool>, 4096> calm_fds_{};
};

}  // namespace cairn::verdicts
