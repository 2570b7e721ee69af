// SPDX-License-Identifier: Apache-2.0
#include "base/internal/thread.hpp"

#include <unistd.h>

#include <csignal>
#include <thread>

#include <gtest/gtest.h>
#include <pthread.h>

#include "base/internal/mutex.hpp"

namespace cairn {
namespace {

sigset_t mask_of_this_thread() {
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return mask;
}

TEST(StartThread, BlocksWhatAProgramMayWaitForAndNoFaults) {
  sigset_t mask;
  start_thread("test", [&] { mask = mask_of_this_thread(); }).join();

  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD, SIGALRM, SIGPIPE, SIGRTMAX}) {
    EXPECT_EQ(sigismember(&mask, signal), 1) << signal;
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
    EXPECT_EQ(sigismember(&mask, signal), 0) << signal;
  }
}

TEST(StartThread, LeavesTheSignalsOfItsCallerAsTheyAre) {
  sigset_t usr1;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, &usr1, &before);

  start_thread("test", [] {}).join();
  const sigset_t after = mask_of_this_thread();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);

  EXPECT_EQ(sigismember(&after, SIGUSR1), 1);
  EXPECT_EQ(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

TEST(StartThread, StartsNoneThatTakesASignalOfTheProgram) {
  sigset_t usr1;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  sigset_t before;
  bool is_over = false;
  Mutex mutex;
  Condition changed;
  std::thread other = start_thread("test", [&] {
    MutexLock lock(mutex);
    changed.wait(lock, [&] { return is_over; });
  });
  ::pthread_sigmask(SIG_BLOCK, &usr1, &before);

  ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);  // The other thread would end the program by it, if it took it.
  int taken = 0;
  EXPECT_EQ(::sigwait(&usr1, &taken), 0);
  EXPECT_EQ(taken, SIGUSR1);

  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  {
    const MutexLock lock(mutex);
    is_over = true;
    changed.notify_all();
  }
  other.join();
}

}  // namespace
}  // namespace cairn
