// SPDX-License-Identifier: Apache-2.0
#include "crash/scenes.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "async/internal/thread_pool.hpp"
#include "crash/api_scenes.hpp"
#include "crash/joint_scenes.hpp"
#include "io/internal/chunk_hash.hpp"
#include "io/internal/direct.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/remove_checkpoint.hpp"
#include "support/sync_wait.hpp"

namespace cairn::crash {
namespace {

constexpr const char* kTarget = "step";
constexpr std::uint64_t kSchedules = 4;  // Of two programs at once.

std::string noise(std::uint64_t seed, std::size_t size) {
  std::mt19937_64 random(seed);
  std::string bytes(size, '\0');
  std::generate(bytes.begin(), bytes.end(), [&random] { return static_cast<char>(random()); });
  return bytes;
}

Content make_content(std::uint64_t seed) {
  return {{"model/weights", noise(seed, 5300)},
          {"model/index", noise(seed + 1, 700)},
          {"state/data", noise(seed + 2, 90)}};
}

store::StagedOptions options_of(const SimulatedProcess& process, bool overwrite) {
  store::StagedOptions options;
  options.overwrite = overwrite;
  options.random = process.machine().random();
  return options;
}

/// Runs a task of the library to its end.
void finish(Background<> task) {
  // One for each program: one that waits for its turn must not keep another from running.
  thread_local async::ThreadPool pool(1, "crash");
  testing::sync_wait(async::make_strand(pool.executor()), std::move(task));
}

store::StagedDirectory stage(SimulatedEngine& engine, const std::string& target, const Content& content,
                             store::StagedOptions options) {
  store::StagedDirectory staged = store::StagedDirectory::create(engine, path_of(target), std::move(options));
  std::set<std::string> directories;
  for (const auto& [path, text] : content) {
    const std::string directory = path.substr(0, path.find('/'));
    if (directories.insert(directory).second) {
      staged.make_directory(directory);
    }
    write_file(staged, path, text);
  }
  return staged;
}

void save_here(SimulatedMachine& machine, const Content& content, bool overwrite = false) {
  SimulatedProcess process(machine);
  save(process, kTarget, content, overwrite);
}

void remove_here(SimulatedMachine& machine) {
  SimulatedProcess process(machine);
  store::remove_checkpoint(process, path_of(kTarget), machine.random());
}

/// Runs two programs in planned turns. A failure of either is thrown when both have ended.
void run_both(Turns& turns, const std::function<void()>& first, const std::function<void()>& second) {
  std::exception_ptr failures[2];
  const auto run = [&turns, &failures](int number, const std::function<void()>& program) {
    try {
      program();
    } catch (...) {
      failures[number] = std::current_exception();
    }
    turns.leave(number);
  };
  std::thread other([&] { run(1, second); });
  run(0, first);
  other.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
}

/// Bursts of up to `longest` system calls.
std::vector<int> random_bursts(std::uint64_t seed, int longest) {
  std::mt19937_64 random(seed);
  std::vector<int> bursts(200);
  std::generate(bursts.begin(), bursts.end(),
                [&] { return 1 + static_cast<int>(random() % static_cast<std::uint64_t>(longest)); });
  return bursts;
}

void save_old(SimulatedMachine& machine) {
  save_here(machine, old_content());
}

void save_and_promise(SimulatedMachine& machine, bool overwrite) {
  save_here(machine, new_content(), overwrite);
  machine.promise(kTarget, {&new_content()});
}

void save_fresh(SimulatedMachine& machine) {
  save_and_promise(machine, false);
}

void overwrite(SimulatedMachine& machine) {
  save_and_promise(machine, true);
}

void remove_and_promise(SimulatedMachine& machine) {
  remove_here(machine);
  machine.promise(kTarget, {nullptr});
}

void abandon(SimulatedMachine& machine) {
  SimulatedProcess process(machine);
  SimulatedEngine engine(process);
  stage(engine, kTarget, new_content(), options_of(process, true));  // Dropped at once.
}

/// The save is stopped when all of it is on the disk.
void give_up(SimulatedMachine& machine) {
  SimulatedProcess process(machine);
  store::StagedOptions options = options_of(process, false);
  options.may_publish = [] { return false; };
  try {
    save_with(process, kTarget, new_content(), options);
    throw std::runtime_error("a save that was stopped has committed");
  } catch (const Error& error) {
    if (error.code() != Errc::cancelled) {
      throw;
    }
  }
  machine.promise(kTarget, {nullptr});
}

/// The old checkpoint under a temporary name, and nothing in its place.
void prepare_displaced(SimulatedMachine& machine) {
  save_old(machine);
  SimulatedDisk& disk = machine.disk();
  disk.rename(*disk.find(kRootInode, "run"), kTarget, *disk.find(kRootInode, "run"),
              std::string(".tmp-step-01234567-89ab-4cde-8f01-23456789abcd"));
}

void recover_and_promise(SimulatedMachine& machine) {
  SimulatedProcess process(machine);
  store::recover(process, kRunPath);
  machine.promise(kTarget, {&old_content()});
}

/// The new checkpoint, and the old one under the temporary name that the swap has given it.
void prepare_half_overwritten(SimulatedMachine& machine) {
  save_old(machine);
  machine.record();
  save_here(machine, new_content(), true);
  const auto is_unmarked = [](const Moment& moment) {
    return moment.operation.starts_with("unlink") && moment.operation.ends_with("/.owner");
  };
  const auto found = std::find_if(machine.moments().begin(), machine.moments().end(), is_unmarked);
  machine.disk() = SimulatedDisk(found->disk);
}

/// The new checkpoint as a later generation beside the old one, as after a crash just before that is removed.
void prepare_two_generations(SimulatedMachine& machine) {
  save_old(machine);
  machine.has_exchange = false;
  machine.record();
  save_here(machine, new_content(), true);
  const auto is_published = [](const Moment& moment) {
    return moment.disk.find(*moment.disk.find(kRootInode, "run"), std::string(kTarget) + ".g2").has_value();
  };
  const auto found = std::find_if(machine.moments().begin(), machine.moments().end(), is_published);
  machine.disk() = SimulatedDisk(found->disk);
}

void prepare_second_generation(SimulatedMachine& machine) {
  save_here(machine, new_content());
  machine.has_exchange = false;
  save_here(machine, old_content(), true);
}

/// Two programs save different checkpoints into one directory.
void save_two(SimulatedMachine& machine, std::uint64_t seed) {
  Turns turns(static_cast<int>(seed % 2), random_bursts(seed, 12));
  SimulatedProcess left(machine, &turns, 0);
  SimulatedProcess right(machine, &turns, 1);
  const auto save_left = [&] {
    save(left, "left", new_content(), true);
    machine.promise("left", {&new_content()});
  };
  const auto save_right = [&] {
    save(right, "right", new_content(), false);
    machine.promise("right", {&new_content()});
  };
  run_both(turns, save_left, save_right);
}

/// Two programs save the same checkpoint: one wins, and the other says so.
void save_rivals(SimulatedMachine& machine, std::uint64_t seed) {
  Turns turns(static_cast<int>(seed % 2), random_bursts(seed, 12));
  SimulatedProcess one(machine, &turns, 0);
  SimulatedProcess other(machine, &turns, 1);
  std::atomic<int> winners{0};
  const auto compete = [&](SimulatedProcess& process, const Content& content) {
    try {
      save(process, kTarget, content, false);
      ++winners;
      machine.promise(kTarget, {&content});
    } catch (const Error& error) {
      if (error.code() != Errc::already_exists) {
        throw;
      }
    }
  };
  run_both(
      turns, [&] { compete(one, old_content()); }, [&] { compete(other, new_content()); });
  if (winners != 1) {
    throw std::runtime_error(fmt::format("{} of two rivals have won", winners.load()));
  }
}

/// A recovery runs beside a save that overwrites.
void save_beside_recovery(SimulatedMachine& machine, Turns& turns) {
  SimulatedProcess saver(machine, &turns, 0);
  SimulatedProcess recoverer(machine, &turns, 1);
  const auto overwrite = [&] {
    save(saver, kTarget, new_content(), true);
    machine.promise(kTarget, {&new_content()});
  };
  run_both(turns, overwrite, [&] { store::recover(recoverer, kRunPath); });
}

void save_beside_random_recovery(SimulatedMachine& machine, std::uint64_t seed) {
  Turns turns(0, random_bursts(seed, 30));
  save_beside_recovery(machine, turns);
}

/// A recovery runs beside a removal.
void remove_beside_recovery(SimulatedMachine& machine, std::uint64_t seed) {
  Turns turns(static_cast<int>(seed % 2), random_bursts(seed, 20));
  SimulatedProcess remover(machine, &turns, 0);
  SimulatedProcess recoverer(machine, &turns, 1);
  const auto remove = [&] {
    store::remove_checkpoint(remover, path_of(kTarget), machine.random());
    machine.promise(kTarget, {nullptr});
  };
  run_both(turns, remove, [&] { store::recover(recoverer, kRunPath); });
}

/// Counts the calls of a program up to the moment at which it swaps two names.
class CallsToExchange final : public Saboteur {
 public:
  explicit CallsToExchange(const SimulatedProcess& process) : process_(process) {}

  int run(const Operation& operation, std::function<int()> effect) override {
    if (operation.change == Change::rename && operation.mode == io::RenameMode::exchange) {
      calls_ = process_.calls();
    }
    return effect();
  }

  [[nodiscard]] int calls() const { return calls_; }

 private:
  const SimulatedProcess& process_;
  int calls_ = 0;
};

int calls_to_exchange(const SimulatedMachine& machine) {
  SimulatedMachine rehearsal(machine.disk());
  SimulatedProcess process(rehearsal);
  CallsToExchange counter(process);
  rehearsal.saboteur = &counter;
  save(process, kTarget, new_content(), true);
  return counter.calls();
}

/// The save swaps names when the recovery has synced the directory, and goes on when the recovery has ended.
void save_within_recovery(SimulatedMachine& machine) {
  constexpr int kCallsToFirstSync = 4;  // open, statx of COMMIT, statfs, fsync.
  Turns turns(1, {kCallsToFirstSync, calls_to_exchange(machine), 1000});
  save_beside_recovery(machine, turns);
}

/// A whole recovery runs just before the save swaps names.
void recover_within_save(SimulatedMachine& machine) {
  Turns turns(0, {calls_to_exchange(machine) - 1, 1000});
  save_beside_recovery(machine, turns);
}

Scene two_programs(const std::string& name, std::uint64_t seed) {
  const auto prepare = [](SimulatedMachine& machine) {
    SimulatedProcess process(machine);
    save(process, "left", old_content());
  };
  const auto promise = [] {
    return Promise{{"left", {&old_content(), &new_content()}}, {"right", {nullptr, &new_content()}}};
  };
  return {name, true, true, prepare, promise, [seed](SimulatedMachine& machine) { save_two(machine, seed); }};
}

/// The same on a disk without hard links.
Scene without_links(Scene scene) {
  scene.name += " without links";
  scene.has_links = false;
  return scene;
}

std::vector<Scene> make_scenes() {
  const auto nothing = [](SimulatedMachine&) {};
  const auto none_or_new = [] { return Promise{{kTarget, {nullptr, &new_content()}}}; };
  const auto none_or_old = [] { return Promise{{kTarget, {nullptr, &old_content()}}}; };
  const auto old_or_new = [] { return Promise{{kTarget, {&old_content(), &new_content()}}}; };
  const auto only_old = [] { return Promise{{kTarget, {&old_content()}}}; };
  const auto any = [] { return Promise{{kTarget, {nullptr, &old_content(), &new_content()}}}; };
  std::vector<Scene> scenes{
      {"save", true, true, nothing, none_or_new, save_fresh},
      {"overwrite by exchange", true, true, save_old, old_or_new, overwrite},
      {"overwrite by generation", false, true, save_old, old_or_new, overwrite},
      {"overwrite a generation", false, true, prepare_second_generation, old_or_new, overwrite},
      {"save by marker", false, false, nothing, none_or_new, save_fresh},
      {"overwrite by marker", false, false, save_old, old_or_new, overwrite},
      {"abandon", true, true, save_old, only_old, abandon},
      {"remove", true, true, save_old, none_or_old, remove_and_promise},
      {"give up", true, true, nothing, none_or_new, give_up},
      {"restore", true, true, prepare_displaced, none_or_old, recover_and_promise},
      {"restore without rename modes", false, false, prepare_displaced, none_or_old, recover_and_promise},
      {"remove what was half overwritten", true, true, prepare_half_overwritten, none_or_new,
       remove_and_promise},
      {"remove two generations", true, true, prepare_two_generations, none_or_new, remove_and_promise},
      {"overwrite a generation by marker", false, false, prepare_second_generation, old_or_new, overwrite},
      {"overwrite within recovery", true, true, save_old, old_or_new, save_within_recovery},
      {"recovery within overwrite", true, true, save_old, old_or_new, recover_within_save},
  };
  for (const char* name : {"save by marker", "overwrite by marker", "overwrite a generation by marker"}) {
    const auto linked =
        std::find_if(scenes.begin(), scenes.end(), [name](const Scene& each) { return each.name == name; });
    scenes.push_back(without_links(*linked));
  }
  for (Scene& each : api_scenes()) {
    if (each.name == "a checkpoint in two parts by marker") {
      scenes.push_back(without_links(each));
    }
    scenes.push_back(std::move(each));
  }
  for (Scene& each : joint_scenes()) {
    scenes.push_back(std::move(each));
  }
  for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
    scenes.push_back({fmt::format("rivals, {}", seed), true, true, nothing, any,
                      [seed](SimulatedMachine& machine) { save_rivals(machine, seed); }});
    scenes.push_back({fmt::format("overwrite beside recovery, {}", seed), true, true, save_old, old_or_new,
                      [seed](SimulatedMachine& machine) { save_beside_random_recovery(machine, seed); }});
    scenes.push_back({fmt::format("marker beside recovery, {}", seed), false, false, save_old, old_or_new,
                      [seed](SimulatedMachine& machine) { save_beside_random_recovery(machine, seed); }});
    Scene unlinked = without_links(scenes.back());
    unlinked.name = fmt::format("marker without links beside recovery, {}", seed);
    scenes.push_back(std::move(unlinked));
    scenes.push_back({fmt::format("remove beside recovery, {}", seed), true, true, save_old, none_or_old,
                      [seed](SimulatedMachine& machine) { remove_beside_recovery(machine, seed); }});
    scenes.push_back(two_programs(fmt::format("two saves, {}", seed), seed));
  }
  return scenes;
}

}  // namespace

const Content& old_content() {
  static const Content content = make_content(1);
  return content;
}

const Content& new_content() {
  static const Content content = make_content(100);
  return content;
}

const Content& later_content() {
  static const Content content = make_content(200);
  return content;
}

std::string path_of(const std::string& target) {
  return fmt::format("{}/{}", kRunPath, target);
}

void write_file(store::StagedDirectory& staged, const std::string& path, const std::string& text) {
  io::NewFileOptions options;
  options.expected_bytes = text.size();
  options.min_direct_bytes = io::kDirectBytes;  // The large file is padded, as files on a real disk are.
  const std::unique_ptr<io::NewFile> file = staged.create_file(path, options);
  const auto bytes = std::as_bytes(std::span(text));
  const std::size_t half = std::min(bytes.size(), io::kDirectBytes);
  finish(file->write(half, bytes.subspan(half)));
  finish(file->write(0, bytes.first(half)));
  finish(file->finish(text.size()));
}

store::Manifest manifest_of_save() {
  store::Manifest manifest;
  manifest.started = "2026-01-31T12:00:00Z";
  manifest.committed = "2026-01-31T12:00:01Z";
  manifest.checkpointables = {{"model", "cairn.tree/1", "model"}, {"state", "cairn.json/1", "state"}};
  return manifest;
}

io::FileDigest digest_of(const std::string& path, const std::string& text) {
  io::ChunkHasher hasher;
  hasher.update(std::as_bytes(std::span(text)));
  return hasher.finish(path);
}

void save(SimulatedProcess& process, const std::string& target, const Content& content, bool overwrite) {
  save_with(process, target, content, options_of(process, overwrite));
}

void save_with(SimulatedProcess& process, const std::string& target, const Content& content,
               const store::StagedOptions& options) {
  SimulatedEngine engine(process);
  store::StagedDirectory staged = stage(engine, target, content, options);
  std::vector<io::FileDigest> digests;
  for (const auto& [path, text] : content) {
    digests.push_back(digest_of(path, text));
  }
  staged.publish(manifest_of_save(), digests);
}

const std::vector<Scene>& all_scenes() {
  static const std::vector<Scene> scenes = make_scenes();
  return scenes;
}

const Scene& scene(std::string_view name) {
  const auto found = std::find_if(all_scenes().begin(), all_scenes().end(),
                                  [name](const Scene& each) { return each.name == name; });
  if (found == all_scenes().end()) {
    throw std::invalid_argument(fmt::format("no scene '{}'", name));
  }
  return *found;
}

}  // namespace cairn::crash
