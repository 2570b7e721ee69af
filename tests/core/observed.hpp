// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include <gmock/gmock.h>

#include "base/internal/clock.hpp"
#include "core/blob_handler.hpp"
#include "core/internal/start.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::testing {

inline constexpr std::size_t kMebi = std::size_t{1} << 20;

/// Every look at it costs a millisecond.
class TickingClock final : public Clock {
 public:
  [[nodiscard]] std::chrono::system_clock::time_point now() const override {
    return std::chrono::system_clock::from_time_t(1769860800);
  }
  [[nodiscard]] std::chrono::steady_clock::time_point steady_now() const override {
    return std::chrono::steady_clock::time_point(std::chrono::milliseconds(++ticks_));
  }

 private:
  mutable std::atomic<int> ticks_{0};
};

/// Saves and loads of blobs, in a context whose clock ticks.
class Observed : public ::testing::Test {
 protected:
  static ContextOptions ticking() {
    ContextOptions options;
    options.engine = io::EngineKind::threads;
    options.worker_threads = 2;
    options.staging_bytes = 64 * kMebi;
    options.clock = std::make_shared<TickingClock>();
    return options;
  }

  explicit Observed(ContextOptions options = ticking()) { context_.emplace(std::move(options)); }

  [[nodiscard]] std::filesystem::path target() const { return directory_ / "checkpoint"; }

  SaveResult save(const Blob& blob, SaveOptions options = {}) const {
    options.overwrite = true;
    return core::start_save(target(), {{"blob", blob}}, registry_, options, *context_).wait();
  }

  Loaded load(const LoadOptions& options = {}) const {
    return core::start_load(target(), {}, registry_, options, *context_).wait();
  }

  TempDir directory_;
  RegistrySnapshot registry_ = blob_registry();
  std::optional<Context> context_;
};

}  // namespace cairn::testing
