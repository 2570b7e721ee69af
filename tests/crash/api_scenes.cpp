// SPDX-License-Identifier: Apache-2.0
// The whole way of a save, from the public interface down.
#include "crash/api_scenes.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cairn/api/context.hpp"
#include "cairn/api/copy.hpp"
#include "cairn/api/load.hpp"
#include "cairn/api/save.hpp"
#include "cairn/array/array_view.hpp"
#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/sharding/sharding.hpp"
#include "cairn/sharding/shards.hpp"
#include "cairn/testing/local_ranks.hpp"
#include "cairn/training/checkpointer.hpp"
#include "cairn/training/keep_policy.hpp"
#include "cairn/training/partial_save.hpp"
#include "cairn/training/step_directory.hpp"

#include "io/internal/file.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/committed_directory.hpp"
#include "training/internal/rewound.hpp"

namespace cairn::crash {
namespace {

constexpr const char* kSaved = "step";
constexpr std::size_t kMostFileBytes = 1 << 20;

constexpr std::uint32_t kRanks = 2;

/// Nobody's: says in a promise that a call has returned (both parts were added; a step was pinned).
const Content kHasBeenDone;

Context make_context(SimulatedProcess& process,
                     std::shared_ptr<coord::Coordinator> coordinator = coord::single_process()) {
  ContextOptions options;
  options.coordinator = std::move(coordinator);
  options.engine = io::EngineKind::threads;
  options.worker_threads = 1;
  options.staging_bytes = std::size_t{16} << 20;
  options.syscalls = std::shared_ptr<io::Syscalls>(std::shared_ptr<void>(), &process);  // The scene owns it.
  return Context(std::move(options));
}

nlohmann::json settings(int step) {
  return {{"step", step}, {"note", "a crash may come at any time"}};
}

Tree model_of(int step) {
  return {{"weights", std::vector<float>(700, 0.5F + static_cast<float>(step))}, {"step", step}};
}

void save_step(SimulatedProcess& process, int step, const char* target = kSaved) {
  const Context context = make_context(process);
  const Tree model = model_of(step);
  const nlohmann::json config = settings(step);
  SaveOptions options;
  options.overwrite = true;
  save_checkpointables(path_of(target), {{"model", model}, {"config", config}}, options, context);
  Loaded loaded = load_checkpointables(path_of(target), {}, {}, context);
  if (loaded.take<nlohmann::json>("config") != config) {
    throw std::runtime_error("what is loaded right after the save is not what was saved");
  }
}

/// What a rank saves: its rows of the weights, and the rest as every rank has it.
void save_part(const Context& context, std::uint32_t rank, int step) {
  const Sharding rows = Sharding::of_spec(Mesh({kRanks}, {"data"}), {{"data"}});
  const Shape shape{700};
  const Shape held = rows.boxes(rank, shape).at(0).box.extents();
  const std::vector<float> weights(held[0], 0.5F + static_cast<float>(step) + static_cast<float>(rank));
  const ArrayView local(weights.data(), held, DType::float32);
  const Tree model = {{"weights", shard(rows, rank, shape, Array::borrow(local))}, {"step", step}};
  const nlohmann::json config = settings(step);
  SaveOptions options;
  options.overwrite = true;
  save_checkpointables(path_of(kSaved), {{"model", model}, {"config", config}}, options, context);
}

Content read_checkpoint(SimulatedProcess& process, const char* target) {
  const auto checkpoint = store::CommittedDirectory::open(process, path_of(target));
  Content content;
  for (const store::FileEntry& file : checkpoint.manifest().files) {
    content[file.path] = checkpoint.read_verified(file.path, kMostFileBytes);
  }
  return content;
}

/// The files that a save makes.
Content content_of(const std::function<void(SimulatedMachine&)>& save) {
  SimulatedMachine machine;
  machine.disk().make(kRootInode, "run", io::FileKind::directory);
  save(machine);
  SimulatedProcess process(machine);
  return read_checkpoint(process, kSaved);
}

/// Of a save by one process, and by several ranks.
const Content& content_of_step(int step) {
  const auto make = [](int number) {
    return content_of([number](SimulatedMachine& machine) {
      SimulatedProcess process(machine);
      save_step(process, number);
    });
  };
  static const Content contents[] = {make(1), make(2), make(3)};
  return contents[step - 1];
}

/// Steps 2 and 3 of a training whose step 1 is there, as a Checkpointer saves them that keeps the newest. Right
/// before it removes, which is when its policy is asked, the step that it has just saved must be there.
void train(SimulatedMachine& machine) {
  SimulatedProcess process(machine);
  const Context context = make_context(process);
  CheckpointerOptions options;
  options.links.latest = true;
  options.keep = KeepPolicy("latest", false, [&machine](std::span<const StepInfo> steps, CommitTime now) {
    const std::uint64_t newest = steps.back().step;
    machine.promise(std::to_string(newest), {&content_of_step(static_cast<int>(newest))});
    machine.promise(std::to_string(newest - 1), {nullptr, &content_of_step(static_cast<int>(newest - 1))});
    return keep::latest(1)(steps, now);
  });
  Checkpointer run(kRunPath, std::move(options), context);
  for (const int step : {2, 3}) {
    const Tree model = model_of(step);
    const nlohmann::json config = settings(step);
    run.save(static_cast<std::uint64_t>(step), {{"model", model}, {"config", config}});
    run.wait();
    machine.promise(std::to_string(step - 1), {nullptr});
  }
  run.close();
  if (*Checkpointer(kRunPath, {}, context).latest() != 3) {
    throw std::runtime_error("the newest step is not the one that was saved last");
  }
}

/// The same beside a pin: step 1 stays, and a program that keeps less later leaves it, too.
void train_with_pin(SimulatedMachine& machine) {
  SimulatedProcess process(machine);
  const Context context = make_context(process);
  CheckpointerOptions options;
  options.keep = keep::latest(1);
  Checkpointer run(kRunPath, std::move(options), context);
  run.pin(1);
  machine.promise("1", {&content_of_step(1), &kHasBeenDone});
  const Tree model = model_of(2);
  const nlohmann::json config = settings(2);
  run.save(2, {{"model", model}, {"config", config}});
  run.close();
  machine.promise("2", {&content_of_step(2)});
  machine.promise("1", {&content_of_step(1)});
  run.unpin(1);
}

/// What `cairn prune --latest 1 --remove` does with three steps of which the first is pinned.
void prune(SimulatedMachine& machine) {
  SimulatedProcess process(machine);
  const Context context = make_context(process);
  StepDirectory directory(kRunPath, {}, context);
  const RetentionPlan plan = plan_retention(keep::latest(1), directory.infos(), CommitTime{});
  machine.promise("2", {nullptr, &content_of_step(2)});
  for (const StepInfo& each : plan.removed) {
    if (!directory.remove_unless_pinned(each.step, {}, context)) {
      throw std::runtime_error("a step that nobody has pinned was kept");
    }
  }
  machine.promise("2", {nullptr});
  if (*StepDirectory(kRunPath, {}, context).steps() != std::vector<std::uint64_t>{1, 3}) {
    throw std::runtime_error("other steps are left than the newest and the one that is pinned");
  }
}

/// A training of three steps goes back to the first.
void rewind(SimulatedMachine& machine) {
  SimulatedProcess process(machine);
  const Context context = make_context(process);
  CheckpointerOptions options;
  options.links.latest = true;
  Checkpointer run(kRunPath, std::move(options), context);
  machine.promise("2", {nullptr, &content_of_step(2)});
  machine.promise("3", {nullptr, &content_of_step(3)});
  run.rewind(1);
  machine.promise("2", {nullptr});
  machine.promise("3", {nullptr});
}

/// Where the steps of the directories in `.cairn-rewound` lie.
std::vector<std::string> rewound_steps(SimulatedProcess& process) {
  std::vector<std::string> found;
  const io::Directory root = io::Directory::open(process, kRunPath);
  for (const training::RewoundLine& line : training::list_rewound(root).lines) {
    for (const store::FoundCheckpoint& each : line.checkpoints) {
      found.push_back(fmt::format("{}/{}/{}", training::kRewoundName, line.name, each.name));
    }
  }
  return found;
}

/// The line that is left has no gap, each step of it is there or was set aside, whole, and the training goes back once
/// more.
bool rewind_again(SimulatedProcess& process, const Promise& /*promise*/) {
  const Context context = make_context(process);
  CheckpointerOptions options;
  options.links.latest = true;
  Checkpointer run(kRunPath, std::move(options), context);
  const std::vector<std::uint64_t> left = run.steps();
  const std::vector<std::string> aside = rewound_steps(process);
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i] != i + 1) {
      throw std::runtime_error(fmt::format("step {} is missing, and later ones are there", i + 1));
    }
  }
  for (const int step : {2, 3}) {
    const auto is_it = [step](const std::string& path) { return path.ends_with(fmt::format("/{}", step)); };
    const auto found = std::find_if(aside.begin(), aside.end(), is_it);
    const bool is_left = static_cast<std::size_t>(step) <= left.size();
    if (is_left == (found != aside.end())) {
      throw std::runtime_error(fmt::format("step {} is there twice, or nowhere", step));
    }
    if (!is_left && read_checkpoint(process, found->c_str()) != content_of_step(step)) {
      throw std::runtime_error(fmt::format("step {} was set aside and is not what was saved", step));
    }
  }
  run.rewind(1);
  if (run.steps().size() != 1) {
    throw std::runtime_error("steps are left above the one that the training goes back to");
  }
  return false;
}

/// The link leads to a step that is there; the training is started again, and removes all steps but the newest and
/// those that are pinned.
bool train_on(SimulatedProcess& process, const Promise& promise) {
  if (const std::optional<std::string> link = process.read_link("latest")) {
    static_cast<void>(store::CommittedDirectory::open(process, path_of(*link)));
  }
  const Context context = make_context(process);
  CheckpointerOptions options;
  options.keep = keep::latest(1);
  options.links.latest = true;
  Checkpointer run(kRunPath, std::move(options), context);
  const Tree model = model_of(9);
  run.save(9, {{"model", model}});
  run.close();
  const bool is_pinned = promise.at("1").back() == &kHasBeenDone;
  if (process.read_link("latest") != "9" || (is_pinned && run.steps().front() != 1)) {
    throw std::runtime_error("the link leads elsewhere, or a step that is pinned is gone");
  }
  return false;
}

// Its name comes after that of the copy, for whoever takes the first target.
constexpr const char* kOriginal = "what-is-copied";

void copy_step(SimulatedMachine& machine) {
  SimulatedProcess process(machine);
  CopyOptions options;
  options.overwrite = true;
  copy_checkpoint(path_of(kOriginal), path_of(kSaved), options, make_context(process));
  machine.promise(kSaved, {&content_of_step(1)});
}

/// Another copy, whatever the first has left, comes to its end.
bool copy_again(SimulatedProcess& process, const Promise& /*promise*/) {
  CopyOptions options;
  options.overwrite = true;
  copy_checkpoint(path_of(kOriginal), path_of(kSaved), options, make_context(process));
  if (read_checkpoint(process, kSaved) != content_of_step(1)) {
    throw std::runtime_error("the copy is not what was copied");
  }
  return false;
}

// A checkpoint of two parts. Its name comes before those of the parts, for whoever takes the first target.
constexpr const char* kWhole = "+whole";
constexpr const char* kParts[] = {".partial-+whole/part-00000", ".partial-+whole/part-00001"};

void add_part(PartialSave& partial, std::size_t part) {
  const float value = 0.5F + static_cast<float>(part);
  const Tree model = {{fmt::format("layer{}", part), std::vector<float>(300, value)}};
  partial.add({{"model", model}});
}

/// Parts 0 and 1, and what is made of them.
struct PartContent {
  Content parts[2];
  Content whole;
};

const PartContent& content_of_parts() {
  static const PartContent made = [] {
    PartContent content;
    SimulatedMachine machine;
    machine.disk().make(kRootInode, "run", io::FileKind::directory);
    SimulatedProcess process(machine);
    const Context context = make_context(process);
    PartialSave partial(path_of(kWhole), {}, context);
    for (const std::size_t part : {0, 1}) {
      add_part(partial, part);
      content.parts[part] = read_checkpoint(process, kParts[part]);
    }
    partial.finalize();
    content.whole = read_checkpoint(process, kWhole);
    return content;
  }();
  return made;
}

/// Each part is durable once it was added; until the checkpoint of both is.
void save_in_parts(SimulatedMachine& machine) {
  SimulatedProcess process(machine);
  const Context context = make_context(process);
  PartialSave partial(path_of(kWhole), {}, context);
  for (const std::size_t part : {0, 1}) {
    add_part(partial, part);
    machine.promise(kParts[part], {&content_of_parts().parts[part]});
  }
  for (const std::size_t part : {0, 1}) {
    machine.promise(kParts[part], {nullptr, &content_of_parts().parts[part], &kHasBeenDone});
  }
  partial.finalize();
  machine.promise(kWhole, {&content_of_parts().whole});
  for (const std::size_t part : {0, 1}) {
    machine.promise(kParts[part], {nullptr});
  }
}

/// The program is started again, and does what is left to do.
bool save_other_parts(SimulatedProcess& process, const Promise& promise) {
  const Context context = make_context(process);
  const bool were_added = promise.at(kParts[1]).back() == &kHasBeenDone;
  try {
    PartialSave partial(path_of(kWhole), {}, context);
    while (!were_added && partial.parts() < 2) {
      add_part(partial, partial.parts());
    }
    partial.finalize();
    return true;
  } catch (const Error& error) {
    if (error.code() != Errc::already_exists) {
      throw;
    }
    PartialSaveOptions options;
    options.overwrite = true;
    PartialSave(path_of(kWhole), options, context).abandon();
    return false;
  }
}

Promise promise_of_parts() {
  const PartContent& content = content_of_parts();
  return {{kWhole, {nullptr, &content.whole}},
          {kParts[0], {nullptr, &content.parts[0]}},
          {kParts[1], {nullptr, &content.parts[1]}}};
}

/// Ranks that save together, each with a context and a machine of its own. One of them may be killed before the
/// `call`th call of any.
class ContextRanks final : public Scheduler {
 public:
  ContextRanks(SimulatedMachine& machine, std::size_t victim, int call)
      : machine_(machine), network_(kRanks), victim_(victim), call_(call) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      processes_.push_back(std::make_unique<SimulatedProcess>(machine, this, static_cast<int>(rank)));
    }
  }

  /// Returns how many calls there were.
  ///
  /// Errors: std::runtime_error when two ranks contradict each other, or a rank does not say committed though nothing
  ///         has happened.
  int save(int step, const Content* content) {
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([this, rank, step, content] { save_on(rank, step, content); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    if (!problem_.empty()) {
      throw std::runtime_error(problem_);
    }
    return calls_;
  }

  void begin(int /*process*/) override {
    if (++calls_ == call_) {
      processes_[victim_]->die();
      network_.cut(victim_);
    }
  }
  void end(int /*process*/) override {}

 private:
  void save_on(std::uint32_t rank, int step, const Content* content) {
    coord::CoordinatorOptions options;
    options.heartbeat = std::chrono::milliseconds(20);
    options.lost_after = std::chrono::milliseconds(call_ == 0 ? 30'000 : 250);
    options.join_timeout = std::chrono::seconds(call_ == 0 ? 30 : 1);
    std::exception_ptr failure;
    try {
      const Context context = make_context(
          *processes_[rank], std::make_shared<coord::Coordinator>(network_.transport(rank), options));
      save_part(context, rank, step);
    } catch (...) {
      failure = std::current_exception();
    }
    if (!processes_[rank]->is_dead()) {
      heed(rank, failure, content);
    }
  }

  /// `content` is null where nobody looks.
  void heed(std::uint32_t rank, const std::exception_ptr& failure, const Content* content) {
    const std::lock_guard lock(mutex_);
    const bool is_unknown = failure && code_of(failure) == Errc::commit_unknown;
    const bool is_possible = content == nullptr || is_unknown ||
                             (failure ? machine_.narrow(kSaved, {nullptr, &content_of_step(1)})
                                      : machine_.narrow(kSaved, {content}));
    if (!is_possible || (failure && call_ == 0)) {
      problem_ = fmt::format("rank {} says: {}", rank, failure ? cairn::describe(failure) : "committed");
    }
  }

  SimulatedMachine& machine_;
  testing::LocalRanks network_;
  const std::size_t victim_;
  const int call_;
  std::vector<std::unique_ptr<SimulatedProcess>> processes_;
  std::atomic<int> calls_{0};
  std::mutex mutex_;  // Protects `problem_`.
  std::string problem_;
};

/// Likewise, of step 2; and how many calls it takes.
struct JointContent {
  Content content;
  int calls = 0;
};

const JointContent& content_of_ranks() {
  static const JointContent made = [] {
    JointContent joint;
    joint.content = content_of(
        [&joint](SimulatedMachine& machine) { joint.calls = ContextRanks(machine, 0, 0).save(2, nullptr); });
    return joint;
  }();
  return made;
}

/// Saves by ranks of which one is killed when so many tenths of the calls have been made; 0: none is.
Scene save_by_ranks(std::string name, bool has_modes, bool overwrite, std::size_t victim, int tenths) {
  Scene scene;
  scene.name = std::move(name);
  scene.has_exchange = scene.has_no_replace = has_modes;
  scene.prepare = [overwrite](SimulatedMachine& machine) {
    if (overwrite) {
      SimulatedProcess process(machine);
      save_step(process, 1);
    }
  };
  scene.promise = [overwrite] {
    return Promise{{kSaved, {overwrite ? &content_of_step(1) : nullptr, &content_of_ranks().content}}};
  };
  scene.act = [victim, tenths](SimulatedMachine& machine) {
    const int call = content_of_ranks().calls * tenths / 10;
    ContextRanks(machine, victim, call).save(2, &content_of_ranks().content);
  };
  return scene;
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
    machine.promise(kSaved, {&content_of_step(2)});
  };
  const auto nothing = [](SimulatedMachine&) {};
  const auto none_or_second = [] { return Promise{{kSaved, {nullptr, &content_of_step(2)}}}; };
  const auto first_or_second = [] { return Promise{{kSaved, {&content_of_step(1), &content_of_step(2)}}}; };
  const auto save_original = [](SimulatedMachine& machine) {
    SimulatedProcess process(machine);
    save_step(process, 1, kOriginal);
  };
  const auto save_both = [](SimulatedMachine& machine) {
    SimulatedProcess process(machine);
    save_step(process, 1, kOriginal);
    save_step(process, 2);
  };
  const auto none_or_copy = [] {
    return Promise{{kOriginal, {&content_of_step(1)}}, {kSaved, {nullptr, &content_of_step(1)}}};
  };
  const auto other_or_copy = [] {
    return Promise{{kOriginal, {&content_of_step(1)}}, {kSaved, {&content_of_step(2), &content_of_step(1)}}};
  };
  const auto begin_training = [](SimulatedMachine& machine) {
    SimulatedProcess process(machine);
    save_step(process, 1, "1");
  };
  const auto training = [] {
    return Promise{{"1", {&content_of_step(1)}},
                   {"2", {nullptr, &content_of_step(2)}},
                   {"3", {nullptr, &content_of_step(3)}}};
  };
  const auto pinned_training = [] {
    return Promise{{"1", {&content_of_step(1)}}, {"2", {nullptr, &content_of_step(2)}}};
  };
  const auto save_three_steps = [](SimulatedMachine& machine) {
    SimulatedProcess process(machine);
    for (const int step : {1, 2, 3}) {
      save_step(process, step, std::to_string(step).c_str());
    }
    StepDirectory(kRunPath, {}, make_context(process)).pin(1);
  };
  const auto save_three_more = [](SimulatedMachine& machine) {
    SimulatedProcess process(machine);
    for (const int step : {1, 2, 3}) {
      save_step(process, step, std::to_string(step).c_str());
    }
  };
  const auto three_more = [] {
    return Promise{{"1", {&content_of_step(1)}}, {"2", {&content_of_step(2)}}, {"3", {&content_of_step(3)}}};
  };
  const auto three_steps = [] {
    return Promise{{"1", {&content_of_step(1), &kHasBeenDone}},
                   {"2", {&content_of_step(2)}},
                   {"3", {&content_of_step(3)}}};
  };
  std::vector<Scene> scenes{
      {"a training that is pruned", true, true, save_three_steps, three_steps, prune, train_on},
      {"a training that goes back", true, true, save_three_more, three_more, rewind, rewind_again},
      {"a training that keeps the newest step", true, true, begin_training, training, train, train_on},
      {"a training that keeps the newest step by marker", false, false, begin_training, training, train,
       train_on},
      {"a training with a pinned step", true, true, begin_training, pinned_training, train_with_pin,
       train_on},
      {"a checkpoint in two parts", true, true, nothing, promise_of_parts, save_in_parts, save_other_parts},
      {"a checkpoint in two parts by marker", false, false, nothing, promise_of_parts, save_in_parts,
       save_other_parts},
      {"a copy", true, true, save_original, none_or_copy, copy_step, copy_again},
      {"a copy by marker", false, false, save_original, none_or_copy, copy_step, copy_again},
      {"a copy over another checkpoint", true, true, save_both, other_or_copy, copy_step, copy_again},
      {"save_checkpointables", true, true, nothing, none_or_second, save_second},
      {"save_checkpointables over an old one", true, true, save_first, first_or_second, save_second},
      save_by_ranks("save_checkpointables by ranks", true, false, 0, 0),
      save_by_ranks("save_checkpointables by ranks over an old one", true, true, 0, 0),
      save_by_ranks("save_checkpointables by ranks by marker", false, false, 0, 0)};
  for (const std::size_t victim : {0, 1}) {
    for (const int tenths : {9, 8, 7, 5, 3}) {
      const std::string name = fmt::format("save_checkpointables by ranks, rank {} is killed", victim);
      scenes.push_back(save_by_ranks(fmt::format("{}, {}", name, 9 - tenths), true, true, victim, tenths));
    }
  }
  return scenes;
}

}  // namespace cairn::crash
