// SPDX-License-Identifier: Apache-2.0
// The code of docs/training.md: a training that saves steps, is damaged, and goes on. main checks what each part did.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cairn/cairn.hpp>
#include <cairn/training/checkpointer.hpp>
#include <cairn/training/keep_policy.hpp>
#include <cairn/training/partial_save.hpp>
#include <cairn/training/step_options.hpp>

#include "own_folder.hpp"

namespace {

void require(bool holds, const std::string& claim) {
  if (!holds) {
    throw std::logic_error("it does not hold that " + claim);
  }
}

double train(cairn::Tree& state) {
  const int done = state.get<int>("done") + 1;
  state["done"] = done;
  return 1.0 / done;
}

void train_until(std::uint64_t last) {
  cairn::Tree state = {{"done", 0}};
  // [loop]
  cairn::CheckpointerOptions options;
  options.save = cairn::save_when::every_steps(10);
  options.keep = cairn::keep::any_of({cairn::keep::latest(3), cairn::keep::every_steps(100)});
  cairn::Checkpointer run("run", options);

  std::uint64_t step = 0;
  if (auto resumed = run.resume({"state"})) {
    state = resumed->loaded.take<cairn::Tree>("state");
    step = resumed->step + 1;
  }
  for (; step < last; ++step) {
    const double loss = train(state);
    run.save(step, {{"state", state}}, cairn::Metrics{{"loss", loss}});  // At most steps it does nothing.
  }
  run.close();  // Waits for the last save, and throws what went wrong with it.
  // [/loop]
  require(run.steps().back() == (last - 1) / 10 * 10, "the last tenth step is saved");
}

void decide() {
  // [decide]
  cairn::CheckpointerOptions options;
  options.save = cairn::save_when::any_of({
      cairn::save_when::first(),                                 // A mistake in the saving shows at once.
      cairn::save_when::continuously(std::chrono::minutes(10)),  // When no save is in flight.
      cairn::save_when::preempted(),                             // See below.
      [](const cairn::SaveMoment& moment) { return moment.step == 1234; },
  });
  // [/decide]
  require(options.save.asks_time(), "a policy of time asks for it");
}

void measure() {
  cairn::Checkpointer run("run");
  // [metrics]
  std::cout << run.info(cairn::WhichStep::latest()).metrics.at("loss") << '\n';
  if (const auto best = run.best("loss", cairn::Prefer::lower)) {
    const cairn::Tree state = run.load(*best, {"state"}).take<cairn::Tree>("state");
  }
  // [/metrics]
  // [pin]
  run.pin(100);  // The step of a paper: no policy of any process removes it.
  // [/pin]
  run.unpin(100);
}

void retain() {
  // [keep]
  using namespace cairn;
  const KeepPolicy policy = keep::any_of({
      keep::latest(3),
      keep::best("loss", 1, Prefer::lower),
      keep::younger_than(std::chrono::hours(24)),
  });
  const StepDirectory directory("run");
  const CommitTime now = std::chrono::system_clock::now();
  for (const KeptStep& each : plan_retention(policy, directory.infos(), now).kept) {
    std::cout << each.step << " stays: " << each.why << '\n';
  }
  // [/keep]
  require(!plan_retention(keep::latest(0), directory.infos(), now).kept.empty(), "the newest always stays");
}

void go_back() {
  cairn::CheckpointerOptions options;
  options.keep = cairn::keep::latest(3);
  cairn::Checkpointer run("run", options);
  // [rewind]
  cairn::Tree state = run.load(110, {"state"}).take<cairn::Tree>("state");
  run.rewind(110);  // Later steps are set aside, not lost. The next one is 111.
  // [/rewind]
  require(run.latest() == 110U, "nothing is there above the step that was gone back to");
}

void preempt(cairn::Tree& state, std::uint64_t step, std::uint64_t last) {
  // [preempt]
  const cairn::PreemptionGuard guard;  // SIGTERM is a flag from here on.
  cairn::CheckpointerOptions options;
  options.preemption = &guard;
  options.save =
      cairn::save_when::any_of({cairn::save_when::every_steps(1000), cairn::save_when::preempted()});
  cairn::Checkpointer run("run", options);
  // When the loop ends after a signal, the policy was asked since: a last step is saved, or being saved.
  for (; step < last && !run.is_preempted(); ++step) {
    train(state);
    run.save(step, {{"state", state}});
  }
  run.close();
  // [/preempt]
}

void go_on_after_damage(cairn::Tree& state, std::uint64_t last) {
  std::filesystem::resize_file(
      "run/" + std::to_string(*cairn::StepDirectory("run").latest()) + "/state/index.fb", 1);
  cairn::Checkpointer run("run");
  std::uint64_t step = 0;
  // [resume]
  cairn::ResumeOptions options;
  options.recover = true;    // Remove first what crashes have left.
  options.fall_back = true;  // Where the newest step is damaged, take an older one.
  cairn::StepOptions saving;
  if (auto resumed = run.resume({"state"}, options)) {
    for (const cairn::PassedOver& each : resumed->passed_over) {
      std::cerr << each.path.string() << ": " << each.why << '\n';
      saving.save.overwrite = true;  // The loop comes to these steps again.
    }
    state = resumed->loaded.take<cairn::Tree>("state");
    step = resumed->step + 1;
  }
  for (; step < last; ++step) {
    train(state);
    run.save(step, {{"state", state}}, saving);
  }
  // [/resume]
  run.close();
  std::cout << "went on to step " << step - 1 << ", past a damaged one\n";
}

cairn::Tree read_layer(std::size_t number) {
  return {{"layers", {{"layer" + std::to_string(number), {{"w", std::vector<float>(1000, 0.5F)}}}}}};
}

void convert() {
  constexpr std::size_t layers = 4;
  // [parts]
  // An earlier program may have finished it, and have left the parts.
  if (cairn::is_checkpoint("run/imported")) {
    cairn::PartialSave::abandon("run/imported");
    return;
  }
  cairn::PartialSave partial("run/imported");
  for (std::size_t layer = partial.parts(); layer < layers;
       ++layer) {  // What was added before a crash is there.
    partial.add({{"state", read_layer(layer)}});
  }
  partial.finalize();
  // [/parts]
  require(cairn::load("run/imported").at("layers").size() == layers, "the parts are one checkpoint");
}

}  // namespace

int main() {
  try {
    enter_own_folder("training");
    train_until(105);
    train_until(125);
    decide();
    measure();
    retain();
    go_back();
    cairn::Tree state = {{"done", 0}};
    preempt(state, 125, 130);
    go_on_after_damage(state, 130);
    convert();
    convert();  // There is nothing left to do.
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
