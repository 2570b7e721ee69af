// SPDX-License-Identifier: Apache-2.0
// Trains the classifier and saves checkpoints while it trains. Killed at any time, it goes on from the newest
// one and ends with the same weights.
#include <cstdio>
#include <exception>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <cairn/core/context.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "digits/arguments.hpp"
#include "digits/checkpoints.hpp"
#include "digits/classifier.hpp"
#include "digits/dataset.hpp"

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

/// Resumes the newest checkpoint, or begins.
Snapshot first_snapshot(const Checkpoints& checkpoints, const Settings& settings, const Images& images) {
  if (const auto newest = checkpoints.newest()) {
    Snapshot snapshot = checkpoints.load_newest(to_json(settings));
    say(fmt::format("resumed checkpoint={} step={}", *newest, snapshot.state.step));
    return snapshot;
  }
  say("began");
  return {initial_state(settings, images.size()), History()};
}

class FinalFile {
 public:
  explicit FinalFile(const std::filesystem::path& path) : path_(path), out_(path, std::ios::binary) {}

  template <class Range>
  void write(const Range& values) {
    const auto bytes = std::as_bytes(std::span(values));
    out_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  void write(const Parameters& parameters) {
    for (const auto layer : {&Parameters::w1, &Parameters::b1, &Parameters::w2, &Parameters::b2}) {
      write(parameters.*layer);
    }
  }

  void close() {
    out_.close();
    if (!out_) {
      throw std::runtime_error("cannot write " + path_.string());
    }
  }

 private:
  std::filesystem::path path_;
  std::ofstream out_;
};

void write_final(const Snapshot& snapshot, const std::filesystem::path& path) {
  FinalFile file(path);
  const TrainingState& state = snapshot.state;
  file.write(state.weights);
  file.write(state.first_moment);
  file.write(state.second_moment);
  file.write(state.random);
  file.write(state.order);
  file.write(fmt::format("step {} position {}\n", state.step, state.position_in_epoch));
  file.write(snapshot.history.to_csv());
  file.close();
}

void train(const Arguments& arguments) {
  const Settings settings;
  const Dataset dataset = split(read_images(arguments.data), kSplitSeed);
  const cairn::Context context;
  Checkpoints checkpoints(arguments.root, arguments.keep, context, say);
  auto [state, history] = first_snapshot(checkpoints, settings, dataset.train);

  while (state.step < arguments.steps) {
    const float loss = train_step(state, dataset.train, settings);
    say(fmt::format("step {}", state.step));
    checkpoints.poll();
    if (state.step % arguments.save_every == 0 || state.step == arguments.steps) {
      history.add({state.step, loss, accuracy(state, dataset.test)});
      checkpoints.save(state, to_json(settings), history);
    }
  }
  checkpoints.finish();
  if (!arguments.final.empty()) {
    write_final({state, history}, arguments.final);
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
      fmt::print("{}", digits::usage());
      return 0;
    }
    digits::train(arguments);
    return 0;
  } catch (const digits::UsageError& error) {
    fmt::print(stderr, "digits: {}\n\n{}", error.what(), digits::usage());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "digits: {}\n", error.what());
    return 1;
  }
}
