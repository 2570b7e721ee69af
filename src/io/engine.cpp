// SPDX-License-Identifier: Apache-2.0
#include "io/internal/engine.hpp"

#include <system_error>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/limits_behind.hpp"
#include "io/thread_engine.hpp"
#include "io/uring_engine.hpp"

namespace cairn::io {

namespace {

/// The limits that may be behind it, in brackets; empty when there are none.
std::string limits_of(int error) {
  const std::string limits = error == EAGAIN ? limits_of_threads() : limits_behind(error);
  return limits.empty() ? limits : fmt::format(" ({})", limits);
}

[[noreturn]] void throw_no_ring(int error) {
  const bool is_without_thread = error == ECANCELED;
  const std::string detail = is_without_thread ? ": " + why_no_ring(error) : limits_of(error);
  throw Error(std::error_code(is_without_thread ? EAGAIN : error, std::system_category()),
              "io_uring" + detail);
}

}  // namespace

std::string why_no_ring(int error) {
  return error == ECANCELED ? fmt::format("the kernel cannot start a thread for it ({})", limits_of_threads())
                            : std::system_category().message(error) + limits_of(error);
}

EngineChoice make_engine(EngineKind kind, EngineOptions options) {
  Syscalls& syscalls = options.syscalls != nullptr ? *options.syscalls : posix_syscalls();
  options.threads = std::clamp(options.threads, 1u, 1024u);
  EngineChoice choice;
  std::unique_ptr<Engine> threads = make_thread_engine(options.threads, syscalls);
  if (kind == EngineKind::threads) {
    choice.engine = std::move(threads);
    return choice;
  }
  int error = 0;
  const std::uint32_t depth = std::clamp(options.queue_depth, 1u, 4096u);
  choice.engine = make_uring_engine(depth, syscalls, threads, error);
  if (choice.engine) {
    return choice;
  }
  if (kind == EngineKind::uring) {
    throw_no_ring(error);
  }
  choice.reason = "io_uring is not available: " + why_no_ring(error);
  choice.engine =
      std::move(threads);  // Those: the system may not let others start as soon as these have ended.
  return choice;
}

}  // namespace cairn::io
