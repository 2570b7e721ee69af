// SPDX-License-Identifier: Apache-2.0

// Times what a training does at each step, and what a directory of many steps costs: cairn_training_figures [steps
// [arrays]] Ends with 1 where a step that is declined takes memory.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/training/checkpointer.hpp"

#include "support/temp_dir.hpp"

namespace {

std::uint64_t allocations = 0;  // Of this thread: others are not measured.
thread_local bool is_counting = false;

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  allocations += is_counting ? 1 : 0;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) {
    return memory;
  }
  throw std::bad_alloc();
}

[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}

[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace cairn {
namespace {

using SteadyTime = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& work) {
  const auto begin = SteadyTime::now();
  work();
  return std::chrono::duration<double>(SteadyTime::now() - begin).count();
}

/// Returns whether it took no memory.
bool time_declined(const char* what, SavePolicy policy, const std::filesystem::path& root) {
  constexpr std::uint64_t kSteps = 200'000;
  CheckpointerOptions options;
  options.save = std::move(policy);
  Checkpointer run(root, options);
  const Tree state = {{"step", 1}};
  const Checkpointables items{{"state", state}};
  const StepOptions how;
  run.save(0, items, how);  // What is looked up once.
  allocations = 0;
  const double time = seconds_of([&] {
    is_counting = true;
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      run.save(2 * step + 1, items, how);
    }
    is_counting = false;
  });
  std::printf("%-44s %9.3f us, %llu allocations\n", what, time / kSteps * 1e6,
              static_cast<unsigned long long>(allocations));
  return allocations == 0;
}

/// Copies of one step, which the format allows.
void make_steps(const std::filesystem::path& root, std::uint64_t steps) {
  const Tree state = {{"step", 1}};
  Checkpointer run(root);
  run.save(0, {{"state", state}}, Metrics{{"loss", 0.5}});
  run.close();
  for (std::uint64_t step = 1; step < steps; ++step) {
    std::filesystem::copy(root / "0", root / std::to_string(step), std::filesystem::copy_options::recursive);
  }
}

void time_directory(const std::filesystem::path& root) {
  StepDirectory(root).reload();  // Warm.
  std::optional<StepDirectory> directory;
  const double open = seconds_of([&] { directory.emplace(root); });
  constexpr int kTimes = 100'000;
  std::uint64_t sum = 0;
  const double latest = seconds_of([&] {
    for (int i = 0; i < kTimes; ++i) {
      sum += *directory->latest();
    }
  });
  const double infos = seconds_of([&] { sum += directory->infos().size(); });
  const std::string count = std::to_string(directory->steps()->size());
  std::printf("%-44s %9.3f ms\n", ("opening a root of " + count + " steps").c_str(), open * 1e3);
  std::printf("%-44s %9.3f us\n", "latest", latest / kTimes * 1e6);
  std::printf("%-44s %9.3f ms%s\n", "manifests of all, once", infos * 1e3, sum == 0 ? "!" : "");
}

void time_blocking(const std::filesystem::path& root) {
  constexpr int kSaves = 30;
  const Tree state = {{"w", std::vector<float>(1 << 18, 1.0F)}};
  std::vector<double> plain;
  std::vector<double> stepwise;
  CheckpointerOptions options;
  options.keep = keep::latest(1000);
  Checkpointer run(root, options);
  const std::uint64_t first = 1'000'000;
  for (int i = 0; i < kSaves; ++i) {
    AsyncResponse response;
    plain.push_back(seconds_of([&] {
      response = save_checkpointables_async(root / ("plain-" + std::to_string(i)), {{"state", state}});
    }));
    response.wait();
    stepwise.push_back(seconds_of([&] {
      run.save(first + static_cast<std::uint64_t>(i), {{"state", state}});
    }));
    run.wait();
  }
  std::sort(plain.begin(), plain.end());
  std::sort(stepwise.begin(), stepwise.end());
  std::printf("%-44s %9.3f ms\n", "blocking time of save_checkpointables_async", plain[kSaves / 2] * 1e3);
  std::printf("%-44s %9.3f ms\n", "blocking time of Checkpointer::save", stepwise[kSaves / 2] * 1e3);
}

void time_loop(const std::filesystem::path& root, std::size_t arrays) {
  Tree state;
  for (std::size_t i = 0; i < arrays; ++i) {
    state["a" + std::to_string(i)] = std::vector<float>(1024, 1.0F);
  }
  const double time = seconds_of([&] {
    CheckpointerOptions options;
    options.keep = keep::latest(3);
    Checkpointer run(root, options);
    for (std::uint64_t step = 0; step < 200; ++step) {
      run.save(step, {{"state", state}});
    }
    run.close();
  });
  std::printf("%-44s %9.3f s\n", "200 steps, saved at each, latest 3", time);
}

int measure(std::uint64_t steps, std::size_t arrays) {
  const testing::TempDir folder;
  const bool is_free =
      time_declined("a step that every_steps declines", save_when::every_steps(2), folder / "a");
  const bool is_timed_free = time_declined("a step that continuously(1 h) declines",
                                           save_when::continuously(std::chrono::hours(1)), folder / "b");
  make_steps(folder / "many", steps);
  time_directory(folder / "many");
  time_blocking(folder / "many");
  time_loop(folder / "loop", arrays);
  return is_free && is_timed_free ? 0 : 1;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  const std::uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000;
  const std::size_t arrays = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1000;
  return cairn::measure(steps, arrays);
}
