// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

namespace cairn::async {

/// The failure of a task whose executor was destroyed before it ended.
[[nodiscard]] std::exception_ptr executor_gone();

}  // namespace cairn::async
