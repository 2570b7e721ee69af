// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "core/internal/disk_calls.hpp"
#include "training/step_uses.hpp"

namespace cairn::training {

/// The load of a step, shared by those who wait for it: until they are gone, the step is not removed.
struct StepLoad {
  /// Returns what to tell of a failure, and learns from it. May ask the disk.
  using Judge = std::function<std::exception_ptr(const std::exception_ptr& failure)>;

  StepLoad(std::shared_ptr<StepUses> uses, std::uint64_t step, core::DiskCalls disk, Judge judging)
      : user(std::move(uses), step), calls(std::move(disk)), judge(std::move(judging)) {}

  const StepUser user;
  const core::DiskCalls calls;
  const Judge judge;
};

}  // namespace cairn::training
