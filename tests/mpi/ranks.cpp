// SPDX-License-Identifier: Apache-2.0
// One rank of a job under mpirun. Usage: ranks SCENE. Exits with 0 when what the scene claims holds on this rank.
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/mpi/transport.hpp"

#include "async/internal/thread_pool.hpp"
#include "support/sync_wait.hpp"

namespace cairn {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds kSoonLostAfter{1};
constexpr std::chrono::seconds kLostAfter{30};  // Longer than any machine is busy.

void require(bool is_right, const std::string& claim) {
  if (!is_right) {
    throw std::runtime_error(claim);
  }
}

template <class T>
T run(Awaitable<T> task) {
  static async::ThreadPool& pool = *new async::ThreadPool(1, "ranks");
  return testing::sync_wait(async::make_strand(pool.executor()), std::move(task));
}

/// What a task that must fail says.
std::string failure_of(Awaitable<> task, Errc code) {
  try {
    run(std::move(task));
  } catch (const Error& error) {
    require(error.code() == code, fmt::format("'{}' is another error", error.what()));
    return error.what();
  }
  throw std::runtime_error("nothing failed");
}

std::string large(std::size_t rank) {
  return std::string(5'000'000 + rank, static_cast<char>('a' + rank % 26));
}

/// Rounds of every kind; texts that MPI sends at once, and such that wait for their receiver.
void talk(Coordinator& coordinator) {
  for (int i = 0; i < 20; ++i) {
    Conversation conversation = coordinator.join();
    Subject subject = conversation.about("it");
    run(subject.agree("round", fmt::format("{}", i)));
    const std::vector<std::string> texts = run(subject.gather(large(coordinator.rank())));
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      require(texts[rank] == large(rank), fmt::format("the text of rank {}", rank));
    }
    require(texts.size() == (coordinator.rank() == 0 ? coordinator.size() : 0), "all texts at rank 0");
    require(run(subject.scatter(texts)) == large(coordinator.rank()), "its own text comes back");
    require(run(subject.broadcast(fmt::format("end {}", i))) == fmt::format("end {}", i), "the broadcast");
    conversation.leave();
  }
}

void fail(Coordinator& coordinator) {
  Conversation conversation = coordinator.join();
  run(conversation.about("it").agree("all are there", "yes"));
  const auto begin = std::chrono::steady_clock::now();
  const std::size_t failing = coordinator.size() - 1;
  if (coordinator.rank() == failing) {
    conversation.fail(std::make_exception_ptr(Error(Errc::io_failure, "no space")));
  } else {
    const std::string text = failure_of(conversation.failed(), Errc::peer_failed);
    require(text.find(fmt::format("rank {}: no space", failing)) == 0, text);
  }
  require(std::chrono::steady_clock::now() - begin < kLostAfter, "nobody waits until a rank is lost");
  conversation.leave();
  talk(coordinator);
}

/// The last rank is stopped for three seconds; one second is enough to be lost.
void stop(Coordinator& coordinator) {
  {
    Conversation conversation = coordinator.join();
    Subject subject = conversation.about("it");
    run(subject.agree("all are there", "yes"));
    if (coordinator.rank() == coordinator.size() - 1) {
      const pid_t stopped = ::getpid();
      if (::fork() == 0) {
        ::kill(stopped, SIGSTOP);
        std::this_thread::sleep_for(3s);
        ::kill(stopped, SIGCONT);
        ::_exit(0);
      }
      std::this_thread::sleep_for(500ms);
    }
    const std::string text = failure_of(subject.agree("again", "yes"), Errc::peer_failed);
    require(text.find(fmt::format("rank {} is lost", coordinator.size() - 1)) != std::string::npos, text);
    conversation.leave();
  }
  talk(coordinator);
}

/// The last rank dies without a word; MPI lets the others go on (mpirun --enable-recovery).
void killed(Coordinator& coordinator) {
  Conversation conversation = coordinator.join();
  Subject subject = conversation.about("it");
  run(subject.agree("all are there", "yes"));
  if (coordinator.rank() == coordinator.size() - 1) {
    ::raise(SIGKILL);
  }
  const auto begin = std::chrono::steady_clock::now();
  failure_of(subject.agree("again", "yes"), Errc::peer_failed);
  require(std::chrono::steady_clock::now() - begin < kLostAfter, "all have ended soon after its silence");
  std::fprintf(stderr, "rank %zu: survived\n", coordinator.rank());
  std::fflush(stderr);
  ::_exit(0);  // MPI_Finalize waits for all.
}

/// How often threads of this process have gone to sleep, by name.
std::size_t sleeps_of(const std::string& name) {
  std::size_t sleeps = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(task.path() / "comm");
    std::string title;
    std::getline(comm, title);
    std::ifstream status(task.path() / "status");
    for (std::string line; title == name && std::getline(status, line);) {
      if (line.starts_with("voluntary_ctxt_switches:")) {
        sleeps += std::stoul(line.substr(line.find('\t') + 1));
      }
    }
  }
  return sleeps;
}

void idle(Coordinator& coordinator) {
  talk(coordinator);
  std::this_thread::sleep_for(1500ms);  // The last sign of life is due within a second.
  const std::size_t before = sleeps_of("cairn-mpi");
  std::this_thread::sleep_for(2s);
  require(before != 0 && sleeps_of("cairn-mpi") == before, "nobody wakes up between conversations");
}

/// MPI_Finalize comes first, while a rank waits for others, and while much is on its way to one that never looks.
void finalize(Coordinator& coordinator) {
  Conversation conversation = coordinator.join();
  if (coordinator.rank() == 0) {
    (void)conversation.about("it").broadcast(std::string(50'000'000, 'x'));
  }
  MPI_Finalize();
  require(conversation.failure() != nullptr, "it has failed");
  bool is_refused = false;
  try {
    (void)coordinator.join();
  } catch (const Error& error) {
    is_refused = error.code() == Errc::closed;
  }
  require(is_refused, "it is closed");
}

/// As a program that may call MPI by one thread only, which has other things to do.
void lend(Coordinator& coordinator) {
  bool is_done = false;
  std::exception_ptr failure;
  std::mutex mutex;
  std::thread talking([&] {
    std::exception_ptr caught;
    try {
      talk(coordinator);
    } catch (...) {
      caught = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    is_done = true;
    failure = caught;
  });
  bool is_over = false;
  while (!is_over) {
    {
      const std::lock_guard lock(mutex);
      is_over = is_done;
    }
    require(coordinator.progress(),
            "it needs the thread");  // Also after the last word: that is how it leaves.
  }
  talking.join();
  if (failure) {
    std::rethrow_exception(failure);
  }
}

std::string refusal() {
  try {
    (void)mpi_transport();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

int main_of(const std::string& scene) {
  const std::map<std::string, std::function<void(Coordinator&)>> scenes = {
      {"talk", talk}, {"fail", fail},         {"stop", stop}, {"killed", killed},
      {"idle", idle}, {"finalize", finalize}, {"lend", lend},
  };
  if (scene == "single") {
    require(refusal().find("is not initialised") != std::string::npos, refusal());
    MPI_Init(nullptr, nullptr);
    require(refusal().find("instead of MPI_Init") != std::string::npos, refusal());
    MPI_Finalize();
    require(refusal().find("MPI_Finalize was called") != std::string::npos, refusal());
    return 0;
  }
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, scene == "lend" ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE, &level);
  CoordinatorOptions options;
  options.heartbeat = 100ms;
  options.lost_after = scene == "stop" || scene == "killed" ? kSoonLostAfter : kLostAfter;
  options.fan_out = 2;
  {
    Coordinator coordinator(mpi_transport(), options);
    scenes.at(scene)(coordinator);
    MPI_Finalized(&level);
    if (level == 0) {
      MPI_Barrier(MPI_COMM_WORLD);  // Nobody leaves while others still talk to it.
    }
  }
  if (level == 0) {
    MPI_Finalize();
  }
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) try {
  return cairn::main_of(argc == 2 ? argv[1] : "");
} catch (const std::exception& error) {
  std::fprintf(stderr, "ranks: %s\n", error.what());
  std::_Exit(1);  // mpirun ends the others.
}
