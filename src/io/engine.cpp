// SPDX-License-Identifier: Apache-2.0
#include "cairn/io/engine.hpp"

#include <system_error>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "io/thread_engine.hpp"
#include "io/uring_engine.hpp"

namespace cairn::io {

EngineChoice make_engine(EngineKind kind, EngineOptions options) {
  Syscalls& syscalls = options.syscalls != nullptr ? *options.syscalls : posix_syscalls();
  options.threads = std::clamp(options.threads, 1u, 1024u);
  EngineChoice choice;
  if (kind == EngineKind::threads) {
    choice.engine = make_thread_engine(options.threads, syscalls);
    return choice;
  }
  int error = 0;
  const std::uint32_t depth = std::clamp(options.queue_depth, 1u, 4096u);
  choice.engine = make_uring_engine(depth, syscalls, make_thread_engine(options.threads, syscalls), error);
  if (choice.engine) {
    return choice;
  }
  if (kind == EngineKind::uring) {
    throw Error(std::error_code(error, std::system_category()), "io_uring");
  }
  choice.reason = fmt::format("io_uring is not available: {}", std::system_category().message(error));
  choice.engine = make_thread_engine(options.threads, syscalls);
  return choice;
}

}  // namespace cairn::io
