// SPDX-License-Identifier: Apache-2.0
// Trains the classifier and saves checkpoints while it trains. Killed at any time, it goes on from the newest
// one and ends with the same weights.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <cairn/core/context.hpp>
#include <cairn/training/checkpointer.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "digits/arguments.hpp"
#include "digits/checkpoints.hpp"
#include "digits/classifier.hpp"
#include "digits/dataset.hpp"
#include "digits/final_file.hpp"

namespace digits {
namespace {

constexpr std::uint64_t kSplitSeed = 1;

/// A line for whoever watches: out at once, as a killed program flushes nothing.
void say(const std::string& line) {
  std::fputs((line + '\n').c_str(), stdout);
  std::fflush(stdout);
}

nlohmann::json to_json(const Settings& settings) {
  return {{"learning_rate", settings.learning_rate},
          {"batch_size", settings.batch_size},
          {"seed", settings.seed},
          {"hidden_units", kHidden},
          {"split_seed", kSplitSeed}};
}

/// Saves at every so many steps and at the last one; keeps the newest.
cairn::CheckpointerOptions policies(const Arguments& arguments) {
  cairn::CheckpointerOptions options;
  options.save = cairn::save_when::any_of(
      {cairn::save_when::every_steps(static_cast<std::uint64_t>(arguments.save_every)),
       cairn::save_when::at_steps({static_cast<std::uint64_t>(arguments.steps)})});
  options.keep = cairn::keep::latest(arguments.keep);
  return options;
}

/// Resumes the newest checkpoint, or begins.
Snapshot first_snapshot(Checkpoints& checkpoints, const Settings& settings, const Images& images) {
  if (auto newest = checkpoints.load_newest(to_json(settings))) {
    say(fmt::format("resumed step={}", newest->state.step));
    return std::move(*newest);
  }
  say("began");
  return {initial_state(settings, images.size()), History()};
}

void train(const Arguments& arguments) {
  const Settings settings;
  const Dataset dataset = split(read_images(arguments.data), kSplitSeed);
  const cairn::Context context;
  Checkpoints checkpoints(arguments.root, arguments.memory, policies(arguments), context, say);
  auto [state, history] = first_snapshot(checkpoints, settings, dataset.train);

  while (state.step < arguments.steps) {
    const float loss = train_step(state, dataset.train, settings);
    say(fmt::format("step {}", state.step));
    checkpoints.poll();
    if (checkpoints.is_due_on_disk(state.step)) {
      history.add({state.step, loss, accuracy(state, dataset.test)});
    }
    if (checkpoints.is_due(state.step)) {
      checkpoints.save(state, to_json(settings), history);
    }
  }
  checkpoints.finish();
  if (!arguments.final.empty()) {
    write_final(state, history.to_csv(), arguments.final);
  }
  say(fmt::format("finished {} accuracy={:.4f}", state.step, accuracy(state, dataset.test)));
}

}  // namespace
}  // namespace digits

int main(int argc, char** argv) {
  try {
    const std::vector<const char*> words(argv + 1, argv + argc);
    const digits::Arguments arguments = digits::parse_arguments(words);
    if (arguments.wants_help) {
      fmt::print("{}", digits::usage("digits"));
      return 0;
    }
    digits::train(arguments);
    return 0;
  } catch (const digits::UsageError& error) {
    fmt::print(stderr, "digits: {}\n\n{}", error.what(), digits::usage("digits"));
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "digits: {}\n", error.what());
    return 1;
  }
}
