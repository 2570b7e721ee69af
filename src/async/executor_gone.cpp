// SPDX-License-Identifier: Apache-2.0
#include "async/executor_gone.hpp"

#include "cairn/base/error.hpp"

namespace cairn::async {

std::exception_ptr executor_gone() {
  static const std::exception_ptr gone =
      std::make_exception_ptr(Error(Errc::closed, "the executor of a running task was destroyed"));
  return gone;
}

}  // namespace cairn::async
