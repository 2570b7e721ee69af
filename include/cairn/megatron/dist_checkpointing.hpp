// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/api/context.hpp"
#include "cairn/array/array.hpp"
#include "cairn/core/load.hpp"
#include "cairn/core/save.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/megatron/abstract_state_dict.hpp"
#include "cairn/megatron/dict_functions.hpp"
#include "cairn/megatron/save_rules.hpp"
#include "cairn/megatron/state_dict.hpp"
#include "cairn/megatron/strategies.hpp"
#include "cairn/observe/report.hpp"

namespace cairn::megatron {

struct StateDictSaveOptions {
  StateDictSaveOptions() = default;

  /// How to save. Null: the strategy for `backend`, where that is given; else copies are divided so that all ranks
  /// write equally much, as all saves do.
  std::shared_ptr<const SaveStrategy> strategy;
  std::optional<Backend> backend;
  Strategies strategies = Strategies::built_in();
  StateDictSaveRules rules;
  /// Kept with the plain values, under "content_metadata"; null: none.
  Tree content_metadata;
  cairn::SaveOptions save;
};

struct StateDictLoadOptions {
  StateDictLoadOptions() = default;

  /// How to load. Null: the strategy for what lies there.
  std::shared_ptr<const LoadStrategy> strategy;
  Strict strict = Strict::assume_ok_unexpected;
  bool checks_access = true;  ///< As AbstractStateDict::checks_access.
  Strategies strategies = Strategies::built_in();
  /// Each rank loads by itself, though the context has others. Else all ranks call the load, which is `together`.
  bool is_alone = false;
  cairn::LoadOptions load;
};

/// Saves a state dict as the checkpoint at `path`. All ranks of the context call it, each with its own dict, which
/// stays as it is. Returns when the checkpoint is durable.
///
/// Errors: the same on all ranks, naming key, box and ranks. Those of save_checkpointables; Errc::incomplete_shards and
///         Errc::overlapping_shards where main replicas do not have each element once, and Errc::invalid_argument for a
///         dict that says two things of a key.
/// Threads: as save_checkpointables.
cairn::SaveResult save(const StateDict& dict, const std::filesystem::path& path,
                       const StateDictSaveOptions& options = {}, const Context& context = default_context());

/// The same in the background; see save_checkpointables_async.
[[nodiscard]] AsyncResponse save_async(const StateDict& dict, const std::filesystem::path& path,
                                       const StateDictSaveOptions& options = {},
                                       const Context& context = default_context());

/// Loads what `requested` asks for, into the memory that its tensors bring. All ranks of the context call it unless
/// StateDictLoadOptions::is_alone. `path` may be a checkpoint of Cairn's or a folder of Megatron-Core's.
///
/// Elements are converted to the dtype of the request, also where values change.
/// Errors: the same on all ranks. Errc::not_found for a key that is not stored, as `strict` says; Errc::shape_mismatch;
///         Errc::structure_mismatch where a plain value of the checkpoint has the place of something else.
[[nodiscard]] LoadedStateDict load(const StateDict& requested, const std::filesystem::path& path,
                                   const StateDictLoadOptions& options = {},
                                   const Context& context = default_context());

// The following are each rank's own.

/// The plain values of a checkpoint. Reads nothing else.
[[nodiscard]] Tree load_common_state_dict(const std::filesystem::path& path,
                                          const Context& context = default_context());

/// What a save was given as `content_metadata`; nothing where it was given none.
[[nodiscard]] std::optional<Tree> load_content_metadata(const std::filesystem::path& path,
                                                        const Context& context = default_context());
/// The same of a state, or of the plain values, that were loaded.
[[nodiscard]] std::optional<Tree> content_metadata_of(const Tree& loaded);

// What Cairn cannot load of another program's checkpoint goes into `left_out`. Null: it is Errc::structure_mismatch,
// which names the key, so that nobody takes some tensors for all.

/// All tensors by key, without data, each as one part.
[[nodiscard]] StateDict load_tensors_metadata(const std::filesystem::path& path,
                                              const Context& context = default_context(),
                                              std::vector<LeftOutKey>* left_out = nullptr);

/// The same with all objects, by unique key. Older names of objects get the grid that the objects of their key have.
[[nodiscard]] StateDict load_sharded_metadata(const std::filesystem::path& path,
                                              const Context& context = default_context(),
                                              std::vector<LeftOutKey>* left_out = nullptr);

/// All tensors by key, whole.
[[nodiscard]] std::map<std::string, Array> load_plain_tensors(const std::filesystem::path& path,
                                                              const Context& context = default_context(),
                                                              std::vector<LeftOutKey>* left_out = nullptr);

/// In which form a checkpoint is; nothing where none lies there, or one without a state dict.
[[nodiscard]] std::optional<Backend> backend_of(const std::filesystem::path& path);

[[nodiscard]] bool check_is_distributed_checkpoint(const std::filesystem::path& path);

struct RemovedTensors {
  std::vector<std::string> keys;
  std::uint64_t bytes_left =
      0;  ///< Of their elements that lie in one file with others, which stays as it is.
};

/// Replaces the checkpoint by one without the tensors whose key begins with `key_prefix`; where there are none, leaves
/// it as it is. Files that have others, too, stay as they are. One rank calls it.
///
/// Errors: Errc::invalid_argument for a folder of another program's; Errc::cancelled when somebody else replaces the
///         checkpoint meanwhile; those of a save.
RemovedTensors remove_sharded_tensors(const std::filesystem::path& path, std::string_view key_prefix);

}  // namespace cairn::megatron
