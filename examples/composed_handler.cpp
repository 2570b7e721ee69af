// SPDX-License-Identifier: Apache-2.0
// A handler of a simulation that hands its parameters to the handler of trees, writes particles as they lie in
// memory, and keeps a log whose size it does not know.
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cairn/cairn.hpp>

#include "own_folder.hpp"

namespace {

struct Particle {
  float position[3];
  float velocity[3];
};

// [type]
class Simulation {
 public:
  cairn::Tree parameters;
  std::vector<Particle> particles;
  std::vector<std::string> events;
};

struct AbstractSimulation {
  cairn::AbstractTree parameters;
  std::uint64_t particles = 0;
};
// [/type]

class SimulationHandler final : public cairn::CheckpointableHandler<Simulation, AbstractSimulation> {
 public:
  std::string_view id() const noexcept override { return "example.simulation/1"; }

  // [save]
  // outlives: the caller keeps the simulation during the blocking phase, which is this coroutine
  cairn::Awaitable<cairn::Background<>> save(cairn::SaveContext context,
                                             const Simulation& value) const override {
    std::vector<cairn::SourcePiece> pieces(
        1);  // Copied during this phase, or not at all with Snapshot::borrow.
    pieces[0].size_bytes = value.particles.size() * sizeof(Particle);
    pieces[0].data = reinterpret_cast<const std::byte*>(value.particles.data());
    const std::uint64_t bytes = pieces[0].size_bytes;

    std::vector<cairn::Background<>> parts;
    parts.push_back(co_await cairn::TreeHandler().save(context, value.parameters));
    parts.push_back(co_await context.write_pieces("particles.bin", std::move(pieces), bytes));
    parts.push_back(write_events(context.stream_file("logs/events.txt"), value.events));
    co_return cairn::async::when_all(std::move(parts));  // All at once; the first failure stops the others.
  }
  // [/save]

  // [load]
  cairn::Awaitable<cairn::Background<Simulation>> load(
      cairn::LoadContext context, std::optional<AbstractSimulation> wanted) const override {
    std::optional<cairn::AbstractTree> parameters;
    if (wanted) {
      parameters = std::move(wanted->parameters);
    }
    cairn::Background<cairn::Tree> tree = co_await cairn::TreeHandler().load(context, std::move(parameters));
    co_return read(std::move(context), std::move(tree));
  }

  cairn::Awaitable<AbstractSimulation> metadata(cairn::LoadContext context) const override {
    AbstractSimulation stored;
    stored.particles = context.file_bytes("particles.bin").value_or(0) / sizeof(Particle);
    stored.parameters = co_await cairn::TreeHandler().metadata(std::move(context));
    co_return stored;
  }
  // [/load]

 private:
  // [stream]
  static cairn::Background<> write_events(cairn::FileStream file, std::vector<std::string> events) {
    for (const std::string& event : events) {
      co_await file.write(event);
      co_await file.write("\n");
    }
    co_await file.finish();
  }
  // [/stream]

  // [read]
  static cairn::Background<Simulation> read(cairn::LoadContext context, cairn::Background<cairn::Tree> tree) {
    Simulation loaded;
    loaded.particles.resize(context.file_bytes("particles.bin").value_or(0) / sizeof(Particle));
    std::vector<cairn::DestinationPiece> pieces(1);
    pieces[0].size_bytes = loaded.particles.size() * sizeof(Particle);
    pieces[0].data = reinterpret_cast<std::byte*>(loaded.particles.data());

    std::vector<cairn::Background<>> parts;
    parts.push_back(context.read_pieces("particles.bin", std::move(pieces)));
    parts.push_back(read_events(context, loaded));
    co_await cairn::async::when_all(std::move(parts));
    loaded.parameters = co_await std::move(tree);
    co_return loaded;
  }
  // [/read]

  // outlives: `read`, which awaits this, keeps what is loaded
  static cairn::Background<> read_events(cairn::LoadContext context, Simulation& loaded) {
    const std::string text = co_await context.read_file("logs/events.txt");
    // [run]
    const auto split = [&loaded, &text] {  // What computes long gets a thread of its own.
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) {
        loaded.events.push_back(line);
      }
    };
    co_await context.run(split);
    // [/run]
  }
};

}  // namespace

// [family]
/// Anything with a temperature is saved as a simulation.
struct Furnace {
  double temperature = 0;
};

template <>
struct cairn::HandledAs<Furnace> {
  using type = Simulation;
  static Simulation convert(const Furnace& furnace) {
    Simulation simulation;
    simulation.parameters = {{"temperature", furnace.temperature}};
    return simulation;
  }
  static Furnace restore(const Simulation& simulation) {
    return Furnace{simulation.parameters.get<double>("temperature")};
  }
};
// [/family]

int main() {
  enter_own_folder("composed_handler");
  cairn::register_handler<SimulationHandler>();
  Simulation simulation;
  simulation.parameters = {{"step_seconds", 0.5}, {"weights", std::vector<float>{1, 2, 3}}};
  simulation.particles.resize(1000, Particle{{1, 2, 3}, {0, 0, 1}});
  simulation.events = {"begun", "warmed up"};
  cairn::save_checkpointables("run/1", {{"simulation", simulation}, {"furnace", Furnace{1200.5}}});

  cairn::Loaded loaded = cairn::load_checkpointables("run/1");
  const auto again = loaded.take<Simulation>("simulation");
  const auto furnace = loaded.take<Furnace>("furnace");
  const auto stored = cairn::checkpointables_metadata("run/1").at("simulation").as<AbstractSimulation>();
  if (again.parameters != simulation.parameters || again.particles.size() != stored.particles ||
      again.particles[999].velocity[2] != 1 || again.events != simulation.events ||
      furnace.temperature != 1200.5) {
    std::cerr << "something was lost\n";
    return 1;
  }
  std::cout << stored.particles << " particles, " << again.events.size() << " events, a furnace at "
            << furnace.temperature << " degrees\n";
  return 0;
}
