// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/cairn.hpp"

#include "support/fails.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace cairn::testing {

/// A directory for checkpoints, and a context with threads and a budget that any machine has.
class ApiTest : public ::testing::Test {
 protected:
  static ContextOptions small() {
    ContextOptions options;
    options.engine = io::EngineKind::threads;
    options.worker_threads = 2;
    options.staging_bytes = std::size_t{64} << 20;
    return options;
  }

  explicit ApiTest(ContextOptions options = small()) { context_.emplace(std::move(options)); }

  [[nodiscard]] std::filesystem::path target() const { return directory_ / "checkpoint"; }

  void save_items(const Checkpointables& items, const SaveOptions& options = {}) const {
    save_checkpointables(target(), items, options, *context_);
  }

  [[nodiscard]] Loaded load_items(const Requests& requests = {}) const {
    return load_checkpointables(target(), requests, LoadOptions(), *context_);
  }

  /// What lies in the directory that holds the checkpoints.
  [[nodiscard]] std::vector<std::string> left() const { return list_tree(directory_.path()); }

  TempDir directory_;
  std::optional<Context> context_;
  const Tree tree_ = {{"step", 7}};
};

}  // namespace cairn::testing
