// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/training/step_options.hpp"

#include "support/fails.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

std::atomic<int> calls{0};
std::atomic<int> last_signal{0};

void count(int signal) {
  ++calls;
  last_signal = signal;
  errno = ENOENT;
}

void count_with_facts(int signal, siginfo_t* info, void*) {
  ++calls;
  last_signal = info->si_signo == signal ? signal : -1;
}

/// Puts a handler where one may be before a guard, and takes it away.
class Earlier {
 public:
  Earlier(int signal, void (*handler)(int)) : signal_(signal) {
    struct sigaction action {};
    action.sa_handler = handler;
    sigaction(signal, &action, &before_);
    calls = 0;
  }
  Earlier(int signal, void (*handler)(int, siginfo_t*, void*)) : signal_(signal) {
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(signal, &action, &before_);
    calls = 0;
  }
  ~Earlier() { sigaction(signal_, &before_, nullptr); }
  Earlier(const Earlier&) = delete;
  Earlier& operator=(const Earlier&) = delete;

 private:
  int signal_;
  struct sigaction before_ {};
};

bool is_default(int signal) {
  struct sigaction now {};
  sigaction(signal, nullptr, &now);
  return (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL;
}

TEST(PreemptionGuard, TurnsItsSignalIntoAFlag) {
  const PreemptionGuard guard;
  EXPECT_FALSE(guard.is_preempted());

  std::raise(SIGTERM);

  EXPECT_TRUE(guard.is_preempted());
}

TEST(PreemptionGuard, TakesOtherSignals) {
  const PreemptionGuard guard({SIGUSR1, SIGUSR2, SIGUSR2});

  std::raise(SIGUSR2);

  EXPECT_TRUE(guard.is_preempted());
  EXPECT_TRUE(is_default(SIGTERM));
}

TEST(PreemptionGuard, CallsTheHandlerThatWasThere) {
  const Earlier earlier(SIGTERM, count);
  const PreemptionGuard guard;

  std::raise(SIGTERM);

  EXPECT_EQ(calls, 1);
  EXPECT_EQ(last_signal, SIGTERM);
}

TEST(PreemptionGuard, GivesAHandlerThatAsksForItWhatTheKernelSays) {
  const Earlier earlier(SIGTERM, count_with_facts);
  const PreemptionGuard guard;

  std::raise(SIGTERM);

  EXPECT_EQ(calls, 1);
  EXPECT_EQ(last_signal, SIGTERM);
}

TEST(PreemptionGuard, LeavesTheErrorOfWhatItInterrupts) {
  const Earlier earlier(SIGTERM, count);
  const PreemptionGuard guard;
  errno = EBUSY;

  std::raise(SIGTERM);

  EXPECT_EQ(errno, EBUSY);
}

TEST(PreemptionGuard, PutsBackWhatWasThere) {
  const Earlier earlier(SIGTERM, count);
  { const PreemptionGuard guard; }

  std::raise(SIGTERM);

  EXPECT_EQ(calls, 1);
}

TEST(PreemptionGuard, MadeTwiceIsRefusedAndTheFirstGoesOn) {
  const PreemptionGuard guard;

  EXPECT_THAT([] { const PreemptionGuard second({SIGUSR1}); },
              Fails(Errc::already_exists, HasSubstr("PreemptionGuard")));
  std::raise(SIGTERM);
  EXPECT_TRUE(guard.is_preempted());
  EXPECT_TRUE(is_default(SIGUSR1));
}

TEST(PreemptionGuard, OfFaultsAndSignalsThatCannotBeCaughtIsRefusedAndLeavesNothing) {
  for (const int signal : {SIGKILL, 0, -1, 4711, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    EXPECT_THAT(
        [&] {
          const PreemptionGuard guard({SIGUSR1, signal});
        },
        Fails(Errc::invalid_argument, HasSubstr(std::to_string(signal))));
  }
  EXPECT_THAT([] { const PreemptionGuard guard(std::vector<int>{}); },
              Fails(Errc::invalid_argument, HasSubstr("at least one signal")));
  EXPECT_TRUE(is_default(SIGUSR1));
  const PreemptionGuard guard;  // Those that failed are not in its way.
}

struct sigaction beneath_another {};

/// Stands on top of what was there, and calls that, as a guard does.
void count_and_pass_on(int signal, siginfo_t* info, void* context) {
  ++calls;
  beneath_another.sa_sigaction(signal, info, context);
}

TEST(PreemptionGuard, OnTopOfAHandlerThatCallsAnEarlierOneIsNoCircle) {
  struct sigaction before {};
  sigaction(SIGTERM, nullptr, &before);
  {
    const PreemptionGuard first;
    struct sigaction another {};
    another.sa_sigaction = count_and_pass_on;
    another.sa_flags = SA_SIGINFO;
    sigaction(SIGTERM, &another, &beneath_another);
  }
  calls = 0;
  {
    const PreemptionGuard second;
    std::raise(SIGTERM);
    std::raise(SIGTERM);

    EXPECT_TRUE(second.is_preempted());
    EXPECT_EQ(calls, 2);
  }
  sigaction(SIGTERM, &before, nullptr);
}

TEST(PreemptionGuard, ANewOneKnowsNothingOfSignalsBefore) {
  {
    const PreemptionGuard guard;
    std::raise(SIGTERM);
  }

  EXPECT_FALSE(PreemptionGuard().is_preempted());
}

}  // namespace
}  // namespace cairn
