// SPDX-License-Identifier: Apache-2.0
// One rank of trainings under mpirun that end right after a save. Usage: last_steps funneled|serialized|multiple ROOT.
// Exits with 0 when all ranks have saved what they were told to, however they waited for it.
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mpi.h>

#include "cairn/cairn.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/mpi/transport.hpp"
#include "cairn/sharding/shards.hpp"
#include "cairn/training/checkpointer.hpp"
#include "cairn/training/step_options.hpp"

#include "mpi/require.hpp"

namespace cairn {
namespace {

using namespace std::chrono_literals;
using testing::require;
using Steps = std::vector<std::uint64_t>;

constexpr std::uint64_t kRows = 64;  // Of each rank.
constexpr std::uint64_t kColumns = 1024;

class Rank {
 public:
  Rank(std::filesystem::path root, std::shared_ptr<coord::Coordinator> coordinator)
      : root_(std::move(root)), coordinator_(std::move(coordinator)) {}

  [[nodiscard]] std::filesystem::path root() const { return root_; }
  [[nodiscard]] std::size_t number() const { return coordinator_->rank(); }
  [[nodiscard]] std::size_t size() const { return coordinator_->size(); }
  coord::Coordinator& coordinator() const { return *coordinator_; }

  [[nodiscard]] Context context() const {
    ContextOptions options;
    options.coordinator = coordinator_;
    return Context(options);
  }

  /// What hangs ends soon.
  static CheckpointerOptions options() {
    CheckpointerOptions options;
    options.close_timeout = 20s;
    return options;
  }

  StepResponse save(Checkpointer& run, std::uint64_t step) const {
    StepOptions how;
    how.save.deadline = 20s;
    const auto ranks = std::uint64_t{size()};
    const Sharding rows = Sharding::of_spec(Mesh({ranks}, {"data"}), {{"data"}});
    const Array local = Array::zeros({kRows, kColumns}, DType::float64);
    const Tree state = {
        {"step", step},
        {"weights", shard(rows, static_cast<std::uint32_t>(number()), {ranks * kRows, kColumns}, local)}};
    return run.save(step, {{"state", state}}, how);
  }

  /// As at the sum of gradients.
  void meet() const {
    coordinator_->progress();
    MPI_Barrier(MPI_COMM_WORLD);
  }

 private:
  const std::filesystem::path root_;
  const std::shared_ptr<coord::Coordinator> coordinator_;
};

void close(const Rank& rank) {
  const Context context = rank.context();
  Checkpointer run(rank.root(), Rank::options(), context);
  rank.save(run, 1);
  run.close();
}

void wait(const Rank& rank) {
  const Context context = rank.context();
  Checkpointer run(rank.root(), Rank::options(), context);
  rank.save(run, 1);
  run.wait();
}

void destroy(const Rank& rank) {
  const Context context = rank.context();
  Checkpointer run(rank.root(), Rank::options(), context);
  rank.save(run, 1);
}

void retain_and_resume(const Rank& rank) {
  const Context context = rank.context();
  CheckpointerOptions options = Rank::options();
  options.keep = keep::latest(1);
  {
    Checkpointer run(rank.root(), options, context);
    rank.save(run, 1);
    rank.save(run, 2);  // Waits for the one before.
  }
  Checkpointer run(rank.root(), options, context);
  const std::optional<Resumed> resumed = run.resume({{"state"}});
  require(resumed && resumed->step == 2, "goes on from the last step");
  rank.save(run, 3);
  run.close();
}

void be_preempted(const Rank& rank) {
  const Context context = rank.context();
  const PreemptionGuard guard;
  CheckpointerOptions options = Rank::options();
  options.save = save_when::any_of({save_when::continuously(1ms), save_when::preempted()});
  options.keep = keep::latest(1);
  options.preemption = &guard;
  Checkpointer run(rank.root(), options, context);
  std::uint64_t step = 1;
  for (; step < 400 && !run.is_preempted(); ++step) {
    rank.meet();
    if (step == 50 && rank.number() == rank.size() - 1) {
      std::raise(SIGTERM);
    }
    rank.save(run, step);
  }
  require(run.is_preempted(), "the training was to end");
}

void remove(const Rank& rank) {
  const Context context = rank.context();
  Checkpointer run(rank.root(), Rank::options(), context);
  const StepResponse saving = rank.save(run, 1);
  if (rank.number() == 0) {
    remove_checkpoint(rank.root() / "1", {}, context);  // Once it is there.
  }
  saving.wait();
}

struct Scene {
  std::string name;
  std::function<void(const Rank& rank)> play;
  std::size_t left;  ///< Steps.
};

void play_all(const std::filesystem::path& root) {
  coord::CoordinatorOptions beats;
  beats.heartbeat = 100ms;
  const auto coordinator = std::make_shared<coord::Coordinator>(mpi_transport(), beats);
  for (const Scene& scene : {Scene{"close", close, 1}, Scene{"wait", wait, 1}, Scene{"destroy", destroy, 1},
                             Scene{"retain", retain_and_resume, 1}, Scene{"preempt", be_preempted, 1},
                             Scene{"remove", remove, 0}}) {
    const Rank rank(root / scene.name, coordinator);
    const auto begin = std::chrono::steady_clock::now();
    scene.play(rank);
    rank.meet();
    const Steps steps = *StepDirectory(rank.root(), {}, rank.context()).steps();
    require(steps.size() == scene.left, fmt::format("{}: these steps are left: {}", scene.name, steps));
    require(std::chrono::steady_clock::now() - begin < 15s, scene.name + " takes too long");
    rank.meet();
  }
}

int main_of(const std::string& level, const std::filesystem::path& root) {
  int given = 0;
  MPI_Init_thread(nullptr, nullptr,
                  level == "funneled"     ? MPI_THREAD_FUNNELED
                  : level == "serialized" ? MPI_THREAD_SERIALIZED
                                          : MPI_THREAD_MULTIPLE,
                  &given);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(root);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  try {
    play_all(root);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    std::filesystem::remove_all(root);
  }
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  return argc == 3 ? cairn::main_of(argv[1], argv[2]) : 2;
}
