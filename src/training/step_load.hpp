// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "training/step_uses.hpp"

namespace cairn::training {

/// The load of a step, for as long as somebody has its response: the step is in use, and a failure teaches what is wrong with it.
class StepLoad {
 public:
  /// Learns from a failure, and returns what to tell of it.
  using Explain = std::function<std::exception_ptr(const std::exception_ptr& failure)>;

  /// Errors: as StepUser.
  StepLoad(std::shared_ptr<StepUses> uses, std::uint64_t step, Explain explain)
      : user_(std::move(uses), step), explain_(std::move(explain)) {}

  [[nodiscard]] std::exception_ptr explain(const std::exception_ptr& failure) const {
    return explain_(failure);
  }

 private:
  const StepUser user_;
  const Explain explain_;
};

}  // namespace cairn::training
