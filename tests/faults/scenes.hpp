// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/internal/engine.hpp"
#include "io/internal/syscalls.hpp"

namespace cairn::faults {

/// On what an operation runs.
struct Machine {
  io::EngineKind engine = io::EngineKind::automatic;
  std::shared_ptr<io::Syscalls> syscalls;        ///< Null: the library's own; mutants put theirs here.
  std::chrono::milliseconds patience{30'000};    ///< More than any case needs, on a busy machine too.
  std::chrono::milliseconds settle_time{2'000};  ///< For threads, the kernel's too, to go.
  /// How long a slow call takes. The save that makes it is cancelled meanwhile, and answered long before. 0: none is.
  std::chrono::milliseconds slowness{0};
};

/// What an operation said of itself.
struct Verdict {
  bool is_done = false;            ///< It threw nothing.
  std::string text;                ///< What it threw; or else what it reported: problems, fallbacks.
  std::error_code code;            ///< Of what it threw.
  bool is_error = false;           ///< It threw an Error.
  bool is_no_memory = false;       ///< It threw std::bad_alloc.
  bool has_ended_process = false;  ///< It said nothing: a small allocation failed, and nobody could be told.
};

/// One operation, with what it finds, and what must be true afterwards, however it ended.
class Scene {
 public:
  Scene() = default;
  virtual ~Scene() = default;
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  [[nodiscard]] virtual std::string_view name() const = 0;
  /// The folder that errors must name.
  [[nodiscard]] virtual std::string root() const = 0;
  /// Makes what the operation finds.
  virtual void prepare() = 0;
  /// The operation. Returns what it reports, when it does not throw.
  virtual std::string act(const Machine& machine) = 0;
  /// Looks at what is left. Returns what is wrong; nothing when all is well.
  virtual std::string judge(const Verdict& verdict) = 0;
};

/// How a scene is made, and what it is called.
struct SceneMaker {
  std::string name;
  std::function<std::unique_ptr<Scene>()> make;
};

/// Saves, first ones and overwriting, on all kinds of file systems; loads; metadata; verify; recovery; removal.
[[nodiscard]] std::vector<SceneMaker> all_scenes();

/// Those of them that save: they can be stopped.
[[nodiscard]] std::vector<SceneMaker> save_scenes();

/// A save of a small state under a name that is free; over an old checkpoint.
[[nodiscard]] std::unique_ptr<Scene> small_save();
[[nodiscard]] std::unique_ptr<Scene> small_overwrite();

}  // namespace cairn::faults
