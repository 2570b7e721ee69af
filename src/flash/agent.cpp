// SPDX-License-Identifier: Apache-2.0
#include "flash/internal/agent.hpp"

#include <sys/signalfd.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>

#include "cairn/api/copy.hpp"
#include "cairn/base/error.hpp"
#include "cairn/training/step_format.hpp"

#include "core/internal/disk_calls.hpp"
#include "flash/memory.hpp"
#include "io/internal/file.hpp"
#include "store/internal/damage.hpp"
#include "store/internal/memory_mark.hpp"
#include "store/internal/program_claim.hpp"
#include "training/internal/worker.hpp"

namespace cairn::flash {
namespace {

constexpr int kLookAgainMs = 20;
constexpr int kBySignal = 128;
constexpr int kNotFound = 127;
constexpr int kNotStarted = 126;

/// The format of which this is step 0: a prefix, and as many digits as names have; one stands for as many as it takes.
StepFormat format_of(const std::string& step_zero) {
  const std::size_t digits =
      step_zero.size() - std::min(step_zero.size(), step_zero.find_last_not_of('0') + 1);
  return StepFormat(step_zero.substr(0, step_zero.size() - digits), digits == 1 ? 0 : digits);
}

/// The steps in a directory, the newest first.
std::vector<std::uint64_t> steps_in(const io::Directory& directory, const StepFormat& format) {
  std::vector<std::uint64_t> steps;
  for (const io::DirectoryEntry& entry : directory.list()) {
    if (const auto step = format.parse(entry.name); step && entry.kind == io::FileKind::directory) {
      steps.push_back(*step);
    }
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

void tell(const std::string& what) {
  std::fputs(fmt::format("cairn agent: {}\n", what).c_str(), stderr);
}

/// A program, and the signals that are meant for it or tell of it.
class Agent {
 public:
  Agent(const AgentOptions& options, const ContextOptions& context)
      : options_(options), how_(context), left_(options.restarts) {}
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
    start();
    while (!is_over()) {
      wait_a_while();
      reap();
      if (starts_again_ && is_claim_free()) {
        starts_again_ = false;
        start();
      }
    }
    return status_;
  }

 private:
  void block_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGTERM, SIGINT, SIGCHLD}) {
      sigaddset(&set, number);
    }
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    signals_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0) {
      throw_errno(errno, "signalfd", options_.memory);
    }
  }

  void start() {
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    std::vector<std::string> words = options_.program;
    std::vector<char*> pointers;
    for (std::string& word : words) {
      pointers.push_back(word.data());
    }
    pointers.push_back(nullptr);
    const int error = ::posix_spawnp(&child_, pointers[0], nullptr, &attributes, pointers.data(), environ);
    posix_spawnattr_destroy(&attributes);
    if (error != 0) {
      child_ = 0;
      status_ = error == ENOENT ? kNotFound : kNotStarted;
      tell(fmt::format("{}: {}", words[0], std::error_code(error, std::system_category()).message()));
    }
  }

  /// Returns when a signal has come, or a moment has passed: that last words have ended is no signal.
  void wait_a_while() {
    pollfd one{signals_, POLLIN, 0};
    ::poll(&one, 1, kLookAgainMs);
    signalfd_siginfo news{};
    while (::read(signals_, &news, sizeof(news)) == static_cast<ssize_t>(sizeof(news))) {
      if (news.ssi_signo == SIGCHLD) {
        continue;
      }
      if (++told_to_end_ == 1) {
        end_ = std::chrono::steady_clock::now() + options_.grace;
        persist();
      }
      if (child_ > 0) {
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
    bool is_in_order = false;
    try {
      const std::optional<store::ClaimRecord> record = look().record;
      is_in_order = status_ == 0 && record && record->has_ended;
      if (!is_in_order || record->left_step) {
        persist();
      }
    } catch (const Error& error) {  // It has made no memory, or nobody may look into it.
      tell(error.what());
    }
    starts_again_ = !is_in_order && told_to_end_ == 0 && left_ > 0;
    left_ -= starts_again_ ? 1U : 0U;
  }

  [[nodiscard]] store::ClaimLook look() const {
    return store::look_at_claim(
        io::Directory::open(core::DiskCalls(*context_).syscalls(), options_.memory / kRankName));
  }

  [[nodiscard]] bool is_claim_free() const {
    try {
      return look().is_free;
    } catch (const Error&) {
      return true;
    }
  }

  void persist() {
    last_words_.post([this] {
      try {
        if (const auto step = persist_newest(options_.memory, options_.root, *context_)) {
          tell(fmt::format("step {} was copied from memory to {}", *step, options_.root.string()));
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
    const bool has_waited = told_to_end_ > 0 && std::chrono::steady_clock::now() >= end_;
    return (child_ == 0 && !starts_again_) || has_waited || told_to_end_ > 1;
  }

  const AgentOptions& options_;
  const ContextOptions how_;
  std::optional<Context> context_;
  int signals_ = -1;
  pid_t child_ = 0;
  int status_ = 0;
  unsigned left_;
  bool starts_again_ = false;
  int told_to_end_ = 0;
  std::chrono::steady_clock::time_point end_;
  training::Worker last_words_;  // First to stop: it uses all above.
};

}  // namespace

std::optional<std::uint64_t> persist_newest(const std::filesystem::path& memory,
                                            const std::filesystem::path& root, const Context& context) {
  io::Syscalls& syscalls = core::DiskCalls(context).syscalls();
  const io::Directory images = io::Directory::open(syscalls, memory / kRankName);
  const std::optional<store::MemoryMark> mark = store::read_mark_above(images);
  const io::Directory steps = io::Directory::open(syscalls, root);
  const std::string run = run_in(steps).value_or("none");
  if (!mark || mark->run != run) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} is the memory of run {}; {} has run {}", memory.string(),
                            mark ? mark->run : "none", root.string(), run));
  }
  const StepFormat format = format_of(mark->step_zero);
  const std::vector<std::uint64_t> on_disk = steps_in(steps, format);
  for (const std::uint64_t step : steps_in(images, StepFormat())) {
    if (!on_disk.empty() && step <= on_disk.front()) {
      break;
    }
    const std::filesystem::path image = memory / kRankName / std::to_string(step);
    try {
      copy_checkpoint(image, root / format.name(step), {}, context);
      return step;
    } catch (const Error& error) {
      if (!store::is_damage(syscalls, error.code(), image)) {
        throw;
      }
      tell(error.what());
    }
  }
  return std::nullopt;
}

int run_agent(const AgentOptions& options, const ContextOptions& context) {
  return Agent(options, context).run();
}

}  // namespace cairn::flash
