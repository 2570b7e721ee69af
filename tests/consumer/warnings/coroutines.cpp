// SPDX-License-Identifier: Apache-2.0
// Coroutines as users write them: a handler that hands a part of itself to another one, and a program that awaits
// saves and loads.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <cairn/cairn.hpp>
#include <cairn/handlers/tree_handler.hpp>

namespace user {

struct Simulation {
  cairn::Tree params;
  std::string log;
};

struct AbstractSimulation {
  cairn::AbstractTree params;
};

class SimulationHandler final : public cairn::CheckpointableHandler<Simulation, AbstractSimulation> {
 public:
  std::string_view id() const noexcept override { return "user.simulation/1"; }

  // outlives: the caller keeps the simulation during the blocking phase, which is this coroutine
  cairn::Awaitable<cairn::Background<>> save(cairn::SaveContext context,
                                             const Simulation& simulation) const override {
    std::vector<cairn::Background<>> parts;
    parts.push_back(co_await cairn::TreeHandler().save(context, simulation.params));
    parts.push_back(context.write_file("a.log", simulation.log));
    parts.push_back(context.write_file("b.log", simulation.log));
    co_return cairn::async::when_all(std::move(parts));
  }

  cairn::Awaitable<cairn::Background<Simulation>> load(cairn::LoadContext context,
                                                       std::optional<AbstractSimulation>) const override {
    cairn::Background<cairn::Tree> tree = co_await cairn::TreeHandler().load(context, std::nullopt);
    co_return read(std::move(context), std::move(tree));
  }

  cairn::Awaitable<AbstractSimulation> metadata(cairn::LoadContext context) const override {
    auto tree = co_await cairn::TreeHandler().metadata(std::move(context));
    co_return AbstractSimulation{std::move(tree)};
  }

 private:
  static cairn::Background<Simulation> read(cairn::LoadContext context, cairn::Background<cairn::Tree> tree) {
    std::vector<cairn::Background<std::string>> reads;
    reads.push_back(context.read_file("a.log"));
    reads.push_back(context.read_file("b.log"));
    auto texts = co_await cairn::async::when_all(std::move(reads));
    Simulation simulation;
    simulation.params = co_await std::move(tree);
    simulation.log = texts[0];
    co_return simulation;
  }
};

boost::asio::awaitable<std::size_t> use() {
  const cairn::Tree first = {{"step", 1}};
  auto saving = cairn::save_async("run/1", first, cairn::return_when_accepted);
  co_await saving.staged();
  co_await saving.committed();
  std::size_t found = (co_await cairn::list_checkpoints_async("run")).size();
  const auto latest = co_await cairn::latest_checkpoint_async("run");
  found += latest && co_await cairn::is_checkpoint_async(latest->path);
  auto loaded = co_await cairn::load_latest_async("run");
  found += loaded->loaded.take<cairn::Tree>("state").get<std::size_t>("step");
  const auto metadata = co_await cairn::checkpointables_metadata_async("run/1");
  found += metadata.items.size();
  cairn::Tree tree = {{"step", 0}};
  auto into = cairn::load_into_async("run/1", tree);
  co_await into.loaded();
  const auto recovered = co_await cairn::recover_async("run");
  co_return found + recovered.entries.size();
}

std::size_t run() {
  cairn::register_handler<SimulationHandler>();
  boost::asio::io_context io;
  auto found = boost::asio::co_spawn(io, use(), boost::asio::use_future);
  io.run();
  return found.get();
}

}  // namespace user

int main() {
  return user::run() > 0 ? 0 : 1;
}
