// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cairn/training/keep_policy.hpp"
#include "cairn/training/step_directory.hpp"
#include "cairn/training/step_info.hpp"
#include "cairn/training/step_options.hpp"

#include "io/internal/file.hpp"

namespace cairn::training {

/// The best of `steps` by a metric, of equal ones the later.
///
/// Errors: Errc::not_found: no step has it.
[[nodiscard]] std::optional<std::uint64_t> best_of(std::span<const StepInfo> steps, const std::string& metric,
                                                   Prefer prefer);

/// The links of a root.
class StepLinks {
 public:
  /// The directory must outlive it.
  StepLinks(LinkOptions options, const StepDirectory& directory, io::Syscalls& syscalls)
      : options_(std::move(options)), directory_(directory), syscalls_(syscalls) {}

  /// Whether it needs the metrics of steps.
  [[nodiscard]] bool reads_manifests() const { return !options_.best_metric.empty(); }

  /// Lets them lead to the newest and the best of `steps`, sorted; a link to nothing goes.
  ///
  /// Errors: Errc::already_exists: the name is taken by something that is not a link. OS errors.
  void update(std::span<const StepInfo> steps) const;

 private:
  void update(std::string_view name, std::optional<std::uint64_t> step) const;

  const LinkOptions options_;
  const StepDirectory& directory_;
  io::Syscalls& syscalls_;
};

}  // namespace cairn::training
