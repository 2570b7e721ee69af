// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/api/context.hpp"
#include "cairn/api/maintain.hpp"
#include "cairn/store/reports.hpp"

namespace cairn {

/// How the checkpoint of a step is called: "100", "step_00000100".
///
/// Invariant: a name has one step at most, and a step has one name.
class StepFormat {
 public:
  /// Digits alone, no more than the number needs.
  StepFormat() = default;
  /// `prefix` and then the number, in `width` digits with zeros before it; 0: as many as it needs.
  ///
  /// Errors: Errc::invalid_argument: the prefix holds '/' or a NUL, starts with '.', ends with ".g" (which would make
  ///         it the name of a second generation), or makes names of more than 200 bytes; more than 20 digits.
  explicit StepFormat(std::string prefix, std::size_t width = 0);

  /// Errors: Errc::invalid_argument when the step has more digits than the width.
  [[nodiscard]] std::string name(std::uint64_t step) const;
  /// The step whose name this is; nothing for any other text.
  [[nodiscard]] std::optional<std::uint64_t> parse(std::string_view name) const noexcept;
  [[nodiscard]] const std::string& prefix() const noexcept { return prefix_; }
  [[nodiscard]] std::size_t width() const noexcept { return width_; }

  friend bool operator==(const StepFormat&, const StepFormat&) = default;

 private:
  std::string prefix_;
  std::size_t width_ = 0;
};

/// Numbers that were measured at a step, by name: "loss", "accuracy".
using Metrics = std::map<std::string, double, std::less<>>;

/// A moment as the clock of a writer of checkpoints had it: of UTC, without a time zone that could differ.
using store::CommitTime;

/// The checkpoint of a step, as far as its manifest tells.
struct StepInfo {
  std::uint64_t step = 0;
  std::filesystem::path path;
  std::optional<CommitTime> committed;  ///< Nothing where it does not say.
  std::uint64_t bytes = 0;              ///< In its files.
  Metrics metrics;
  bool is_pinned = false;  ///< Somebody wants it kept; see Checkpointer::pin.
  std::string problem;     ///< Why the manifest cannot be read, with its path; empty when it can.
};

namespace training {
class Root;
}

struct StepDirectoryOptions {
  StepDirectoryOptions() = default;

  /// How new steps are called.
  StepFormat format;
  /// How others are called that count, too: those of earlier runs.
  std::vector<StepFormat> also_read;
};

/// The checkpoints of a directory that are called as steps. Whatever else lies there is foreign: it is not seen, and
/// never touched.
///
/// Knows them by their names and by a COMMIT in their directories: the latest is found without opening any. What
/// their manifests say is read when it is asked for, once. Other processes may add and remove steps: `reload` sees
/// it. The root may be yet to be made, where the directory above it is there: nothing was saved yet. Once it was seen
/// it is held open: where its path leads to another directory later, as a link was turned, whatever looks there or
/// changes something is an error (Errc::invalid_argument) that names both.
/// Example: StepDirectory directory("run");
///          if (const auto step = directory.latest()) { state = load(directory.path(*step)); }
/// Threads: every method may be called from any thread.
class StepDirectory {
 public:
  /// Numbers of steps, sorted; the view is of one moment and stays as it is.
  using Steps = std::shared_ptr<const std::vector<std::uint64_t>>;

  /// Lists the directory. The context must outlive this.
  ///
  /// Errors: Errc::not_found (nor is there a directory above it); Errc::already_exists (a step in two formats: both
  ///         are named); Errc::invalid_argument (`root` is a checkpoint itself); OS errors: ENOTDIR where it is a
  ///         file.
  explicit StepDirectory(const std::filesystem::path& root, StepDirectoryOptions options = {},
                         const Context& context = default_context());
  ~StepDirectory();
  StepDirectory(StepDirectory&&) noexcept;
  StepDirectory& operator=(StepDirectory&&) = delete;

  /// Absolute: that of the moment when this was made, wherever the program goes later.
  [[nodiscard]] const std::filesystem::path& root() const noexcept;
  /// The directory itself, for the rest of the library.
  [[nodiscard]] const std::shared_ptr<const training::Root>& held_root() const noexcept;

  /// Lists the directory again; forgets what manifests said.
  ///
  /// Errors: as the constructor; what was known before stays.
  void reload();

  [[nodiscard]] Steps steps() const;
  [[nodiscard]] bool has(std::uint64_t step) const;
  /// The highest; nothing when there is none.
  [[nodiscard]] std::optional<std::uint64_t> latest() const;

  /// Where the step lies or, when it is not there, would be saved.
  ///
  /// Errors: Errc::invalid_argument: it has more digits than the width.
  [[nodiscard]] std::filesystem::path path(std::uint64_t step) const;
  /// The directory in which it lies: that of `path` or, where it was overwritten on a file system that cannot
  /// exchange names, another one beside it ("100.g2"), which the next overwriting gives another name.
  [[nodiscard]] std::filesystem::path entry(std::uint64_t step) const;

  /// Returns what its manifest and its pin say. Blocks.
  ///
  /// Errors: Errc::not_found; OS errors on the root. What is wrong with the step itself is its `problem`.
  [[nodiscard]] StepInfo info(std::uint64_t step) const;
  /// The same of all, in their order; without manifests only what names and pins say.
  [[nodiscard]] std::vector<StepInfo> infos(bool with_manifests = true) const;

  /// The step that a name in the root means; nothing for what is foreign.
  [[nodiscard]] std::optional<std::uint64_t> parse(std::string_view name) const;

  /// Keeps a step: no Checkpointer of any process removes one that is pinned. Durable when it returns; it is not an
  /// error when the pin is there already.
  ///
  /// Pins the step that is there when it returns: no Checkpointer overwrites it from then on.
  /// Errors: Errc::not_found: no such step; it leaves no pin. EBUSY: somebody else is at its removal, or replaces it,
  ///         for more than ten seconds, or has replaced it meanwhile, where the file system has no locks; no pin,
  ///         either. OS errors.
  void pin(std::uint64_t step) const;
  /// Takes the pin away, if there is one.
  ///
  /// Errors: OS errors.
  void unpin(std::uint64_t step) const;
  /// Looks at the disk: another process may have pinned it.
  [[nodiscard]] bool is_pinned(std::uint64_t step) const;

  /// Removes a step that nobody has pinned; who pins it meanwhile either keeps it, or is told that it is not there.
  /// False, and nothing done, when it is pinned, or somebody pins or removes it at this moment. Blocks.
  ///
  /// `newer`: a later step that stays, for whose sake this one goes. Where it is not there any more, as somebody has
  /// gone back behind it, nothing is done, either.
  /// Errors: as remove_checkpoint; not Errc::not_found: it is removed, whichever process did it.
  bool remove_unless_pinned(std::uint64_t step, const RemoveOptions& options, const Context& context,
                            std::optional<std::uint64_t> newer = std::nullopt);

  /// Returns whether removals of this object have failed, or have not come back in time, when the step was
  /// gone and its bytes were not.
  [[nodiscard]] bool has_unfinished_removals() const;
  /// Goes on with those. Blocks.
  ///
  /// Errors: the first failure, once all were tried; Errc::timed_out, also where one of them has not come back yet.
  void finish_removals(const RemoveOptions& options, const Context& context) const;

  /// The checkpoints that are called otherwise than steps, in no order, as the last list has found them.
  [[nodiscard]] std::vector<std::string> others() const;

  /// Lists the directory again, but keeps what manifests of steps that are still there said. Those that could not be
  /// read are read again.
  void refresh();
  /// Forgets what the manifest of a step said: it is read again when it is asked for.
  void doubt(std::uint64_t step);
  /// Knows a step from now on that was saved at `path(step)`, and nothing of what its manifest says.
  void add(std::uint64_t step);
  /// Does not know it any more. The disk is left alone.
  void forget(std::uint64_t step);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn
