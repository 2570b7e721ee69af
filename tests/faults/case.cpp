// SPDX-License-Identifier: Apache-2.0
#include "faults/case.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <signal.h>

#include "cairn/base/error.hpp"

namespace cairn::faults {
namespace {

constexpr int kMostLooks = 100;

std::int64_t entries_of(const char* directory) {
  return std::distance(std::filesystem::directory_iterator(directory), std::filesystem::directory_iterator());
}

/// What a case must give back.
struct Holdings {
  std::int64_t descriptors = 0;
  std::int64_t threads = 0;
  std::int64_t news = 0;
  std::int64_t frames = 0;

  static Holdings now() {
    // The listing itself takes some: memory is looked at first.
    const std::int64_t news = injector().news;
    const std::int64_t frames = injector().frames;
    return {entries_of("/proc/self/fd"), entries_of("/proc/self/task"), news, frames};
  }

  [[nodiscard]] std::string beyond(const Holdings& before) const {
    return fmt::format("{} descriptors, {} threads, {} pieces of memory, {} frames more than before",
                       descriptors - before.descriptors, threads - before.threads, news - before.news,
                       frames - before.frames);
  }

  /// Less is no leak: the witness may have been giving back what it had used for the last case.
  [[nodiscard]] bool is_within(const Holdings& before) const {
    return descriptors <= before.descriptors && threads <= before.threads && news <= before.news &&
           frames <= before.frames;
  }
};

/// What is held when the witness, too, has let go of what it does not keep.
Holdings settled() {
  Holdings before = Holdings::now();
  for (int attempt = 0; attempt < kMostLooks; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const Holdings now = Holdings::now();
    if (now.is_within(before) && before.is_within(now)) {
      break;
    }
    before = now;
  }
  return before;
}

/// Waits until all is given back; returns what is not.
std::string leak_since(const Holdings& before, std::chrono::milliseconds settle_time) {
  const auto deadline = std::chrono::steady_clock::now() + settle_time;
  Holdings after = Holdings::now();
  while (!after.is_within(before) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    after = Holdings::now();
  }
  return after.is_within(before) ? "" : after.beyond(before);
}

void read_failure(const std::exception_ptr& failure, Verdict& verdict) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    verdict.is_error = true;
    verdict.code = error.code();
    verdict.text = error.what();
  } catch (const std::bad_alloc& error) {
    verdict.is_no_memory = true;
    verdict.text = error.what();
  } catch (const std::exception& error) {
    verdict.text = error.what();
  }
}

}  // namespace

Case run_case(Scene& scene, const Machine& machine, const Fault* fault) {
  Case result;
  result.verdict.text.reserve(1 << 16);  // What is left of the operation must not count as a leak.
  scene.prepare();
  const Holdings before = settled();
  const auto begin = std::chrono::steady_clock::now();
  injector().arm(fault);
  try {
    const std::string text = scene.act(machine);
    injector().disarm();
    result.verdict.is_done = true;
    result.verdict.text = text;
  } catch (...) {
    injector().disarm();
    read_failure(std::current_exception(), result.verdict);
  }
  result.hits = injector().hits();
  result.refused_bytes = injector().refused_bytes();
  result.is_hung = std::chrono::steady_clock::now() - begin > machine.patience;
  result.leak = leak_since(before, machine.settle_time);
  return result;
}

namespace {

constexpr int kEnded = 77;  // What a child returns that ended for want of memory.

/// What a child process says of its case, in memory that it shares with its parent.
struct Said {
  bool is_done = false;
  bool is_error = false;
  bool is_no_memory = false;
  bool is_unknown = false;
  bool is_hung = false;
  std::uint64_t hits = 0;
  std::size_t refused_bytes = 0;
  std::array<char, 4096> text{};
  std::array<char, 256> leak{};
};

Said* said = nullptr;  ///< The child's; made before it begins.

template <std::size_t Size>
void put(std::array<char, Size>& place, std::string_view text) {
  text.copy(place.data(), Size - 1);
}

/// The child's end when something had to go on and could not.
[[noreturn]] void end_of_child() noexcept {
  said->hits = injector().hits();
  said->refused_bytes = injector().refused_bytes();
  ::_exit(kEnded);
}

[[noreturn]] void play_child(Scene& scene, const Machine& machine, const Fault& fault) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::set_terminate(&end_of_child);
  Machine once = machine;
  once.settle_time = {};
  // A forked process makes some things anew, and keeps them; and so does the first failure.
  static_cast<void>(run_case(scene, once, nullptr));
  static_cast<void>(make_error_code(Errc::io_failure));
  Case result = run_case(scene, machine, &fault);
  if (!result.leak.empty()) {
    result = run_case(scene, machine, &fault);
  }
  said->is_done = result.verdict.is_done;
  said->is_error = result.verdict.is_error;
  said->is_no_memory = result.verdict.is_no_memory;
  said->is_unknown = result.verdict.code == Errc::commit_unknown;
  said->is_hung = result.is_hung;
  said->hits = result.hits;
  said->refused_bytes = result.refused_bytes;
  put(said->text, result.verdict.text);
  put(said->leak, result.leak);
  ::_exit(0);
}

Case heard(int status) {
  Case result;
  result.hits = said->hits;
  result.refused_bytes = said->refused_bytes;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kEnded) {
    result.verdict.has_ended_process = true;
  } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    result.breakdown = fmt::format("the process broke down: status {:#x}", status);
  }
  result.verdict.is_done = said->is_done;
  result.verdict.is_error = said->is_error;
  result.verdict.is_no_memory = said->is_no_memory;
  result.verdict.code = said->is_unknown ? make_error_code(Errc::commit_unknown) : std::error_code();
  result.verdict.text = said->text.data();
  result.leak = said->leak.data();
  result.is_hung = said->is_hung;
  return result;
}

}  // namespace

Case run_case_in_child(Scene& scene, const Machine& machine, const Fault& fault) {
  void* const shared =
      ::mmap(nullptr, sizeof(Said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    throw_errno(errno, "mmap", "what a child says");
  }
  const auto unmap = [](Said* memory) { ::munmap(memory, sizeof(Said)); };
  const std::unique_ptr<Said, decltype(unmap)> owner(new (shared) Said, unmap);
  said = owner.get();
  const pid_t child = ::fork();
  if (child < 0) {
    throw_errno(errno, "fork", "a case of its own");
  }
  if (child == 0) {
    play_child(scene, machine, fault);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      throw_errno(errno, "waitpid", "a case of its own");
    }
  }
  return heard(status);
}

}  // namespace cairn::faults
