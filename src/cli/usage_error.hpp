// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace cairn::cli {

/// Arguments that are refused; main() makes the exit status 2 of it. `what()` names the option and its value.
class UsageError final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace cairn::cli
