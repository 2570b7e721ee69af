// SPDX-License-Identifier: Apache-2.0
// The whole way of a save, from the public interface down.
#include "crash/api_scenes.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cairn/api/context.hpp"
#include "cairn/api/load.hpp"
#include "cairn/api/save.hpp"

#include "io/internal/syscalls.hpp"
#include "store/internal/committed_directory.hpp"

namespace cairn::crash {
namespace {

constexpr const char* kSaved = "step";
constexpr std::size_t kMostFileBytes = 1 << 20;

Context make_context(SimulatedProcess& process) {
  ContextOptions options;
  options.engine = io::EngineKind::threads;
  options.worker_threads = 1;
  options.staging_bytes = std::size_t{16} << 20;
  options.syscalls = std::shared_ptr<io::Syscalls>(std::shared_ptr<void>(), &process);  // The scene owns it.
  return Context(std::move(options));
}

nlohmann::json settings(int step) {
  return {{"step", step}, {"note", "a crash may come at any time"}};
}

void save_step(SimulatedProcess& process, int step) {
  const Context context = make_context(process);
  const std::vector<float> weights(700, 0.5F + static_cast<float>(step));
  const Tree model = {{"weights", weights}, {"step", step}};
  const nlohmann::json config = settings(step);
  SaveOptions options;
  options.overwrite = true;
  save_checkpointables(path_of(kSaved), {{"model", model}, {"config", config}}, options, context);
  Loaded loaded = load_checkpointables(path_of(kSaved), {}, {}, context);
  if (loaded.take<nlohmann::json>("config") != config) {
    throw std::runtime_error("what is loaded right after the save is not what was saved");
  }
}

/// The files that such a save makes.
Content content_of(int step) {
  SimulatedMachine machine;
  machine.disk().make(kRootInode, "run", io::FileKind::directory);
  SimulatedProcess process(machine);
  save_step(process, step);
  const auto checkpoint = store::CommittedDirectory::open(process, path_of(kSaved));
  Content content;
  for (const store::FileEntry& file : checkpoint.manifest().files) {
    content[file.path] = checkpoint.read_verified(file.path, kMostFileBytes);
  }
  return content;
}

const Content& first_content() {
  static const Content content = content_of(1);
  return content;
}

const Content& second_content() {
  static const Content content = content_of(2);
  return content;
}

}  // namespace

std::vector<Scene> api_scenes() {
  const auto save_first = [](SimulatedMachine& machine) {
    SimulatedProcess process(machine);
    save_step(process, 1);
  };
  const auto save_second = [](SimulatedMachine& machine) {
    SimulatedProcess process(machine);
    save_step(process, 2);
    machine.promise(kSaved, {&second_content()});
  };
  const auto nothing = [](SimulatedMachine&) {};
  const auto none_or_second = [] { return Promise{{kSaved, {nullptr, &second_content()}}}; };
  const auto first_or_second = [] { return Promise{{kSaved, {&first_content(), &second_content()}}}; };
  return {{"save_checkpointables", true, true, nothing, none_or_second, save_second},
          {"save_checkpointables over an old one", true, true, save_first, first_or_second, save_second}};
}

}  // namespace cairn::crash
