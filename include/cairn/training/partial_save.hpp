// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

#include "cairn/api/context.hpp"
#include "cairn/contract/checkpointable.hpp"
#include "cairn/core/context.hpp"
#include "cairn/core/save.hpp"
#include "cairn/store/reports.hpp"

namespace cairn {

struct PartialSaveOptions {
  PartialSaveOptions() = default;

  /// The parts of one checkpoint have this alike, where several programs add them: those of another run are refused.
  /// Any UTF-8 text.
  std::string run;
  /// Replace a checkpoint that is there, in `finalize`.
  bool overwrite = false;
};

/// A checkpoint that is put together part by part: for state that is never in memory at once, or comes from several
/// programs, one after the other.
///
/// Parts are stored next to the target, in `.partial-<name>`, as checkpoints of their own; nothing of them is found
/// under the target's name before `finalize`. Another PartialSave for the same target goes on with the parts that are
/// there. Every call blocks.
/// Example: cairn::PartialSave partial("run/100");
///          for (std::size_t layer = partial.parts(); layer < layers; ++layer) {
///            partial.add({{"state", weights_of(layer)}});
///          }
///          partial.finalize();
/// Threads: one at a time. When two programs work at the same time, one gets EBUSY.
class PartialSave {
 public:
  /// Looks for parts. The context must outlive this, and have one rank.
  ///
  /// Errors: Errc::already_exists: the target is there, not to be replaced, and not made of the parts that are there;
  ///         or what `.partial-<name>` holds was not made by Cairn (it is named): no part, and no mark of a program.
  ///         Errc::invalid_argument: parts of another run (both are named) or of several ranks; a context of several;
  ///         no name for a checkpoint. What is wrong with a part, as load_checkpointables; Errc::malformed_metadata:
  ///         a part is missing below others (it is named). The parts stay; `abandon(target)` removes them.
  ///         Errc::closed in a process that was forked from the context's. OS errors: EBUSY while another program
  ///         adds.
  explicit PartialSave(const std::filesystem::path& target, PartialSaveOptions options = {},
                       const Context& context = default_context());
  ~PartialSave();
  PartialSave(const PartialSave&) = delete;
  PartialSave& operator=(const PartialSave&) = delete;

  /// Saves a part; it is durable when this returns. Leaves of trees are put together under the name of their
  /// checkpointable; a checkpointable of another kind is of one part. Where `options.custom_metadata` is an object
  /// its members join those of the other parts, the later ones where two have the same name; so do
  /// `options.annotations`. `options.overwrite` does not count, and `options.create_parents` only for the first part.
  ///
  /// Errors: Errc::already_exists: a leaf that another part has, or one above or below it, or a checkpointable of
  ///         another part that is not a tree (both are named): the part is removed. Errc::invalid_argument: custom
  ///         metadata that is neither an object nor null, or too large together with that of the other parts.
  ///         Errc::closed after `finalize` and `abandon`, and for good once parts that this has found or added are
  ///         gone: it says what became of them. As the constructor and save_checkpointables.
  SaveResult add(const Checkpointables& items, const SaveOptions& options = {});

  /// Makes the checkpoint of all parts, durable when this returns, and removes them. No byte of an array is read or
  /// written: data files get another name (a hard link), indexes are merged. Files are copied, and verified, where
  /// the file system has no hard links. After a crash at any moment the parts or the checkpoint are there, whole;
  /// then it is called again.
  ///
  /// Makes one checkpoint of all parts. Arrays are verified when they are loaded, by the hashes that were
  /// made when they were added. Returns what lay beside the parts and is not theirs, and was kept.
  /// Errors: Errc::not_found: there is no part. Errc::already_exists: the target is there, and not to be replaced.
  ///         Errc::closed: as `add`. Errc::commit_unknown: call it again. What is wrong with a part. OS errors. The
  ///         parts stay.
  store::RemovalReport finalize();

  /// Removes all parts. Only what their manifests list goes, and the directory when it is empty then.
  ///
  /// Returns what was kept, and where: also a part whose manifest is damaged, because its files cannot be told from
  /// others.
  /// Errors: OS errors: EBUSY while another program adds.
  store::RemovalReport abandon();
  /// The same without a PartialSave, which cannot be made where a part is damaged, missing, or of another run.
  /// Succeeds where there are none.
  ///
  /// Errors: as above; Errc::invalid_argument: no name for a checkpoint.
  static store::RemovalReport abandon(const std::filesystem::path& target,
                                      const Context& context = default_context());

  /// How many there are.
  [[nodiscard]] std::size_t parts() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn
