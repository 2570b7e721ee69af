// SPDX-License-Identifier: Apache-2.0
// One rank of a training under mpirun. Usage: training ROOT. The clocks of ranks differ by an hour each; the last one
// is sent SIGTERM at step 150. Exits with 0 when all ranks have saved the same steps, and have gone on from the same
// one.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <mpi.h>

#include "cairn/cairn.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/mpi/transport.hpp"
#include "cairn/training/checkpointer.hpp"
#include "cairn/training/step_options.hpp"

#include "base/internal/clock.hpp"

namespace cairn {
namespace {

using namespace std::chrono_literals;

/// So many hours ahead.
class ClockAhead final : public Clock {
 public:
  explicit ClockAhead(int hours) : ahead_(hours) {}

  [[nodiscard]] std::chrono::system_clock::time_point now() const override {
    return system_clock().now() + ahead_;
  }
  [[nodiscard]] std::chrono::steady_clock::time_point steady_now() const override {
    return system_clock().steady_now();
  }

 private:
  const std::chrono::hours ahead_;
};

void require(bool claim, const std::string& what) {
  if (!claim) {
    throw std::runtime_error(what);
  }
}

/// All ranks must have the same.
void require_alike(const std::string& mine, const std::string& what) {
  int size = static_cast<int>(mine.size());
  MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::string of_root = mine;
  of_root.resize(static_cast<std::size_t>(size));
  MPI_Bcast(of_root.data(), size, MPI_CHAR, 0, MPI_COMM_WORLD);
  require(mine == of_root, fmt::format("{}: rank 0 has '{}', this one '{}'", what, of_root, mine));
}

void train(const std::filesystem::path& root, int rank, int size) {
  coord::CoordinatorOptions beats;
  beats.heartbeat = 100ms;
  ContextOptions options;
  options.coordinator = std::make_shared<coord::Coordinator>(mpi_transport(), beats);
  options.clock = std::make_shared<ClockAhead>(rank);
  const Context context(options);
  const PreemptionGuard guard;
  CheckpointerOptions how;
  how.save =
      save_when::any_of({save_when::every_steps(40), save_when::continuously(15ms), save_when::preempted()});
  how.keep = keep::latest(2);
  how.preemption = &guard;
  std::string saved;
  {
    Checkpointer run(root, how, context);
    require(!run.resume(), "there is nothing to go on from");
    for (std::uint64_t step = 1; step < 400 && !run.is_preempted(); ++step) {
      MPI_Barrier(MPI_COMM_WORLD);  // As the sum of gradients.
      std::this_thread::sleep_for(1ms);
      if (step == 150 && rank == size - 1) {
        std::raise(SIGTERM);
      }
      const Tree state = {{"step", step}};
      if (run.save(step, {{"state", state}})) {
        saved += fmt::format(" {}", step);
      }
    }
    require(run.is_preempted(), "the training was to end");
    run.close();
  }
  require_alike(saved, "saved steps");
  require(saved.size() > 10, fmt::format("few steps are saved:{}", saved));
  MPI_Barrier(MPI_COMM_WORLD);
  auto resumed = Checkpointer(root, how, context).resume({{"state"}});
  require(resumed.has_value(), "there is something to go on from");
  const auto step = resumed->loaded.take<Tree>("state").get<std::uint64_t>("step");
  require_alike(std::to_string(step), "the step to go on from");
  require(saved.ends_with(fmt::format(" {}", step)), fmt::format("{} is not the last of{}", step, saved));
  require(StepDirectory(root, {}, context).steps()->size() == 2, "what the policy does not keep is removed");
  if (rank == 0) {
    std::printf("saved%s\n", saved.c_str());
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
  }
  MPI_Barrier(MPI_COMM_WORLD);
  try {
    train(root, rank, size);
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
  return argc == 2 ? cairn::main_of(argv[1]) : 2;
}
