// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <mpi.h>

#include "cairn/coord/coordinator.hpp"

#include "core/internal/start.hpp"
#include "core/rank_parts.hpp"
#include "support/temp_dir.hpp"

namespace cairn::testing {

inline constexpr std::chrono::seconds kLostAfter{30};  // Longer than any machine is busy.
inline constexpr std::chrono::seconds kSoonLostAfter{3};

/// Ends a rank that has outlived another one.
[[noreturn]] inline void survive(std::size_t rank) {
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // Its transport passes on what it has heard.
  std::fprintf(stderr, "rank %zu: survived\n", rank);
  std::fflush(stderr);
  ::_exit(0);  // MPI_Finalize waits for all.
}

/// A directory that all ranks know; rank 0 removes it.
class SharedDirectory {
 public:
  explicit SharedDirectory(const std::shared_ptr<coord::Coordinator>& coordinator) {
    if (coordinator->rank() == 0) {
      own_.emplace();
    }
    std::string path = own_ ? own_->path().string() : "";
    path.resize(1000);
    MPI_Bcast(path.data(), 1000, MPI_CHAR, 0, MPI_COMM_WORLD);
    path_ = path.c_str();
  }

  [[nodiscard]] std::filesystem::path target() const { return path_ / "step"; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::optional<TempDir> own_;
  std::filesystem::path path_;
};

class Saver {
 public:
  explicit Saver(const std::shared_ptr<coord::Coordinator>& coordinator, const PartHooks& hooks = {},
                 std::shared_ptr<io::Syscalls> syscalls = nullptr)
      : rank_(coordinator->rank()) {
    HandlerRegistry registry;
    registry.add(std::make_shared<const PartHandler>(std::make_shared<const PartHooks>(hooks)));
    registry_ = registry.snapshot();
    ContextOptions options;
    options.coordinator = coordinator;
    options.staging_bytes = 16 << 20;
    options.syscalls = std::move(syscalls);
    context_.emplace(std::move(options));
  }

  AsyncResponse start(const std::filesystem::path& target) const {
    SaveOptions options;
    options.overwrite = true;
    options.deadline = 2 * kLostAfter;
    const Part part(fmt::format("{};", rank_));
    return core::start_save(target, {{"part", part}}, registry_, options, *context_);
  }
  SaveResult save(const std::filesystem::path& target) const { return start(target).wait(); }

  /// The parts of all ranks, read by all together.
  [[nodiscard]] std::string load_together(const std::filesystem::path& target) const {
    LoadOptions options;
    options.together = true;
    options.deadline = kLostAfter;
    return core::start_load(target, {}, registry_, options, *context_).wait().take<Part>("part").text;
  }

  /// The parts of all ranks, read by this one alone.
  [[nodiscard]] std::string load(const std::filesystem::path& target) const {
    const Context alone;
    return core::start_load(target, {}, registry_, LoadOptions(), alone).wait().take<Part>("part").text;
  }

 private:
  const std::size_t rank_;
  RegistrySnapshot registry_;
  std::optional<Context> context_;
};

}  // namespace cairn::testing
