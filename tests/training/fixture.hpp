// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "cairn/training/checkpointer.hpp"

#include "api/fixture.hpp"
#include "support/manual_clock.hpp"

namespace cairn::testing {

/// A root for the checkpoints of a training, in a context whose clock stands still until it is set forward.
class TrainingTest : public ApiTest {
 protected:
  static ContextOptions with_clock(std::shared_ptr<ManualClock> clock, ContextOptions options = small()) {
    options.clock = std::move(clock);
    return options;
  }

  explicit TrainingTest(ContextOptions options = small())
      : TrainingTest(std::make_shared<ManualClock>(), std::move(options)) {}
  TrainingTest(std::shared_ptr<ManualClock> clock, ContextOptions options)
      : ApiTest(with_clock(clock, std::move(options))), clock_(std::move(clock)) {}

  [[nodiscard]] std::filesystem::path root() const { return directory_ / "run"; }

  /// Saves a step as a program would that knows nothing of trainings.
  void save_alone(const std::string& name) const {
    cairn::save(root() / name, {{"step", name}}, {}, *context_);
  }

  /// A byte of the data is not what was written: only a load finds it.
  void alter(std::uint64_t step) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root() / std::to_string(step))) {
      if (entry.path().extension() == ".safetensors" || entry.path().filename() == "index.fb") {
        std::string text = read_text(entry.path());
        text.back() = static_cast<char>(text.back() ^ 1);
        write_text(entry.path(), text);
      }
    }
  }

  /// The manifest is not what COMMIT vouches for.
  void tear_manifest(std::uint64_t step) const {
    write_text(root() / std::to_string(step) / "checkpoint.json", "{");
  }

  std::shared_ptr<ManualClock> clock_;
};

/// Cannot be saved: its background phase fails.
struct Unsavable {
  static constexpr bool kIsSavedOnly = true;

  Awaitable<Background<>> save(SaveContext /*context*/) const { co_return fail(); }

 private:
  static Background<> fail() {
    throw std::runtime_error("cannot be saved");
    co_return;
  }
};

class Checkpointers : public TrainingTest {
 protected:
  using TrainingTest::TrainingTest;

  static CheckpointerOptions when(SavePolicy policy) {
    CheckpointerOptions options;
    options.save = std::move(policy);
    return options;
  }
  static CheckpointerOptions keeping(KeepPolicy policy) {
    CheckpointerOptions options;
    options.keep = std::move(policy);
    return options;
  }
  [[nodiscard]] std::unique_ptr<Checkpointer> make(CheckpointerOptions options = {}) const {
    return std::make_unique<Checkpointer>(root(), std::move(options), *context_);
  }
  /// Saves a tree that knows its step.
  static StepResponse save(Checkpointer& run, std::uint64_t step, const StepOptions& options = {}) {
    const Tree tree = {{"step", step}};
    return run.save(step, {{"state", tree}}, options);
  }
  /// What saves a step whatever policies say of it, and whatever is above it.
  static StepOptions forced() {
    StepOptions options;
    options.force = true;
    return options;
  }
  static std::uint64_t stored_step(Loaded loaded) {
    return loaded.take<Tree>("state").get<std::uint64_t>("step");
  }
  static StepResponse save_unsavable(Checkpointer& run, std::uint64_t step) {
    const Unsavable unsavable;
    return run.save(step, {{"state", unsavable}});
  }
};

}  // namespace cairn::testing
