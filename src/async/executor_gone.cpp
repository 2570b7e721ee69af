// SPDX-License-Identifier: Apache-2.0
#include "async/executor_gone.hpp"

#include "cairn/base/error.hpp"

namespace cairn::async {

std::exception_ptr executor_gone() {
  return std::make_exception_ptr(Error(Errc::closed, "the executor of a running task was destroyed"));
}

}  // namespace cairn::async
