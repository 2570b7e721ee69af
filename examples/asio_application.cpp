// SPDX-License-Identifier: Apache-2.0
// A program with an io_context of its own: it computes, saves and goes on computing, all in one thread.
#include <cmath>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cairn/cairn.hpp>

#include "own_folder.hpp"

namespace asio = boost::asio;

struct Simulation {
  std::vector<double> cells = std::vector<double>(100'000, 1.0);
  std::int64_t step = 0;
  bool is_paused = false;
};

// outlives: main keeps the simulation until its io_context has run out of work
asio::awaitable<void> simulate(Simulation& simulation, std::int64_t steps) {
  while (simulation.step < steps) {
    if (!simulation.is_paused) {
      for (double& cell : simulation.cells) {
        cell *= 1.0001;
      }
      ++simulation.step;
    }
    co_await asio::post(asio::use_awaitable);  // Lets the others run.
  }
}

// [checkpoint]
// outlives: as above
asio::awaitable<void> checkpoint(Simulation& simulation, std::filesystem::path path) {
  const cairn::Tree state = {{"cells", simulation.cells}, {"step", simulation.step}};
  simulation.is_paused = true;
  auto saving = cairn::save_async(path, state, cairn::return_when_accepted);  // Blocks nothing.
  co_await saving.staged();  // Resumed here, on this program's own thread.
  simulation.is_paused = false;
  const cairn::SaveResult result = co_await saving.committed();
  std::cout << result.path.string() << " is durable; meanwhile the simulation came to step "
            << simulation.step << '\n';
}
// [/checkpoint]

// outlives: as above
asio::awaitable<void> checkpoint_often(Simulation& simulation, std::int64_t steps) {
  for (int number = 1; simulation.step < steps; ++number) {
    co_await checkpoint(simulation, "run/" + std::to_string(number));
  }
}

void rethrow(std::exception_ptr failure) {
  if (failure) {
    std::rethrow_exception(failure);
  }
}

int main() try {
  constexpr std::int64_t kSteps = 500;
  enter_own_folder("asio_application");
  Simulation simulation;
  asio::io_context io;
  asio::co_spawn(io, simulate(simulation, kSteps), rethrow);
  asio::co_spawn(io, checkpoint_often(simulation, kSteps), rethrow);
  io.run();

  const cairn::Tree first = cairn::load("run/1");
  const double expected = std::pow(1.0001, static_cast<double>(first.get<std::int64_t>("step")));
  const double loaded = first.get<std::vector<double>>("cells").front();
  std::cout << "step " << first.get<std::int64_t>("step") << ": " << loaded << '\n';
  return std::abs(loaded - expected) < 1e-9 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
