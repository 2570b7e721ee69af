// SPDX-License-Identifier: Apache-2.0
// The heat equation on a plate, by several ranks. Each has some rows of the plate, and a halo: the rows before
// and after its own, which its neighbours compute. All ranks save together. A job that was killed is started
// again, with any number of ranks, goes on from the newest step, and ends with the same bits.
//
//   mpirun -n RANKS heat [ROOT [STEPS [LOST_AT]]]
//
// With LOST_AT the last rank dies at that step, as it would with its machine.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <cairn/base/hash.hpp>
#include <cairn/cairn.hpp>
#include <cairn/coord/coordinator.hpp>
#include <cairn/mpi/transport.hpp>
#include <cairn/training/checkpointer.hpp>
#include <mpi.h>

namespace {

constexpr std::uint64_t kRows = 120;
constexpr std::uint64_t kColumns = 80;
constexpr double kTimeOfStep = 0.2;
constexpr std::chrono::minutes kMost{5};  // For a save, or a load, with the waits for other ranks.

// [strip]
/// The rows [begin, end) of the plate, which a rank computes. Row 0 and the one after the last are the halo.
struct Strip {
  Strip(std::uint64_t rank, std::uint64_t ranks)
      : above(rank == 0 ? MPI_PROC_NULL : static_cast<int>(rank) - 1),
        below(rank + 1 == ranks ? MPI_PROC_NULL : static_cast<int>(rank) + 1),
        begin(kRows * rank / ranks),
        end(kRows * (rank + 1) / ranks),
        cells((rows() + 2) * kColumns) {}

  [[nodiscard]] std::uint64_t rows() const { return end - begin; }
  [[nodiscard]] double* row(std::uint64_t number) { return cells.data() + number * kColumns; }

  int above;  // The neighbours.
  int below;
  std::uint64_t begin;
  std::uint64_t end;
  std::vector<double> cells;
};

/// Returns what a rank saves: its rows, which are a box of the plate, and what all ranks have alike.
cairn::Tree held(Strip& strip, double time) {
  const cairn::Box box({strip.begin, 0}, {strip.rows(), kColumns});
  const cairn::ArrayView rows(strip.row(1), box.extents(), cairn::DType::float64);
  const cairn::ShardedArray plate({kRows, kColumns}, cairn::DType::float64,
                                  {{box, cairn::Array::borrow(rows)}});
  return {{"temperature", plate}, {"time", time}};
}

/// Returns what it loads, into its memory: its rows and their halo, in whatever boxes they were saved.
cairn::AbstractTree wanted(Strip& strip) {
  const std::uint64_t first = strip.begin == 0 ? 0 : strip.begin - 1;
  const std::uint64_t last = std::min(strip.end + 1, kRows);
  const cairn::Box box({first, 0}, {last - first, kColumns});
  const cairn::MutableArrayView rows(strip.row(strip.begin == 0 ? 1 : 0), box.extents(),
                                     cairn::DType::float64);
  cairn::AbstractShardedArray plate({kRows, kColumns}, cairn::DType::float64);
  cairn::AbstractTree state;
  state["temperature"] = plate.place_into(box, rows);
  state["time"] = cairn::as_saved;
  return state;
}
// [/strip]

// [halo]
/// Gives the neighbours this rank's first and last row, and takes theirs.
void exchange_halo(Strip& strip) {
  const auto exchange = [](const double* sent, int to, double* received, int from) {
    MPI_Sendrecv(sent, kColumns, MPI_DOUBLE, to, 0, received, kColumns, MPI_DOUBLE, from, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  };
  exchange(strip.row(1), strip.above, strip.row(strip.rows() + 1), strip.below);
  exchange(strip.row(strip.rows()), strip.below, strip.row(0), strip.above);
}
// [/halo]

/// One step. The plate is hot on its left side, and cold around.
void advance(Strip& strip) {
  std::vector<double> next(strip.cells.size());
  for (std::uint64_t i = 1; i <= strip.rows(); ++i) {
    const double* const here = strip.row(i);
    for (std::uint64_t j = 0; j < kColumns; ++j) {
      const double left = j == 0 ? 100 : here[j - 1];
      const double right = j + 1 == kColumns ? 0 : here[j + 1];
      const double around = left + right + strip.row(i - 1)[j] + strip.row(i + 1)[j];
      next[i * kColumns + j] = here[j] + kTimeOfStep * (around - 4 * here[j]);
    }
  }
  strip.cells.swap(next);
}

void simulate(const std::filesystem::path& root, std::uint64_t steps, std::uint64_t lost_at) {
  // [run]
  const auto job =
      std::make_shared<cairn::coord::Coordinator>(cairn::mpi_transport());  // By all ranks together.
  cairn::ContextOptions options;
  options.coordinator = job;
  const cairn::Context context(options);

  cairn::CheckpointerOptions saving;
  saving.save =
      cairn::save_when::any_of({cairn::save_when::every_steps(20), cairn::save_when::at_steps({steps})});
  saving.keep = cairn::keep::latest(2);
  cairn::Checkpointer run(root, saving, context);

  Strip strip(job->rank(), job->size());
  double time = 0;
  std::uint64_t step = 0;
  cairn::ResumeOptions resuming;
  resuming.recover = true;  // Remove first what a killed job has left.
  resuming.load.deadline = kMost;
  cairn::StepOptions how;
  how.save.deadline = kMost;
  if (auto resumed = run.resume({{"state", wanted(strip)}}, resuming)) {
    time = resumed->loaded.take<cairn::Tree>("state").get<double>("time");
    step = resumed->step;
  }
  if (job->rank() == 0) {
    std::cout << "from step " << step << " on, ranks: " << job->size() << '\n';
  }
  while (step < steps) {
    advance(strip);
    exchange_halo(strip);
    time += kTimeOfStep;
    ++step;
    if (step == lost_at && job->rank() + 1 == job->size()) {
      std::raise(SIGKILL);
    }
    run.save(step, {{"state", held(strip, time)}}, how);  // At most steps nothing. Then the strip may change.
  }
  run.close();  // Waits for the last save, and throws what went wrong with it.
  // [/run]
  if (job->rank() == 0) {
    // As any program loads it: undivided.
    const cairn::Tree whole = run.load(step, {"state"}).take<cairn::Tree>("state");
    const auto bytes = whole.at("temperature").as<cairn::Array>().view().bytes();
    std::cout << "step " << step << ": " << cairn::to_hex(cairn::hash_bytes(bytes)) << '\n';
  }
}

}  // namespace

// [main]
int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  try {
    simulate(argc > 1 ? argv[1] : "example_heat", argc > 2 ? std::stoull(argv[2]) : 200,
             argc > 3 ? std::stoull(argv[3]) : 0);
  } catch (const std::exception& error) {
    std::cerr << "heat: " << error.what() << '\n';
    MPI_Abort(MPI_COMM_WORLD, 1);  // All end, also where one was lost: Errc::peer_lost.
  }
  MPI_Finalize();
  return 0;
}
// [/main]
