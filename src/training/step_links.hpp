// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/base/timeout.hpp"
#include "cairn/training/keep_policy.hpp"
#include "cairn/training/step_directory.hpp"
#include "cairn/training/step_options.hpp"

#include "base/internal/mutex.hpp"
#include "core/internal/disk_calls.hpp"
#include "io/internal/file.hpp"

namespace cairn::training {

/// The best of `steps` by a metric, of equal ones the later.
///
/// Errors: Errc::not_found: no step has it, or none a finite one.
[[nodiscard]] std::optional<std::uint64_t> best_of(std::span<const StepInfo> steps, const std::string& metric,
                                                   Prefer prefer);

/// The links of a root.
class StepLinks {
 public:
  /// The directory must outlive it.
  StepLinks(LinkOptions options, const StepDirectory& directory)
      : options_(std::move(options)), directory_(directory) {}

  /// Returns whether it needs the metrics of steps.
  [[nodiscard]] bool reads_manifests() const { return !options_.best_metric.empty(); }

  /// Lets them lead to the newest and the best of `steps`, sorted; a link to nothing goes.
  ///
  /// Threads: by one thread at a time.
  /// Errors: Errc::already_exists: the name is taken by something that is not a link. Errc::timed_out, after
  ///         `deadline`: it goes on, unless another call does it meanwhile. OS errors.
  void update(std::span<const StepInfo> steps, const core::DiskCalls& calls, Timeout deadline);

 private:
  /// A link, and what it is to lead to; nothing: it goes.
  struct Wanted {
    std::string name;
    std::optional<std::string> target;
  };

  /// The state that calls which have not ended yet share.
  struct Turn {
    Mutex mutex;  // Held while links are made.
    std::uint64_t newest CAIRN_GUARDED_BY(mutex) = 0;
  };

  [[nodiscard]] std::vector<Wanted> wanted(std::span<const StepInfo> steps) const;
  static void place(const io::Directory& root, io::Syscalls& syscalls, const Wanted& wanted);
  static void make_link(const io::Directory& root, io::Syscalls& syscalls, const std::string& next,
                        const Wanted& wanted);

  const LinkOptions options_;
  const StepDirectory& directory_;
  const std::shared_ptr<Turn> turn_ = std::make_shared<Turn>();
  std::uint64_t calls_ = 0;
};

}  // namespace cairn::training
