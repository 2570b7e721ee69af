// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/base/timeout.hpp"
#include "cairn/training/step_directory.hpp"

namespace cairn {

/// Says which steps to keep: a value, without a state of its own, asked after each commit.
///
/// Says which steps to keep. A step that it does not keep is removed, but for those that are never removed;
/// see plan_retention. It is asked again where the manifest of a step turns out to be unreadable: without
/// that step. Before a step is saved below others it is asked whether that one would be kept; see
/// Checkpointer::save.
/// Example: options.keep = keep::any_of({keep::latest(3), keep::best("loss", 1, Prefer::lower)});
/// Threads: asked on a thread of the Checkpointer's or, about a step that is saved below others, on one of the
///          context's or the one that saves; one at a time.
class KeepPolicy {
 public:
  /// For each of `steps`, in their order, whether to keep it. They are sorted by step; `now` is the time of the day.
  using Function = std::function<std::vector<bool>(std::span<const StepInfo> steps, CommitTime now)>;

  /// Any function; the manifests of the steps are read for it, each once.
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, KeepPolicy> &&
           std::is_invocable_r_v<std::vector<bool>, F&, std::span<const StepInfo>, CommitTime>)
      KeepPolicy(F function)  // NOLINT: implicit, so that a lambda is one.
      : KeepPolicy("a policy of the program's own", true, Function(std::move(function))) {}

  /// `name` is for messages. One that does not `read_manifests` may be given steps, paths and pins, and nothing else.
  KeepPolicy(std::string name, bool reads_manifests, Function function);

  /// Errors: Errc::invalid_argument when it answers for more or fewer steps than there are; what it throws; the
  ///         policy is named.
  [[nodiscard]] std::vector<bool> operator()(std::span<const StepInfo> steps, CommitTime now) const;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] bool reads_manifests() const noexcept { return reads_manifests_; }
  /// Returns the policies of an `any_of`, each of which says for itself why a step is kept; else empty.
  [[nodiscard]] const std::vector<KeepPolicy>& parts() const noexcept { return parts_; }
  /// Returns the metric by which it goes, and without which it keeps a step; else empty. Where ten steps lack it,
  /// ContextOptions::on_problem is told once.
  [[nodiscard]] const std::string& metric() const noexcept { return metric_; }
  /// For a program's own policy, which may go by one, too.
  void set_metric(std::string name) { metric_ = std::move(name); }

 private:
  friend KeepPolicy keep_any_of(std::vector<KeepPolicy> policies);

  std::string name_;
  bool reads_manifests_;
  Function function_;
  std::vector<KeepPolicy> parts_;
  std::string metric_;
};

/// As keep::any_of.
[[nodiscard]] KeepPolicy keep_any_of(std::vector<KeepPolicy> policies);

/// Which of two values of a metric is better.
enum class Prefer : std::uint8_t { lower, higher };

/// Says what becomes of steps at which a metric was not measured.
enum class Unmeasured : std::uint8_t { keep, drop };

namespace keep {

[[nodiscard]] KeepPolicy all();

/// The `count` highest. With 0 only what is never removed stays.
[[nodiscard]] KeepPolicy latest(std::size_t count);

/// Multiples of `interval`; step 0 is one.
///
/// Errors: Errc::invalid_argument: an interval of 0. So do all that take one.
[[nodiscard]] KeepPolicy every_steps(std::uint64_t interval);

/// The first, and each that is `interval` or more above the last that is kept.
[[nodiscard]] KeepPolicy steps_apart(std::uint64_t interval);

/// Keeps, of the steps that are nearest to the same multiple of `interval`, the one nearest to it, or the later of
/// two. A step half way between two multiples belongs to the upper one.
[[nodiscard]] KeepPolicy nearest_to_every(std::uint64_t interval);

/// The first, and each that was committed `interval` or more after the last that is kept. Steps that do not say when
/// are kept, and so is one that is older than its predecessor: a clock was set back, and time is counted from there.
[[nodiscard]] KeepPolicy time_apart(Timeout interval);

/// These and no others.
[[nodiscard]] KeepPolicy at_steps(std::vector<std::uint64_t> steps);

/// The `count` best by the metric `name`, of equal ones the later. One that is not finite is never best.
///
/// The policy fails with Errc::not_found where steps without it are to be dropped and no step has it: a name that was
/// mistyped removes nothing.
[[nodiscard]] KeepPolicy best(std::string name, std::size_t count, Prefer prefer,
                              Unmeasured unmeasured = Unmeasured::keep);

/// The same by what a function makes of a step; nothing where it was not measured. `name` is for messages.
[[nodiscard]] KeepPolicy best_by(std::string name,
                                 std::function<std::optional<double>(const StepInfo& step)> score,
                                 std::size_t count, Prefer prefer, Unmeasured unmeasured = Unmeasured::keep);

/// Keeps the steps that were committed less than `age` ago, that do not say when, or that lie in the future.
///
/// Errors: Errc::invalid_argument: an age that is not above 0.
[[nodiscard]] KeepPolicy younger_than(Timeout age);

/// Keeps the steps that one of these policies keeps.
[[nodiscard]] KeepPolicy any_of(std::vector<KeepPolicy> policies);

}  // namespace keep

/// A step that stays, and why: "latest(3)", "newest", "pinned", "being saved or loaded".
struct KeptStep {
  std::uint64_t step = 0;
  std::string why;  ///< All reasons, with commas between them.
};

/// Decides for each step of a root whether it stays or goes; each is in one of the two lists.
struct RetentionPlan {
  std::vector<KeptStep> kept;
  std::vector<StepInfo> removed;
};

/// Facts about steps that their manifests do not have.
struct StepUse {
  std::set<std::uint64_t> in_use;   ///< Being saved or loaded.
  std::set<std::uint64_t> damaged;  ///< A load of them has failed.
  std::set<std::uint64_t> recent;   ///< Just committed, whatever its number.
};

/// Decides which of `steps`, sorted, are to be removed: those that `policy` does not keep.
///
/// Never removed, whatever it says: the newest; the newest that is not known to be damaged; what was just committed;
/// what is in use; what is pinned; what is damaged so that its manifest cannot be read, which the policy is not asked
/// about.
/// Errors: those of the policy; then nothing is decided.
[[nodiscard]] RetentionPlan plan_retention(const KeepPolicy& policy, std::span<const StepInfo> steps,
                                           CommitTime now, const StepUse& use = {});

}  // namespace cairn
