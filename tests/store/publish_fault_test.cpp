// SPDX-License-Identifier: Apache-2.0
// Lets the n-th call of every operation fail in a whole save, for every n, and looks at what is left.
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "io/faulty_syscalls.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/recovery.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/temp_dir.hpp"
#include "support/unsynced_syscalls.hpp"

namespace cairn::store {
namespace {

using testing::TempDir;

enum class Scene { fresh, overwrite, generation, marker, generation_without_links, marker_without_links };

std::string name_of(Scene scene) {
  switch (scene) {
    case Scene::fresh:
      return "Fresh";
    case Scene::overwrite:
      return "Overwrite";
    case Scene::generation:
      return "Generation";
    case Scene::marker:
      return "Marker";
    case Scene::generation_without_links:
      return "GenerationWithoutLinks";
    case Scene::marker_without_links:
      return "MarkerWithoutLinks";
  }
  return "";
}

/// What a save reported.
enum class Verdict { committed, aborted, unknown };

std::optional<std::string> load(const std::filesystem::path& target) {
  try {
    return load_sample(target);
  } catch (const Error& error) {
    // Not committed: in marker mode the name comes before the commit, and a fault may have kept it from going.
    EXPECT_TRUE(error.code() == Errc::not_found || error.code() == Errc::not_committed) << error.what();
    return std::nullopt;
  }
}

using Param = std::tuple<Scene, bool>;

class SaveWithFault : public ::testing::TestWithParam<Param> {
 protected:
  SaveWithFault() {
    io::EngineOptions options;
    options.syscalls = &syscalls_;
    options.threads = 1;
    engine_ = io::make_engine(io::EngineKind::threads, options).engine;
    scene_ = std::get<0>(GetParam());
    syscalls_.lacks_rename_modes = makes_generation();
    syscalls_.link_error =
        scene_ == Scene::generation_without_links || scene_ == Scene::marker_without_links ? EPERM : 0;
  }

  [[nodiscard]] bool makes_generation() const {
    return scene_ == Scene::generation || scene_ == Scene::generation_without_links;
  }

  StagedOptions options() const {
    StagedOptions options;
    options.overwrite = scene_ == Scene::overwrite || makes_generation();
    const bool is_by_marker = scene_ == Scene::marker || scene_ == Scene::marker_without_links;
    options.commit_mode = is_by_marker ? CommitMode::marker : CommitMode::automatic;
    return options;
  }

  Verdict save(const std::filesystem::path& target, const std::string& text) {
    try {
      save_sample(*engine_, target, text, options());
      return Verdict::committed;
    } catch (const Error& error) {
      return error.code() == Errc::commit_unknown ? Verdict::unknown : Verdict::aborted;
    }
  }

  /// Saves with the fault; returns false when the fault was never reached.
  bool try_fault(const io::Fault& fault) {
    const TempDir temp;
    const std::filesystem::path target = temp / "step";
    const bool has_old = options().overwrite;
    if (has_old) {
      save_sample(*engine_, target, "old");
    }
    const std::optional<std::string> old = has_old ? std::optional<std::string>("old") : std::nullopt;
    syscalls_.plan(fault);

    const Verdict verdict = save(target, "new");

    const bool is_hit = syscalls_.hits() > 0;
    syscalls_.clear();
    const std::optional<std::string> found = load(target);
    // Without links COMMIT may be half.
    const bool may_be_old = verdict == Verdict::unknown && syscalls_.link_error != 0 && found == old;
    EXPECT_EQ(found, verdict == Verdict::aborted || may_be_old ? old : "new") << "right after the save";
    for (int i = 0; i < 2; ++i) {
      recover(testing::unsynced_syscalls(), temp.path());
      EXPECT_EQ(load(target), found) << "after recovery";
    }
    const auto left = std::distance(std::filesystem::directory_iterator(temp.path()), {});
    EXPECT_EQ(left, found ? 1 : 0) << "recovery leaves the checkpoint and nothing else";
    return is_hit;
  }

  io::FaultySyscalls syscalls_{testing::unsynced_syscalls()};
  std::unique_ptr<io::Engine> engine_;
  Scene scene_ = Scene::fresh;
};

TEST_P(SaveWithFault, LeavesTheOldOrTheNewCheckpoint) {
  const int times = std::get<1>(GetParam()) ? io::kForEver : 1;
  const int faults = io::try_each_fault(times, [this](const auto& fault) { return try_fault(fault); });
  EXPECT_GT(faults, 40);
}

INSTANTIATE_TEST_SUITE_P(
    Scenes, SaveWithFault,
    ::testing::Combine(::testing::Values(Scene::fresh, Scene::overwrite, Scene::generation, Scene::marker,
                                         Scene::generation_without_links, Scene::marker_without_links),
                       ::testing::Bool()),
    [](const auto& tested) {
      return name_of(std::get<0>(tested.param)) + (std::get<1>(tested.param) ? "FromThenOn" : "Once");
    });

}  // namespace
}  // namespace cairn::store
