// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crash/simulated_disk.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::crash {

/// The directory that checkpoints are kept in, on every simulated disk.
inline constexpr const char* kRunPath = "/run";

/// What changes a disk.
enum class Change : std::uint8_t {
  create,
  resize,
  write,
  sync_data,
  sync,
  make_directory,
  rename,
  link,
  unlink,
  lock,
  tell  ///< Of something that a rank says to the others, or asks of them; its path says what.
};

/// One change, as the program asked for it.
struct Operation {
  Change change = Change::write;
  std::string path;      ///< As it was opened: a directory that was renamed since keeps its old one.
  std::string new_path;  ///< Of a rename or a link.
  io::RenameMode mode = io::RenameMode::replace;
  int process = 0;
};

[[nodiscard]] std::string describe(const Operation& operation);

/// Stands between a program and the disk, and may drop operations or do them later: a broken protocol.
class Saboteur {
 public:
  Saboteur() = default;
  virtual ~Saboteur() = default;
  Saboteur(const Saboteur&) = delete;
  Saboteur& operator=(const Saboteur&) = delete;

  /// Does `effect`, or does not; the answer is the program's.
  virtual int run(const Operation& operation, std::function<int()> effect) = 0;
  /// A process looks at something: what it is told is the answer, and `status` where that is 0.
  virtual int look(int /*process*/, const std::string& /*path*/, io::FileStatus& /*status*/, int result) {
    return result;
  }
  /// The program says that it is done: what is late is done now.
  virtual void settle() {}
};

/// A checkpoint's files: path and bytes.
using Content = std::map<std::string, std::string>;

/// What a reader of a target may find; null stands for no checkpoint.
using Promise = std::map<std::string, std::vector<const Content*>>;

/// The disk between two operations.
struct Moment {
  SimulatedDisk disk;
  Promise promise;
  std::string operation;  ///< The last one.
};

/// A computer: the disk, the locks of its open files, and what has happened so far.
///
/// Threads: safe; processes may run on several threads.
class SimulatedMachine {
 public:
  SimulatedMachine() = default;
  /// What identifiers its programs make depends on `seed` and on nothing else.
  explicit SimulatedMachine(SimulatedDisk disk, std::uint64_t seed = 0)
      : disk_(std::move(disk)), seed_(seed) {}

  /// From now on every change of the disk is kept as a moment; the first is the disk as it is.
  void record();
  /// What a reader may find from now on.
  void promise(const std::string& target, std::vector<const Content*> allowed);
  void promise(Promise promise);
  /// One of several programs knows more: of what a reader may find, only that is left which `allowed` has, too. The
  /// others go on, so nothing is late yet. Returns whether anything is left: else two programs contradict each other,
  /// and nothing changes.
  bool narrow(const std::string& target, const std::vector<const Content*>& allowed);
  /// One of the machines that share the disk is lost.
  void lose_machine(int machine, Fate& fate);

  [[nodiscard]] const SimulatedDisk& disk() const { return disk_; }
  [[nodiscard]] SimulatedDisk& disk() { return disk_; }
  [[nodiscard]] const std::vector<Moment>& moments() const { return moments_; }
  /// Another source of random bytes at each call, the same in every run.
  [[nodiscard]] store::RandomSource random();

  bool has_exchange = true;    ///< RENAME_EXCHANGE.
  bool has_no_replace = true;  ///< RENAME_NOREPLACE.
  bool has_links = true;
  Saboteur* saboteur = nullptr;

 private:
  friend class SimulatedProcess;

  struct Lock {
    const void* process = nullptr;
    int fd = -1;
  };

  void keep(const Operation& operation);

  std::mutex mutex_;  // Guards all that follows while processes run.
  SimulatedDisk disk_;
  std::uint64_t seed_ = 0;
  std::map<Inode, Lock> locks_;
  bool is_recording_ = false;
  Promise promise_;
  std::vector<Moment> moments_;
};

/// Says when a process may go on.
///
/// Threads: called by the process, before and after each of its system calls.
class Scheduler {
 public:
  Scheduler() = default;
  virtual ~Scheduler() = default;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  virtual void begin(int process) = 0;
  virtual void end(int process) = 0;
};

/// Lets threads run in turns that are planned: what a scheduler might do, repeatable.
class Turns final : public Scheduler {
 public:
  /// Process number `first` begins; each burst is a number of system calls, then the other one has its turn.
  Turns(int first, std::vector<int> bursts) : current_(first), bursts_(std::move(bursts)) {}

  void begin(int process) override;
  void end(int process) override;
  /// The program has ended.
  void leave(int process);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int current_;
  std::vector<int> bursts_;  // The last one does not end.
  std::size_t burst_ = 0;
  int done_ = 0;  // Of this burst.
  bool has_left_[2] = {false, false};
};

/// A program's view of a machine: its system calls and its open files. Where several machines share the disk, each
/// has one process, and the number of that.
class SimulatedProcess final : public io::Syscalls {
 public:
  explicit SimulatedProcess(SimulatedMachine& machine, Scheduler* scheduler = nullptr, int number = 0)
      : machine_(machine), scheduler_(scheduler), number_(number) {}

  [[nodiscard]] SimulatedMachine& machine() const { return machine_; }
  /// System calls so far.
  [[nodiscard]] int calls() const { return calls_; }

  /// From here on it changes nothing, and holds no lock: what its thread still does is done by nobody. Any thread may
  /// kill it between two calls.
  void die();
  [[nodiscard]] bool is_dead() const { return is_dead_; }
  /// Says something to other ranks: `effect`, unless it is dead, or a saboteur is in between.
  void tell(const std::string& what, std::function<int()> effect);

  int open_at(int directory, const char* path, int flags, std::uint32_t mode) noexcept override;
  int open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept override;
  int close(int fd) noexcept override;
  int allocate(int fd, std::uint64_t size_bytes) noexcept override;
  int truncate(int fd, std::uint64_t size_bytes) noexcept override;
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
  int symlink_at(const char* target, int directory, const char* name) noexcept override;
  int unlink_at(int directory, const char* name, bool is_directory) noexcept override;
  int try_lock(int fd) noexcept override;
  int file_system(int fd) noexcept override;

  /// What a symbolic link of the directory of checkpoints says; nothing when there is none.
  [[nodiscard]] std::optional<std::string> read_link(const std::string& name) const;

 private:
  struct OpenFile {
    Inode inode = kRootInode;
    std::string path;
    bool is_open = false;
  };

  /// Holds the turn and the machine's lock for one system call.
  class Call {
   public:
    explicit Call(SimulatedProcess& process);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    SimulatedProcess& process_;
  };

  template <class Effect>
  int change(Operation operation, Effect effect);
  int look(const std::string& path, io::FileStatus& status, int result);
  int open_inode(Inode inode, std::string path);
  int open_path(Inode directory, const std::string& parent_path, std::string_view path, int flags);
  [[nodiscard]] std::string path_of(int directory, std::string_view name) const;
  [[nodiscard]] Inode inode_of(int fd) const { return files_[static_cast<std::size_t>(fd)].inode; }

  SimulatedMachine& machine_;
  Scheduler* scheduler_;
  int number_;
  int calls_ = 0;
  std::atomic<bool> is_dead_{false};
  std::vector<OpenFile> files_;
};

/// An engine that does everything at once, on the thread that asks.
class SimulatedEngine final : public io::Engine {
 public:
  explicit SimulatedEngine(SimulatedProcess& process) : process_(process) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "simulated"; }
  [[nodiscard]] io::Syscalls& syscalls() noexcept override { return process_; }
  void submit(io::Request& request) noexcept override;

 private:
  SimulatedProcess& process_;
};

}  // namespace cairn::crash
