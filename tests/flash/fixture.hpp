// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "cairn/flash/flash_checkpointer.hpp"

#include "api/fixture.hpp"
#include "flash/steps.hpp"
#include "support/temp_dir.hpp"

namespace cairn::flash {

/// A FlashCheckpointer with a directory in memory, and one on disk.
class FlashTest : public testing::ApiTest {
 protected:
  FlashTest() : ApiTest(telling(this)) {}

  static ContextOptions telling(FlashTest* test) {
    ContextOptions options = small();
    options.on_lost_failure = [test](const std::string&, const std::exception_ptr& failure) {
      ++test->told_;
      test->last_told_ = describe(failure);
    };
    return options;
  }

  void SetUp() override {
    if (!std::filesystem::is_directory(testing::kSharedMemory)) {
      GTEST_SKIP() << "no " << testing::kSharedMemory;
    }
    above_ = std::make_unique<testing::TempDir>(testing::kSharedMemory);
    options_.memory = memory();
    options_.disk.save = save_when::every_steps(1'000'000);
    start();
  }

  void TearDown() override { run_.reset(); }

  [[nodiscard]] std::filesystem::path memory() const { return *above_ / "run"; }
  [[nodiscard]] std::filesystem::path root() const { return directory_ / "run"; }
  [[nodiscard]] std::filesystem::path image(std::uint64_t step) const {
    return memory() / "r00000" / std::to_string(step);
  }

  void start() { run_ = std::make_unique<FlashCheckpointer>(root(), options_, *context_); }
  void start_again() {
    run_.reset();
    start();
  }

  void start_in(ContextOptions how) {
    run_.reset();
    context_.emplace(std::move(how));
    start();
  }

  FlashResponse save(std::uint64_t step, const StepOptions& how = {}) {
    const Tree state = state_at(step);
    FlashResponse response = run_->save(step, {{"state", state}}, how);
    response.wait_in_memory();
    return response;
  }
  static StepOptions forced() {
    StepOptions how;
    how.force = true;
    return how;
  }

  void expect_resumed(std::uint64_t step, ResumedFrom from) {
    std::optional<FlashResumed> resumed = run_->resume({"state"});
    ASSERT_TRUE(resumed);
    EXPECT_EQ(resumed->step, step) << resumed->why;
    EXPECT_EQ(resumed->from, from) << resumed->why;
    EXPECT_EQ(resumed->loaded.take<Tree>("state"), state_at(step));
  }

  /// Changes a byte of the arrays.
  void alter(std::uint64_t step) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(image(step))) {
      if (entry.is_regular_file() && entry.file_size() > (std::uintmax_t{1} << 20)) {
        std::string text = testing::read_text(entry.path());
        text.back() = static_cast<char>(text.back() ^ 1);
        testing::write_text(entry.path(), text);
      }
    }
  }

  std::atomic<int> told_ = 0;
  std::string last_told_;
  std::unique_ptr<testing::TempDir> above_;
  FlashOptions options_;
  std::unique_ptr<FlashCheckpointer> run_;
};

}  // namespace cairn::flash
