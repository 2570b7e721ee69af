// SPDX-License-Identifier: Apache-2.0
// One rank of a job that saves and loads together, of which one rank is killed, or stopped for a while, at a random
// moment.
// Usage: kills ROOT.SEED.killed|ROOT.SEED.stopped. Whatever a rank is told is compared with what is there, at once
// and a second later. Exits with 0 when all was true.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <mpi.h>

#include "cairn/cairn.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/mpi/transport.hpp"
#include "cairn/sharding/shards.hpp"

namespace cairn {
namespace {

using namespace std::chrono_literals;

constexpr int kRounds = 30;                                  // Of a job in which nobody is killed.
constexpr std::chrono::milliseconds kMostUndisturbed{1500};  // Before the rank is disturbed.
constexpr std::chrono::milliseconds kMostStopped{2500};
constexpr std::chrono::milliseconds kLostAfter{1200};
constexpr std::chrono::seconds kJoinTimeout{10};
constexpr std::chrono::seconds kDeadline{60};  // Whoever needs as long hangs.
constexpr std::uint64_t kRows = 400;
constexpr std::uint64_t kColumns = 1000;

void require(bool claim, const std::string& what) {
  if (!claim) {
    throw std::runtime_error(what);
  }
}

/// What happens to this rank, and when.
struct Fate {
  bool is_victim = false;
  bool is_killed = false;
  std::chrono::microseconds delay{0};
  std::chrono::microseconds stopped{0};
};

Fate fate_of(const std::filesystem::path& root, int rank, int size) {
  const std::string stem = root.stem().extension().string();  // ".17" of "kills.17.killed".
  std::mt19937_64 dice(std::stoull(stem.substr(1)));
  const auto below = [&](std::uint64_t most) { return dice() % most; };
  Fate fate;
  fate.is_killed = root.extension() == ".killed";
  fate.is_victim = static_cast<int>(below(static_cast<std::uint64_t>(size))) == rank;
  fate.delay = std::chrono::microseconds(below(1000 * static_cast<std::uint64_t>(kMostUndisturbed.count())));
  fate.stopped = std::chrono::microseconds(below(1000 * static_cast<std::uint64_t>(kMostStopped.count())));
  return fate;
}

/// Has a process of its own do it: who is stopped cannot wake itself.
void begin(const Fate& fate) {
  if (!fate.is_victim) {
    return;
  }
  const pid_t victim = ::getpid();
  if (::fork() == 0) {
    ::usleep(static_cast<useconds_t>(fate.delay.count()));
    ::kill(victim, fate.is_killed ? SIGKILL : SIGSTOP);
    if (!fate.is_killed) {
      ::usleep(static_cast<useconds_t>(fate.stopped.count()));
      ::kill(victim, SIGCONT);
    }
    ::_exit(0);
  }
}

Sharding rows_of(std::uint32_t ranks) {
  return Sharding::of_spec(Mesh({ranks}, {"data"}), {{"data"}});
}

Sharding columns_of(std::uint32_t ranks) {
  return Sharding::of_spec(Mesh({ranks}, {"model"}), {{}, {"model"}});
}

/// What a rank has of an array whose elements are all `step`.
ShardedArray part_of(const Sharding& sharding, std::uint32_t rank, int step) {
  const Shape shape{kRows, kColumns};
  std::vector<Array> locals;
  for (const PlacedBox& placed : sharding.boxes(rank, shape)) {
    Array local(placed.box.extents(), DType::int32);
    for (std::int32_t& element : local.data<std::int32_t>()) {
      element = step;
    }
    locals.push_back(std::move(local));
  }
  return shard(sharding, rank, shape, DType::int32, std::move(locals));
}

class Rank {
 public:
  Rank(std::filesystem::path root, int rank, int size)
      : root_(std::move(root)),
        rank_(static_cast<std::uint32_t>(rank)),
        ranks_(static_cast<std::uint32_t>(size)) {
    coord::CoordinatorOptions beats;
    beats.heartbeat = 100ms;
    beats.lost_after = kLostAfter;
    beats.join_timeout = kJoinTimeout;
    ContextOptions options;
    options.coordinator = std::make_shared<coord::Coordinator>(mpi_transport(), beats);
    context_ = std::make_unique<Context>(options);
  }

  /// Saves a step. Returns whether it was committed.
  bool save_step(int step) {
    Tree tree;
    tree["w"] = part_of(rows_of(ranks_), rank_, step);
    tree["step"] = step;
    SaveOptions options;
    options.deadline = kDeadline;
    try {
      save(path_of(step), tree, options, *context_);
    } catch (const Error& error) {
      note_refusal(step, error);
      return false;
    }
    ++saved_;
    require_there(step);
    return true;
  }

  /// Loads a step, all ranks together. Returns whether it was loaded.
  bool load_step(int step) {
    const Shape shape{kRows, kColumns};
    AbstractTree wanted;
    wanted["w"] = cairn::wanted(AbstractArray{shape, DType::int32}, columns_of(ranks_), rank_);
    wanted["step"] = as_saved;
    LoadOptions options;
    options.together = true;
    options.deadline = kDeadline;
    try {
      const Tree loaded = load(path_of(step), wanted, options, *context_);
      require(loaded.at("step").as<int>() == step, fmt::format("step {} is another one", step));
      require(loaded.at("w").as<ShardedArray>() == part_of(columns_of(ranks_), rank_, step),
              fmt::format("step {} has other values", step));
    } catch (const Error& error) {
      ++not_loaded_;
      require(error.code() != Errc::timed_out, fmt::format("load of step {}: {}", step, error.what()));
      return false;
    }
    ++loaded_;
    return true;
  }

  [[nodiscard]] std::string describe_counts() const {
    return fmt::format("{} saved, {} refused, {} unknown, {} loaded, {} not loaded", saved_, refused_,
                       unknown_, loaded_, not_loaded_);
  }

 private:
  [[nodiscard]] std::filesystem::path path_of(int step) const { return root_ / fmt::format("step-{}", step); }

  void require_there(int step) const {
    require(verify(path_of(step)).is_sound(), fmt::format("step {} was committed, and is not sound", step));
  }

  void require_absent(int step, const std::string& why) const {
    require(!is_checkpoint(path_of(step)), fmt::format("step {} was refused ({}), and is there", step, why));
  }

  void note_refusal(int step, const Error& error) {
    if (error.code() == Errc::commit_unknown) {
      ++unknown_;
      return;
    }
    ++refused_;
    require(error.code() != Errc::timed_out, fmt::format("step {}: {}", step, error.what()));
    require_absent(step, error.what());
    std::this_thread::sleep_for(1s);
    require_absent(step, error.what());
  }

  const std::filesystem::path root_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  std::unique_ptr<Context> context_;
  int saved_ = 0;
  int refused_ = 0;
  int unknown_ = 0;
  int loaded_ = 0;
  int not_loaded_ = 0;
};

/// One of the ranks is killed: the others end with the first operation that it is missing from.
void survive(const std::filesystem::path& root, int rank, int size, const Fate& fate) {
  Rank player(root, rank, size);
  int step = 0;
  while (player.save_step(step) && player.load_step(step)) {
    ++step;
  }
  while (fate.is_victim) {
    ::pause();  // On a busy machine it may have seemed lost before.
  }
  std::fprintf(stderr, "rank %d: survived; %s\n", rank, player.describe_counts().c_str());
  std::fflush(stderr);
  ::_exit(0);  // MPI_Finalize waits for all.
}

/// One is stopped for a while: the others may go on without it, and it takes part again.
void go_on(const std::filesystem::path& root, int rank, int size) {
  {
    Rank player(root, rank, size);
    int undisturbed = 0;
    for (int step = 0; step < kRounds; ++step) {
      const bool is_saved = player.save_step(step);
      undisturbed += player.load_step(step) && is_saved ? 1 : 0;
    }
    require(undisturbed >= kRounds / 2, "a rank that was stopped once takes part in what follows");
    std::fprintf(stderr, "rank %d: went on; %s\n", rank, player.describe_counts().c_str());
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (rank == 0) {
    recover(root);
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
      require(is_checkpoint(entry.path()), entry.path().string() + " was left");
    }
  }
}

int main_of(const std::filesystem::path& root) {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0) {
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(root);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const Fate fate = fate_of(root, rank, size);
  begin(fate);
  try {
    fate.is_killed ? survive(root, rank, size, fate) : go_on(root, rank, size);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: LIE: %s\n", rank, error.what());
    std::_Exit(1);  // mpirun ends the others.
  }
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) try {
  return cairn::main_of(argc == 2 ? argv[1] : "");
} catch (const std::exception& error) {
  std::fprintf(stderr, "kills: %s\n", error.what());
  std::_Exit(1);
}
