// SPDX-License-Identifier: Apache-2.0
// One rank of a job under mpirun. Usage: ranks SCENE [SECONDS]. Exits with 0 when what the scene claims holds here.
// SECONDS: how long `idle` looks on (2). CAIRN_MPI_LARGE_ROUNDS: rounds of 20 in which `talk` speaks of megabytes (3).
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/coord/transport.hpp"
#include "cairn/mpi/transport.hpp"

#include "async/internal/event.hpp"
#include "async/internal/thread_pool.hpp"
#include "core/internal/start.hpp"
#include "core/rank_parts.hpp"
#include "mpi/require.hpp"
#include "mpi/saver.hpp"
#include "mpi/scarce_memory.hpp"
#include "mpi/shared_loads.hpp"
#include "mpi/transport_scenes.hpp"
#include "store/internal/recovery.hpp"
#include "support/number_from.hpp"
#include "support/run.hpp"
#include "support/sync_wait.hpp"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

using namespace std::chrono_literals;
using testing::kLostAfter;
using testing::kSoonLostAfter;
using testing::require;
using testing::Saver;
using testing::SharedDirectory;
using testing::survive;

constexpr std::size_t kLarge = 5'000'000;  // Bytes.

template <class T>
T run(Awaitable<T> task) {
  static async::ThreadPool& pool = *new async::ThreadPool(1, "ranks");
  return testing::sync_wait(async::make_strand(pool.executor()), std::move(task));
}

/// What must fail says.
std::string failure_of(const std::function<void()>& act, Errc code) {
  try {
    act();
  } catch (const Error& error) {
    require(error.code() == code, fmt::format("'{}' is another error", error.what()));
    return error.what();
  }
  throw std::runtime_error("nothing failed");
}

std::string failure_of(Awaitable<> task, Errc code) {
  return failure_of([&] { run(std::move(task)); }, code);
}

std::string text_of(std::size_t rank, std::size_t bytes = kLarge) {
  return std::string(bytes + rank, static_cast<char>('a' + rank % 26));
}

/// Rounds of every kind; texts that MPI sends at once, and such that wait for their receiver. Those take the time.
void talk(const std::shared_ptr<coord::Coordinator>& coordinator) {
  const std::uint64_t large_rounds = testing::number_from("CAIRN_MPI_LARGE_ROUNDS", 3);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const std::size_t bytes = i < large_rounds ? kLarge : 100;
    coord::Session session = coordinator->join();
    coord::Channel channel = session.channel("it");
    run(channel.agree("round", fmt::format("{}", i)));
    const std::vector<std::string> texts = run(channel.gather(text_of(coordinator->rank(), bytes)));
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      require(texts[rank] == text_of(rank, bytes), fmt::format("the text of rank {}", rank));
    }
    require(texts.size() == (coordinator->rank() == 0 ? coordinator->size() : 0), "all texts at rank 0");
    require(run(channel.scatter(texts)) == text_of(coordinator->rank(), bytes), "its own text comes back");
    require(run(channel.broadcast(fmt::format("end {}", i))) == fmt::format("end {}", i), "the broadcast");
    session.leave();
  }
}

void fail(const std::shared_ptr<coord::Coordinator>& coordinator) {
  coord::Session session = coordinator->join();
  run(session.channel("it").agree("all are there", "yes"));
  const auto begin = std::chrono::steady_clock::now();
  const std::size_t failing = coordinator->size() - 1;
  if (coordinator->rank() == failing) {
    session.fail(std::make_exception_ptr(Error(Errc::io_failure, "no space")));
  } else {
    const std::string text = failure_of(session.failed(), Errc::peer_failed);
    require(text.find(fmt::format("rank {}: no space", failing)) == 0, text);
  }
  require(std::chrono::steady_clock::now() - begin < kLostAfter, "nobody waits until a rank is lost");
  session.leave();
  talk(coordinator);
}

/// Stops this process for twice as long as is enough to be lost.
void stop_this_process() {
  const pid_t stopped = ::getpid();
  if (::fork() == 0) {
    ::kill(stopped, SIGSTOP);
    std::this_thread::sleep_for(2 * kSoonLostAfter);
    ::kill(stopped, SIGCONT);
    ::_exit(0);
  }
  std::this_thread::sleep_for(500ms);
}

/// Does something that all ranks do, until the one that was lost is heard again: before that it fails on all alike.
void do_when_heard(const std::function<void()>& act) {
  while (true) {
    try {
      act();
      return;
    } catch (const Error& error) {
      require(error.code() == Errc::peer_lost, error.what());
    }
    std::this_thread::sleep_for(50ms);
  }
}

/// The last rank is stopped for longer than is enough to be lost.
void stop(const std::shared_ptr<coord::Coordinator>& coordinator) {
  {
    coord::Session session = coordinator->join();
    coord::Channel channel = session.channel("it");
    run(channel.agree("all are there", "yes"));
    if (coordinator->rank() == coordinator->size() - 1) {
      stop_this_process();
    }
    const std::string text = failure_of(channel.agree("again", "yes"), Errc::peer_lost);
    require(text.find(fmt::format("rank {} is lost", coordinator->size() - 1)) != std::string::npos, text);
    session.leave();
  }
  do_when_heard([&] {
    coord::Session session = coordinator->join();
    run(session.channel("it").agree("all are there again", "yes"));
    session.leave();
  });
  talk(coordinator);
}

/// The last rank dies without a word; MPI lets the others go on (mpirun --enable-recovery).
void killed(const std::shared_ptr<coord::Coordinator>& coordinator) {
  coord::Session session = coordinator->join();
  coord::Channel channel = session.channel("it");
  run(channel.agree("all are there", "yes"));
  if (coordinator->rank() == coordinator->size() - 1) {
    ::raise(SIGKILL);
  }
  const auto begin = std::chrono::steady_clock::now();
  failure_of(channel.agree("again", "yes"), Errc::peer_lost);
  require(std::chrono::steady_clock::now() - begin < kLostAfter, "all have ended soon after its silence");
  survive(coordinator->rank());
}

/// Rank 0 speaks when all have agreed, perhaps before this rank has heard of that.
Awaitable<> agree_and_hear_large(coord::Channel channel) {
  Awaitable<> agreeing = channel.agree("the last one starves", "yes");
  co_await std::move(agreeing);
  static_cast<void>(co_await channel.broadcast(""));
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

void idle(const std::shared_ptr<coord::Coordinator>& coordinator, std::chrono::seconds time) {
  talk(coordinator);
  std::this_thread::sleep_for(1500ms);  // The last sign of life is due within a second.
  const std::size_t before = sleeps_of("cairn-mpi");
  std::this_thread::sleep_for(time);
  const std::size_t sleeps = sleeps_of("cairn-mpi") - before;
  std::fprintf(stderr, "rank %zu: %zu wake-ups in %d s\n", coordinator->rank(), sleeps,
               static_cast<int>(time.count()));
  require(before != 0 && sleeps == 0, "nobody wakes up between conversations");
}

/// The last rank has no memory for what comes: it is gone to the others, and knows it itself.
void starved(const std::shared_ptr<coord::Coordinator>& coordinator) {
  const std::size_t last = coordinator->size() - 1;
  coord::Session session = coordinator->join();
  coord::Channel channel = session.channel("it");
  run(channel.agree("all are there", "yes"));
  if (coordinator->rank() == last) {
    testing::largest_allocation = 1'000'000;
  }
  const auto begin = std::chrono::steady_clock::now();
  if (coordinator->rank() == last) {
    failure_of(agree_and_hear_large(channel), Errc::closed);
    testing::largest_allocation = SIZE_MAX;
  } else {
    run(channel.agree("the last one starves", "yes"));
    static_cast<void>(channel.broadcast(coordinator->rank() == 0 ? text_of(0) : ""));
    const std::string text = failure_of(session.failed(), Errc::peer_failed);
    require(text.find(fmt::format("rank {}", last)) != std::string::npos, text);
  }
  require(std::chrono::steady_clock::now() - begin < kLostAfter, "nobody waits until a rank is lost");
}

/// MPI_Finalize comes first, while a rank waits for others, and while much is on its way to one that never looks.
void finalize(const std::shared_ptr<coord::Coordinator>& coordinator) {
  coord::Session session = coordinator->join();
  if (coordinator->rank() == 0) {
    (void)session.channel("it").broadcast(std::string(50'000'000, 'x'));
  }
  MPI_Finalize();
  require(session.failure() != nullptr, "it has failed");
  bool is_refused = false;
  try {
    (void)coordinator->join();
  } catch (const Error& error) {
    is_refused = error.code() == Errc::closed;
  }
  require(is_refused, "it is closed");
}

/// As a program that may call MPI by one thread only, which has other things to do.
void lend(const std::shared_ptr<coord::Coordinator>& coordinator) {
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
    require(coordinator->progress(),
            "it needs the thread");  // Also after the last word: that is how it leaves.
  }
  talking.join();
  if (failure) {
    std::rethrow_exception(failure);
  }
}

void save(const std::shared_ptr<coord::Coordinator>& coordinator) {
  const SharedDirectory directory(coordinator);
  Saver saver(coordinator);
  std::string all;
  for (std::size_t rank = 0; rank < coordinator->size(); ++rank) {
    all += fmt::format("{};", rank);
  }
  for (int i = 0; i < 3; ++i) {
    require(saver.save(directory.target()).files == coordinator->size(),
            "all ranks know what all have saved");
    require(saver.load(directory.target()) == all, "each process reads the parts of all");
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

void load(const std::shared_ptr<coord::Coordinator>& coordinator) {
  const SharedDirectory directory(coordinator);
  Saver saver(coordinator);
  saver.save(directory.target());
  for (int i = 0; i < 3; ++i) {
    require(saver.load_together(directory.target()).size() == 2 * coordinator->size(),
            "all ranks read the parts of all");
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

void tell(std::size_t rank, std::chrono::steady_clock::time_point begin, const std::string& text) {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  std::fprintf(stderr, "rank %zu: after %.2f s: %s\n", rank, passed.count(), text.c_str());
}

/// A save that no rank may say is committed; what each says instead. Then they save as if nothing had been.
std::string fail_together(Saver& saver, const std::shared_ptr<coord::Coordinator>& coordinator,
                          const SharedDirectory& directory) {
  std::string text;
  const auto begin = std::chrono::steady_clock::now();
  try {
    saver.save(directory.target());
    throw std::logic_error("it was saved without a rank");
  } catch (const Error& error) {
    text = error.what();
  }
  tell(coordinator->rank(), begin, text);
  do_when_heard([&] { saver.save(directory.target()); });
  require(saver.load(directory.target()).size() == 2 * coordinator->size(), "the next one is whole");
  MPI_Barrier(MPI_COMM_WORLD);
  return text;
}

/// The last rank is stopped while it writes: the others fail without it. It hears so when it goes on, and takes part
/// again.
void save_stopped(const std::shared_ptr<coord::Coordinator>& coordinator) {
  const SharedDirectory directory(coordinator);
  const std::size_t last = coordinator->size() - 1;
  bool is_first = true;
  testing::PartHooks hooks;
  hooks.background = [&](std::size_t rank) {
    if (rank == last && std::exchange(is_first, false)) {
      stop_this_process();
    }
  };
  Saver saver(coordinator, hooks);
  const std::string text = fail_together(saver, coordinator, directory);
  require(coordinator->rank() == last || text.find(fmt::format("rank {} is lost", last)) != std::string::npos,
          text);
}

/// Rank 0 is stopped right before its rename: the others have taken the directory away when it goes on.
void save_root_stopped(const std::shared_ptr<coord::Coordinator>& coordinator) {
  const SharedDirectory directory(coordinator);
  const auto syscalls = std::make_shared<testing::RankSyscalls>();
  bool is_first = true;
  syscalls->before_publication = [&] {
    if (std::exchange(is_first, false)) {
      stop_this_process();
    }
  };
  Saver saver(coordinator, {}, coordinator->rank() == 0 ? syscalls : nullptr);
  const std::string text = fail_together(saver, coordinator, directory);
  require(coordinator->rank() == 0 || text.find("rank 0 is lost") != std::string::npos, text);
  require(text.find("peer failed: peer failed") == std::string::npos, text);
}

/// The last rank's disk is full: the others are told at once.
void save_full(const std::shared_ptr<coord::Coordinator>& coordinator) {
  const SharedDirectory directory(coordinator);
  const std::size_t last = coordinator->size() - 1;
  bool is_first = true;
  testing::PartHooks hooks;
  hooks.background = [&](std::size_t rank) {
    if (rank == last && std::exchange(is_first, false)) {
      throw_errno(ENOSPC, "write", "part");
    }
  };
  Saver saver(coordinator, hooks);
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = fail_together(saver, coordinator, directory);
  require(text.find("No space left on device") != std::string::npos, text);
  require(std::chrono::steady_clock::now() - begin < kLostAfter, "nobody waits until a rank is lost");
}

/// The last rank calls MPI_Finalize while all save: each hears which one.
void save_finalize(const std::shared_ptr<coord::Coordinator>& coordinator) {
  const SharedDirectory directory(coordinator);
  const std::size_t last = coordinator->size() - 1;
  const bool is_last = coordinator->rank() == last;
  const async::Event is_final;
  testing::PartHooks hooks;
  hooks.background = [&](std::size_t) {
    if (is_last) {
      is_final.get();
    }
  };
  const Saver saver(coordinator, hooks);
  const AsyncResponse saving = saver.start(directory.target());
  if (is_last) {
    MPI_Finalize();
    is_final.set();
  }
  const std::string text = failure_of([&] { saving.wait(); }, is_last ? Errc::closed : Errc::peer_failed);
  require(is_last || text.find(fmt::format("rank {}: ", last)) != std::string::npos, text);
  if (!is_last) {
    MPI_Finalize();
  }
}

std::vector<std::string> names_after_recovery(const std::filesystem::path& path) {
  store::recover(io::posix_syscalls(), path, {});
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

/// The last rank has died, or dies in the next save: the others fail, then at once. Recovery leaves so many names.
[[noreturn]] void outlive_last(Saver& saver, const std::shared_ptr<coord::Coordinator>& coordinator,
                               const SharedDirectory& directory, std::size_t left) {
  const auto fail = [&](bool is_found_now, std::chrono::seconds latest) {
    const auto begin = std::chrono::steady_clock::now();
    const std::string text = failure_of([&] { saver.save(directory.target()); }, Errc::peer_lost);
    tell(coordinator->rank(), begin, text);
    require(text.find(fmt::format("rank {} is lost", coordinator->size() - 1)) != std::string::npos, text);
    require(is_found_now || text.find("silent") == std::string::npos, text);
    require(std::chrono::steady_clock::now() - begin < latest, "in time");
  };
  fail(true, 4 * kSoonLostAfter);
  fail(false, kSoonLostAfter);
  fail(false, kSoonLostAfter);
  if (coordinator->rank() == 0) {
    require(names_after_recovery(directory.path()).size() == left, "what has failed leaves nothing");
    std::filesystem::remove_all(directory.path());
  }
  survive(coordinator->rank());
}

/// The last rank dies between two saves: the others find so while they wait for it.
void between_saves_killed(const std::shared_ptr<coord::Coordinator>& coordinator) {
  const SharedDirectory directory(coordinator);
  Saver saver(coordinator);
  saver.save(directory.target());
  if (coordinator->rank() == coordinator->size() - 1) {
    ::raise(SIGKILL);
  }
  outlive_last(saver, coordinator, directory, 1);
}

/// The last rank dies while it is asked what it saves, as in a policy.
void blocking_killed(const std::shared_ptr<coord::Coordinator>& coordinator) {
  const SharedDirectory directory(coordinator);
  int saves = 0;
  testing::PartHooks hooks;
  hooks.blocking = [&](std::size_t rank) {
    if (rank == coordinator->size() - 1 && ++saves == 2) {
      ::raise(SIGKILL);
    }
  };
  Saver saver(coordinator, hooks);
  saver.save(directory.target());
  outlive_last(saver, coordinator, directory, 1);
}

/// The last rank comes to its second save long after the others: it answers for as long, whatever its program does.
void late(const std::shared_ptr<coord::Coordinator>& coordinator) {
  const SharedDirectory directory(coordinator);
  Saver saver(coordinator);
  saver.save(directory.target());
  if (coordinator->rank() == coordinator->size() - 1) {
    std::this_thread::sleep_for(2 * kSoonLostAfter);
  }
  saver.save(directory.target());
  MPI_Barrier(MPI_COMM_WORLD);
}

/// The last rank dies while it writes: the others fail, and nothing is left that recovery does not remove.
void save_killed(const std::shared_ptr<coord::Coordinator>& coordinator) {
  const SharedDirectory directory(coordinator);
  testing::PartHooks hooks;
  hooks.background = [&](std::size_t rank) {
    if (rank == coordinator->size() - 1) {
      ::raise(SIGKILL);
    }
  };
  Saver saver(coordinator, hooks);
  outlive_last(saver, coordinator, directory, 0);
}

/// Rank 0 dies right after its rename: the others find the checkpoint, and make sure that it stays.
void save_root_killed(const std::shared_ptr<coord::Coordinator>& coordinator) {
  const SharedDirectory directory(coordinator);
  const auto syscalls = std::make_shared<testing::RankSyscalls>();
  syscalls->after_publication = [] { ::raise(SIGKILL); };
  Saver saver(coordinator, {}, syscalls);
  saver.save(directory.target());
  require(saver.load(directory.target()).size() == 2 * coordinator->size(), "it is there, whole");
  const auto seen = [&](std::size_t rank) { return directory.path() / fmt::format("seen by {}", rank); };
  testing::write_text(seen(coordinator->rank()), "");
  if (coordinator->rank() == coordinator->size() - 1) {
    for (std::size_t rank = 1; rank < coordinator->size(); ++rank) {
      require(testing::eventually([&] { return std::filesystem::exists(seen(rank)); }), "all find it");
    }
    std::filesystem::remove_all(directory.path());
  }
  survive(coordinator->rank());
}

/// Returns whether somebody is to be found lost.
bool ends_by_silence(const std::string& scene) {
  return scene == "stop" || scene.ends_with("late") || scene.ends_with("stopped") ||
         scene.ends_with("killed");
}

/// Of threads.
int level_for(const std::string& scene) {
  if (scene.starts_with("serialized")) {
    return MPI_THREAD_SERIALIZED;
  }
  return scene.starts_with("lend") || scene == "early" || scene.starts_with("funneled") ? MPI_THREAD_FUNNELED
                                                                                        : MPI_THREAD_MULTIPLE;
}

int main_of(const std::string& scene, std::chrono::seconds time) {
  const std::map<std::string, std::function<void(const std::shared_ptr<coord::Coordinator>&)>> scenes = {
      {"talk", talk},
      {"fail", fail},
      {"stop", stop},
      {"killed", killed},
      {"idle", [time](const auto& coordinator) { idle(coordinator, time); }},
      {"starved", starved},
      {"finalize", finalize},
      {"lend", lend},
      {"save", save},
      {"funneled_save", save},
      {"serialized_save", save},
      {"load", load},
      {"funneled_load", load},
      {"serialized_load", load},
      {"load_shared", testing::load_shared},
      {"apart_load_shared", testing::load_shared},
      {"load_shared_killed", testing::load_shared_killed},
      {"save_finalize", save_finalize},
      {"save_full", save_full},
      {"save_stopped", save_stopped},
      {"save_root_stopped", save_root_stopped},
      {"save_killed", save_killed},
      {"blocking_killed", blocking_killed},
      {"between_saves_killed", between_saves_killed},
      {"apart_between_saves_killed", between_saves_killed},
      {"late", late},
      {"apart_late", late},
      {"save_root_killed", save_root_killed},
  };
  if (scene == "single") {
    testing::be_refused();
    return 0;
  }
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, level_for(scene), &level);
  if (scene == "early" || scene == "lend_to_thrower") {
    scene == "early" ? testing::hear_early() : testing::lend_to_thrower();
    MPI_Finalize();
    return 0;
  }
  testing::is_each_apart = scene.starts_with("apart");
  coord::CoordinatorOptions options;
  options.heartbeat = 100ms;
  options.lost_after = ends_by_silence(scene) ? kSoonLostAfter : kLostAfter;
  options.fan_out = 2;
  {
    const auto coordinator = std::make_shared<coord::Coordinator>(mpi_transport(), options);
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
  const std::chrono::seconds time(argc == 3 ? std::stoi(argv[2]) : 2);
  return cairn::main_of(argc >= 2 ? argv[1] : "", time);
} catch (const std::exception& error) {
  std::fprintf(stderr, "ranks: %s\n", error.what());
  std::_Exit(1);  // mpirun ends the others.
}
