// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "crash/simulated_machine.hpp"
#include "io/internal/chunk_hash.hpp"
#include "store/internal/manifest.hpp"
#include "store/internal/staged_directory.hpp"

namespace cairn::crash {

/// Something that programs do to a directory of checkpoints, with what readers may find meanwhile.
struct Scene {
  std::string name;
  bool has_exchange = true;
  bool has_no_replace = true;
  /// Makes what is there before; all of it becomes durable.
  std::function<void(SimulatedMachine&)> prepare;
  std::function<Promise()> promise;  ///< From the beginning on.
  /// Does it, and promises more as soon as it may. What it throws is a failure of the protocol.
  std::function<void(SimulatedMachine&)> act;
  /// Goes on, after a recovery, where the power cut came, and returns true: then the first target has one of the
  /// contents that were promised at the beginning. False: nobody can say what it has. `promise` is that of the
  /// moment. Empty: nobody goes on, and recovery leaves nothing but checkpoints.
  std::function<bool(SimulatedProcess&, const Promise&)> resume = {};
  bool has_links = true;
};

/// Saves, overwrites in each of their forms, removals, an abandoned save, and two programs at once.
[[nodiscard]] const std::vector<Scene>& all_scenes();
[[nodiscard]] const Scene& scene(std::string_view name);

/// Contents of the same paths and sizes, so that nothing but the bytes tells them apart.
[[nodiscard]] const Content& old_content();
[[nodiscard]] const Content& new_content();
[[nodiscard]] const Content& later_content();

/// The manifest of a save, without its files.
[[nodiscard]] store::Manifest manifest_of_save();
/// Writes one of its files, and makes its data durable.
void write_file(store::StagedDirectory& staged, const std::string& path, const std::string& text);
[[nodiscard]] io::FileDigest digest_of(const std::string& path, const std::string& text);

/// Saves `content` at `target` (a name below `kRunPath`).
void save(SimulatedProcess& process, const std::string& target, const Content& content,
          bool overwrite = false);

/// Likewise, in the way that `options` say.
void save_with(SimulatedProcess& process, const std::string& target, const Content& content,
               const store::StagedOptions& options);

/// The path of a checkpoint.
[[nodiscard]] std::string path_of(const std::string& target);

}  // namespace cairn::crash
