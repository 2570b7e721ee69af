// SPDX-License-Identifier: Apache-2.0
// Trains the classifier with all processes of an MPI job, each of which holds and saves a part of the
// optimizer's state. Killed at any time, it goes on from the newest checkpoint, on any number of processes,
// and ends with the same weights.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include <cairn/base/hash.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "digits/arguments.hpp"
#include "digits/classifier.hpp"
#include "digits/dataset.hpp"
#include "digits/final_file.hpp"
#include "sharded/checkpoints.hpp"
#include "sharded/job.hpp"
#include "sharded/train_step.hpp"

namespace sharded {
namespace {

constexpr std::uint64_t kSplitSeed = 1;

/// A line of rank 0 for whoever watches: out at once, as a killed program flushes nothing.
void say(const Job& job, const std::string& line) {
  if (job.rank() == 0) {
    std::fputs((line + '\n').c_str(), stdout);
    std::fflush(stdout);
  }
}

digits::Settings settings() {
  digits::Settings settings;
  settings.batch_size = 48;
  return settings;
}

/// Resumes the newest checkpoint, or begins.
RankState first_state(const Checkpoints& checkpoints, const digits::Images& images, const Job& job) {
  if (const auto newest = checkpoints.newest()) {
    RankState state = checkpoints.load(*newest, settings());
    say(job, fmt::format("resumed step={}", state.step));
    return state;
  }
  say(job, "began");
  return initial_state(settings(), images.size(), job);
}

std::string hash_of(const digits::Parameters& weights) {
  std::string hashes;
  for (const auto layer : digits::kLayers) {
    hashes += cairn::to_hex(cairn::hash_bytes(std::as_bytes(std::span(weights.*layer))));
  }
  return cairn::to_hex(cairn::hash_text(hashes));
}

void finish(const RankState& state, const digits::Images& images, const digits::Arguments& arguments,
            const Job& job) {
  const digits::TrainingState whole = whole_state(state, job);
  if (job.rank() == 0 && !arguments.final.empty()) {
    digits::write_final(whole, "", arguments.final);
  }
  say(job, fmt::format("finished {} accuracy={:.4f} weights={}", whole.step, accuracy(whole, images),
                       hash_of(whole.weights)));
}

void train(const digits::Arguments& arguments, const Job& job) {
  say(job, fmt::format("ranks {} pids={}", job.size(), fmt::join(job.gather(::getpid()), ",")));
  const digits::Dataset dataset = digits::split(digits::read_images(arguments.data), kSplitSeed);
  Checkpoints checkpoints(arguments.root, arguments.keep, job,
                          [&](const std::string& line) { say(job, line); });
  RankState state = first_state(checkpoints, dataset.train, job);

  while (state.step < arguments.steps) {
    train_step(state, dataset.train, settings(), job);
    say(job, fmt::format("step {}", state.step));
    checkpoints.poll();
    if (state.step % arguments.save_every == 0 || state.step == arguments.steps) {
      checkpoints.save(state, settings());
    }
  }
  checkpoints.finish();
  finish(state, dataset.test, arguments, job);
}

}  // namespace
}  // namespace sharded

int main(int argc, char** argv) {
  try {
    const std::vector<const char*> words(argv + 1, argv + argc);
    const digits::Arguments arguments = digits::parse_arguments(words);
    if (arguments.wants_help) {
      fmt::print("{}", digits::usage("mpirun -n RANKS sharded"));
      return 0;
    }
    sharded::Job job;
    sharded::train(arguments, job);
    job.finish();
    return 0;
  } catch (const digits::UsageError& error) {
    fmt::print(stderr, "sharded: {}\n\n{}", error.what(), digits::usage("mpirun -n RANKS sharded"));
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "sharded: {}\n", error.what());
    std::_Exit(1);  // Without MPI_Finalize, which would wait for the others: so mpirun ends them.
  }
}
