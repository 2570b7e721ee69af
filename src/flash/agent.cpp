// SPDX-License-Identifier: Apache-2.0
#include "flash/internal/agent.hpp"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>

#include "cairn/base/error.hpp"

#include "base/internal/clock.hpp"
#include "core/internal/disk_calls.hpp"
#include "flash/internal/run_images.hpp"
#include "flash/memory.hpp"
#include "flash/retries.hpp"
#include "io/internal/check.hpp"
#include "io/internal/file.hpp"
#include "store/internal/memory_mark.hpp"
#include "store/internal/program_claim.hpp"
#include "training/internal/worker.hpp"

namespace cairn::flash {
namespace {

using std::chrono::steady_clock;

constexpr std::string_view kAgentName = ".cairn-agent";
/// That last words have ended is no signal, nor that a claim is free.
constexpr int kLookAgainMs = 20;
constexpr int kServingMs = 100;
constexpr int kBySignal = 128;
constexpr int kNotFound = 127;
constexpr int kNotStarted = 126;

void tell(const std::string& what) {
  std::fputs(fmt::format("cairn agent: {}\n", what).c_str(), stderr);
}

/// Starts a program with no signal blocked; what it tells goes to `log`, if that is given. Returns an errno.
int spawn(std::vector<std::string> words, const std::filesystem::path& log, pid_t& child) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t set;
  sigemptyset(&set);
  posix_spawnattr_setsigmask(&attributes, &set);
  sigaddset(&set, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &set);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  if (!log.empty()) {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW;
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(), kFlags, S_IRUSR | S_IWUSR);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  }
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  const int error = ::posix_spawnp(&child, pointers[0], &files, &attributes, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return error;
}

/// Goes on in a child with a session of its own. Returns whether this is the parent.
bool leave_to_child() {
  const pid_t child = ::fork();
  if (child < 0) {
    throw_errno(errno, "fork", "agent");
  }
  if (child == 0) {
    ::setsid();
  }
  return child > 0;
}

/// An agent, the program that it runs, if it does, and the signals that are meant for it or tell of it.
class Agent {
 public:
  Agent(const AgentOptions& options, const ContextOptions& context)
      : options_(options), how_(context), left_(options.restarts), is_in_use_(options.is_detached) {}
  ~Agent() {
    if (signals_ >= 0) {
      ::close(signals_);
    }
  }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  int run() {
    block_signals();
    context_.emplace(how_);  // Its threads have the signals blocked, too.
    take_place();
    if (!serves()) {
      start();
    }
    while (!is_over() || is_wanted_again()) {
      wait_a_while();
      reap();
      look_around();
    }
    tell_what_is_left();
    return child_ > 0 ? kBySignal + SIGTERM : status_;  // It was told to end, and has not.
  }

 private:
  [[nodiscard]] bool serves() const { return options_.program.empty(); }

  void block_signals() {
    std::signal(SIGPIPE, SIG_IGN);  // Nobody may read what it tells.
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGTERM, SIGINT, SIGCHLD}) {
      sigaddset(&set, number);
    }
    struct sigaction hang_up {};
    if (::sigaction(SIGHUP, nullptr, &hang_up) == 0 &&
        hang_up.sa_handler != SIG_IGN) {  // As nohup has it ignored.
      sigaddset(&set, SIGHUP);
    }
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    signals_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0) {
      throw_errno(errno, "signalfd", options_.memory);
    }
  }

  /// Says by a lock that this agent serves the memory, once that is there.
  void take_place() {
    if (place_) {
      return;
    }
    io::Syscalls& syscalls = core::DiskCalls(*context_).syscalls();
    std::error_code ignored;
    if (!std::filesystem::exists(options_.memory / store::kMemoryMarkName, ignored)) {
      return;  // Its program makes it, and nothing but the mark may be there first.
    }
    io::FileHandle file = store::open_to_lock(io::Directory::open(syscalls, options_.memory), kAgentName);
    const int locked = io::uninterrupted([&] { return syscalls.try_lock_for_process(file.fd()); });
    if (locked == -EAGAIN) {
      throw Error(std::error_code(EBUSY, std::system_category()),
                  fmt::format("process {} serves {} as its agent", agent_of(options_.memory).value_or(0),
                              options_.memory.string()));
    }
    io::require(locked, "lock", options_.memory / kAgentName);
    place_.emplace(std::move(file));
  }

  void start() {
    started_ = steady_clock::now();
    const int error = spawn(options_.program, {}, child_);
    if (error != 0) {
      child_ = 0;
      status_ = error == ENOENT ? kNotFound : kNotStarted;
      tell(fmt::format("{}: {}", options_.program[0],
                       std::error_code(error, std::system_category()).message()));
    }
  }

  void wait_a_while() {
    pollfd one{signals_, POLLIN, 0};
    ::poll(&one, 1, serves() ? kServingMs : kLookAgainMs);
    signalfd_siginfo news{};
    while (::read(signals_, &news, sizeof(news)) == static_cast<ssize_t>(sizeof(news))) {
      if (news.ssi_signo == SIGCHLD) {
        continue;
      }
      if (++told_to_end_ == 1) {
        starts_again_ = false;
        end_ = later(steady_clock::now(), options_.grace);
        persist();
      }
      if (child_ > 0 && news.ssi_code != SI_KERNEL) {  // A terminal tells all of its programs itself.
        ::kill(child_, static_cast<int>(news.ssi_signo));
      }
    }
  }

  void reap() {
    int status = 0;
    pid_t ended = 0;
    while ((ended = ::waitpid(-1, &status, WNOHANG)) > 0) {
      if (ended == child_) {
        child_ = 0;
        status_ = WIFSIGNALED(status) ? kBySignal + WTERMSIG(status) : WEXITSTATUS(status);
        look_how_it_ended();
      }
    }
  }

  void look_how_it_ended() {
    const std::optional<store::ClaimLook> claim = look();
    const bool is_in_order = status_ == 0 && claim && claim->record && claim->record->has_ended;
    have_last_word(claim, is_in_order);
    starts_again_ = !is_in_order && told_to_end_ == 0 && left_ > 0;
    left_ -= starts_again_ ? 1U : 0U;
    if (starts_again_) {
      start_at_ = steady_clock::now() + pauses_.next(steady_clock::now() - started_);
    }
    if (!end_) {
      end_ = later(steady_clock::now(), options_.grace);
    }
  }

  void have_last_word(const std::optional<store::ClaimLook>& claim, bool is_in_order) {
    const bool is_left = claim && claim->record && claim->record->left_step;
    if (claim && (!is_in_order || is_left || told_to_end_ > 0)) {
      persist();
    }
  }

  void look_around() {
    if (told_to_end_ > 0 && !is_grace_over_ && steady_clock::now() >= *end_) {
      is_grace_over_ = true;
      persist();  // The program may go on, and be killed with this one.
    } else if (has_failed_ && steady_clock::now() >= again_.load()) {
      persist();
    }
    if (!serves() && !starts_again_) {
      try {
        take_place();
      } catch (const Error& error) {
        tell_once(error);
      }
      return;
    }
    const std::optional<store::ClaimLook> claim = look();
    is_in_use_ = claim && !claim->is_free;
    if (is_in_use_) {
      return;
    }
    if (starts_again_) {
      if (steady_clock::now() < start_at_) {
        return;
      }
      starts_again_ = false;
      end_.reset();
      start();
    } else if (claim && claim->record && served_ != claim->record->program) {
      served_ = claim->record->program;
      have_last_word(claim, claim->record->has_ended);
    }
  }

  /// Nothing where there is no memory yet.
  [[nodiscard]] std::optional<store::ClaimLook> look() {
    try {
      take_place();
      return look_at_claim();
    } catch (const Error& error) {
      tell_once(error);
      return std::nullopt;
    }
  }

  [[nodiscard]] store::ClaimLook look_at_claim() const {
    return store::look_at_claim(
        io::Directory::open(core::DiskCalls(*context_).syscalls(), options_.memory / kRankName));
  }

  /// Gives its place back. A program that has come meanwhile may have seen it taken, and is served.
  bool is_wanted_again() {
    if (!options_.is_detached || told_to_end_ > 0) {
      return false;
    }
    place_.reset();
    try {
      is_in_use_ = !look_at_claim().is_free;
    } catch (const Error&) {  // The memory was removed.
      is_in_use_ = false;
    }
    return is_in_use_;
  }

  void tell_once(const Error& error) {
    if (error.code() != Errc::not_found && std::exchange(last_told_, error.what()) != error.what()) {
      tell(error.what());
    }
  }

  /// What could not be persisted is lost with the machine: somebody should know.
  void tell_what_is_left() {
    if (!is_left_) {
      return;
    }
    try {
      const RunImages images(options_.memory, options_.root, *context_);
      const std::optional<std::uint64_t> step = images.newest();
      if (step && images.persisted(*step) != Persisted::yes) {
        tell(fmt::format(
            "step {} is in memory only, in {}: cairn agent persist --memory {} --root {} copies it to disk",
            *step, images.image(*step).string(), options_.memory.string(), options_.root.string()));
      }
    } catch (const Error& error) {  // The disk is away.
      tell(fmt::format("what is in {} is in memory only: {}", (options_.memory / kRankName).string(),
                       error.what()));
    }
  }

  void persist() {
    has_failed_ = false;
    last_words_.post([this] {
      is_left_ = true;
      try {
        const RunImages images(options_.memory, options_.root, *context_);
        const auto passed_over = [](const std::exception& why) { tell(why.what()); };
        const auto is_to_stop = [this](const SaveProgress& /*progress*/) { return told_to_end_ > 1; };
        if (const auto step = images.persist_newest(passed_over, is_to_stop)) {
          tell(fmt::format("step {} was copied from memory to {}", *step, options_.root.string()));
        }
        failures_ = 0;
        is_left_ = false;
      } catch (const Error& error) {
        if (failures_ == 0) {
          tell(error.what());
        }
        if (may_succeed_later(error.code())) {
          again_ = steady_clock::now() + pause_after(failures_++);
          has_failed_ = true;
        }
      } catch (const std::exception& error) {
        tell(error.what());
      }
    });
  }

  [[nodiscard]] bool is_over() const {
    if (!last_words_.idle().has_happened()) {
      return false;
    }
    if (told_to_end_ > 1 || is_grace_over_) {
      return true;
    }
    const bool tries_again = has_failed_ && (!end_ || steady_clock::now() < *end_);
    const bool is_done =
        serves() ? (told_to_end_ > 0 || options_.is_detached) && !is_in_use_ : child_ == 0 && !starts_again_;
    return is_done && !tries_again;
  }

  const AgentOptions& options_;
  const ContextOptions how_;
  std::optional<Context> context_;
  std::optional<io::FileHandle> place_;
  int signals_ = -1;
  pid_t child_ = 0;
  int status_ = 0;
  unsigned left_;
  bool starts_again_ = false;
  RestartPauses pauses_;
  steady_clock::time_point started_;   // The program.
  steady_clock::time_point start_at_;  // The next time.
  bool is_in_use_;
  std::optional<store::Uuid> served_;  // The program that the last word was for.
  std::atomic<int> told_to_end_{0};
  bool is_grace_over_ = false;
  std::optional<steady_clock::time_point>
      end_;  // Of the patience with a program that was told, or with the disk.
  std::string last_told_;
  // Of the thread with the last words; of the other one, while that is idle.
  unsigned failures_ = 0;
  bool is_left_ = false;  // The newest image could not be persisted.
  std::atomic<bool> has_failed_{false};
  std::atomic<steady_clock::time_point> again_{};
  training::Worker last_words_;  // First to stop: it uses all above.
};

}  // namespace

int run_agent(const AgentOptions& options, const ContextOptions& context) {
  if (options.is_detached && leave_to_child()) {
    return 0;
  }
  return Agent(options, context).run();
}

void start_agent(const std::filesystem::path& program, const std::filesystem::path& memory,
                 const std::filesystem::path& root) {
  if (agent_of(memory)) {
    return;
  }
  pid_t child = 0;
  const int error = spawn({program, "agent", "--detach", "--memory", memory, "--root", root},
                          memory / fmt::format("{}.log", kAgentName), child);
  if (error != 0) {
    throw_errno(error, "start the agent", program);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) {
    throw Error(Errc::io_failure, fmt::format("{} agent has failed: {} says why", program.string(),
                                              (memory / fmt::format("{}.log", kAgentName)).string()));
  }
}

std::optional<pid_t> agent_of(const std::filesystem::path& memory) {
  const int fd =
      ::open((memory / kAgentName).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    return std::nullopt;
  }
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool is_locked = ::fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  ::close(fd);
  return is_locked ? std::optional(std::max(lock.l_pid, 0)) : std::nullopt;
}

}  // namespace cairn::flash
