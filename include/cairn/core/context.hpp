// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/base/timeout.hpp"
#include "cairn/contract/registry.hpp"
#include "cairn/io/engine_kind.hpp"

namespace cairn::coord {
class Coordinator;
}  // namespace cairn::coord

namespace cairn {

class DeviceCopier;
class Clock;

namespace core {
class Services;
struct ContextServices;
}  // namespace core

namespace io {
class Syscalls;
}

namespace store {
class Store;
}

/// Writes a line to stderr: "cairn:", the path, and what went wrong; the path once, where that has it, too. Nothing
/// else of the library prints anything, but print_problem.
///
/// Threads: safe.
void print_lost_failure(const std::string& path, const std::exception_ptr& failure) noexcept;

/// The same of a problem.
void print_problem(const std::string& path, const std::string& problem) noexcept;

struct ContextOptions {
  ContextOptions() = default;

  /// How files are read and written. `automatic` takes io_uring where the kernel offers it.
  io::EngineKind engine = io::EngineKind::automatic;
  /// Requests in flight of one operation. More cost memory (4 MiB each) and gain nothing beyond what keeps the disk
  /// busy.
  std::uint32_t queue_depth = 24;
  /// Saves under way at once. Later ones wait for their turn, in the order of their calls, before their blocking
  /// phase begins; so does the caller, unless it asked for return_when_accepted. 0: no limit.
  std::size_t saves_in_flight = 8;
  /// Threads that copy and hash for one operation; 0: as many as the machine has cores, divided by the ranks that
  /// share it.
  std::size_t worker_threads = 0;
  /// How far the background part of saves yields to the program's own threads, 0 (not at all) to 19, as nice(1) does:
  /// hashing takes a core for a tenth of a second a GiB. Where all cores are busy all the time, saves take longer to
  /// commit. The copies of saves that return_when_accepted yield, too, and are then later `staged`.
  int background_niceness = 10;
  /// The byte budget: most host memory that holds bytes on their way to or from files. A smaller one saves memory,
  /// but blocks callers longer: a save larger than it streams. A save or load that has none while others have all
  /// gets one buffer (4 MiB) beyond it, so that it need not wait for their disks. 0: a quarter of what the process
  /// may have when the context is made, divided by the ranks that share the machine: of the machine's memory, or of
  /// the smallest limit of a control group (container), of RLIMIT_AS or of RLIMIT_DATA.
  std::size_t staging_bytes = 0;
  /// How much of it to take from the system at once, so that the first save is as quick as the tenth.
  std::size_t reserve_bytes = 0;
  /// How much of it stays with the process while no save and no load holds any; what was reserved stays in any case.
  /// Less gives memory to the program between saves, but the next one takes it anew, which blocks its caller longer.
  /// Nothing: all that was taken stays.
  std::optional<std::size_t> idle_staging_bytes;
  /// Most descriptors of files that saves and loads hold open at once, together; each may have a first file open
  /// beyond it, so that it need not wait for the disks of others. A smaller one leaves more to the program, but a
  /// save of more files than that writes and syncs some of them while its caller waits. 0: half of what the limit of
  /// the process (RLIMIT_NOFILE) leaves when the context is made.
  std::size_t open_files = 0;
  /// Copiers that move arrays between devices and the host: one for each device whose arrays are saved or
  /// loaded. Staging memory is pinned for all of them.
  std::vector<std::shared_ptr<DeviceCopier>> copiers;
  /// Handlers on top of the global registry, for this context only.
  HandlerRegistry registry;
  /// How long `close` and the destructor wait for saves in flight before they stop them. std::chrono::seconds::max():
  /// for ever.
  Timeout close_timeout = std::chrono::seconds(600);
  /// How long an operation that was stopped (by its deadline, `cancel`, `close` or a newer save) may take to end in
  /// order before it is answered without its end. Longer gives slow disks and handlers time to leave nothing behind;
  /// a verdict is known after the deadline and this at the latest.
  Timeout stop_grace = std::chrono::seconds(2);
  /// For tests and debugging: gives handlers copies of the values that they save, in memory that cannot be touched
  /// once their blocking phase has ended. A save whose handler does it all the same fails with Errc::handler_failed,
  /// which names handler, checkpointable and array. Costs a copy of the values, memory for it until the save is done,
  /// and a handler of SIGSEGV in the process. Types that do not say that they can be copied (IsCopyable), and saves
  /// that borrow or share, are not checked: SaveResult::problems says so. See docs/guide.md, "A handler of your own".
  bool check_handlers = false;
  /// Told of each failed save that nobody waited for, of what a save that was stopped could not remove, which its
  /// answer does not say, and of what an overwrite could not remove where nobody asked for its result (both
  /// Errc::io_failure). On any thread, as a rule one of the context's. Must not throw. Empty: nobody is told.
  std::function<void(const std::string& path, const std::exception_ptr& failure)> on_lost_failure =
      print_lost_failure;
  /// Told once of what a program must know and may not look for: that ranks save values under one name that differ,
  /// that a training begins anew beside checkpoints of other names. On any thread. Must not throw. Empty: nobody is
  /// told.
  std::function<void(const std::string& path, const std::string& problem)> on_problem = print_problem;

  /// For tests and for programs of many processes. Shared, because the last operation to end may outlive its context.
  /// The processes that save together: every rank makes the same calls, in the same order, and one checkpoint comes
  /// of each; see docs/guide.md, "Several processes". Null: a single process.
  std::shared_ptr<coord::Coordinator> coordinator;
  std::shared_ptr<const Clock> clock;  ///< Null: the machine's.
  std::function<void(std::span<std::byte>)>
      random;                              ///< Fills memory with random bytes. Null: the operating system's.
  std::shared_ptr<io::Syscalls> syscalls;  ///< Null: the operating system's.
  /// Finds checkpoints for saves and loads. Null: the file system.
  std::shared_ptr<const store::Store> checkpoint_store;
};

/// Owns what saves and loads share: the I/O engine, threads and staging memory. Make one, use it throughout.
///
/// A forked child has none of the threads: there saves and loads fail with Errc::closed, responses must not be
/// waited for, and the destructor does nothing.
///
/// Threads: every method may be called from any thread; the destructor not from one of the context's own, but by
///          exit().
class Context {
 public:
  /// Errors: OS errors when `engine` was named and is not available, or memory is not.
  explicit Context(ContextOptions options = {});

  /// As `close`, but reports what it would throw to `on_lost_failure`.
  ///
  /// exit() may call it on one of the context's own threads, in a handler or in `on_lost_failure`: operations that
  /// this thread runs are stopped then, and not waited for.
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) = delete;

  /// Waits for the operations in flight, `close_timeout` at most; then stops what still runs, and waits for
  /// `stop_grace`. Refuses new ones. What a handler or a system call keeps running even then is left behind, and
  /// never published.
  ///
  /// Does nothing in a process that was forked from it.
  /// Errors: the first of what `on_lost_failure` is told; Errc::still_running, which names what was left behind;
  ///         Errc::invalid_argument on one of the context's own threads.
  void close();

  /// Returns in the process that made the context.
  ///
  /// Errors: Errc::closed in one that was forked from it.
  void require_own_process() const;

  /// "io_uring" or "threads", and why it is not io_uring when that was left open.
  [[nodiscard]] std::string_view engine() const noexcept;
  [[nodiscard]] const std::string& engine_reason() const noexcept;

  /// Staging memory: in use, and taken from the system.
  [[nodiscard]] std::size_t staged_bytes() const;
  [[nodiscard]] std::size_t pool_bytes() const;

  [[nodiscard]] const ContextOptions& options() const noexcept;

 private:
  friend struct core::ContextServices;

  /// Shares what another context owns.
  explicit Context(const Context& owner) noexcept;

  std::shared_ptr<core::Services> services_;
  bool is_owner_ = true;
};

/// Returns what the saves and loads of a context have done since it was made, in Prometheus' text format
/// 0.0.4.
///
/// Counters: saves and loads begun, done, failed by error code; bytes; requests retried and shortened.
/// Histograms: seconds of saves, of their blocking phases, of loads, and of each step. Gauges: staging
/// memory. Questions for metadata are not counted.
/// Threads: safe, also while operations run; an operation is counted before its response says it is done.
[[nodiscard]] std::string prometheus_text(const Context& context);

}  // namespace cairn
