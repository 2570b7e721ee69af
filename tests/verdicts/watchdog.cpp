// SPDX-License-Identifier: Apache-2.0
#include "verdicts/watchdog.hpp"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>

#include <dirent.h>
#include <execinfo.h>

#include "verdicts/stillness.hpp"

namespace cairn::verdicts {
namespace {

/// Each thread tells its own stack when it gets the signal: nobody else can.
void print_stack(int) {
  std::array<void*, 40> frames{};
  std::array<char, 64> line{};
  std::array<char, 17> name{};
  ::prctl(PR_GET_NAME, name.data());
  const int length =
      std::snprintf(line.data(), line.size(), "--- %d %s\n", static_cast<int>(::gettid()), name.data());
  if (::write(STDERR_FILENO, line.data(), static_cast<std::size_t>(length)) < 0) {
    return;
  }
  ::backtrace_symbols_fd(frames.data(), ::backtrace(frames.data(), static_cast<int>(frames.size())),
                         STDERR_FILENO);
}

void print_stacks() {
  struct sigaction action {};
  action.sa_handler = &print_stack;
  ::sigaction(SIGUSR2, &action, nullptr);
  std::array<void*, 1> first{};
  ::backtrace(first.data(),
              1);  // It loads a library when it is first called, which a signal handler may not do.
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir("/proc/self/task"), &::closedir);
  while (const dirent* entry = ::readdir(tasks.get())) {
    const auto thread = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (thread == 0) {
      continue;
    }
    ::syscall(SYS_tgkill, ::getpid(), thread, SIGUSR2);
    const timespec pause{0, 20'000'000};  // So that the stacks come one after the other.
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace

void report_threads(const std::string& story) {
  std::fprintf(stderr, "%s\n%s\n", story.c_str(), Stillness::describe_threads().c_str());
  std::fflush(nullptr);
  print_stacks();
}

void report_hang(const std::string& story) {
  report_threads(story);
  std::_Exit(1);
}

}  // namespace cairn::verdicts
