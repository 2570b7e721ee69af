// SPDX-License-Identifier: Apache-2.0
#include "core/check_options.hpp"

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::core {
namespace {

constexpr std::size_t kMostWorkers = 4096;

}  // namespace

void check_options(const ContextOptions& options) {
  if (options.engine > io::EngineKind::threads) {
    throw Error(Errc::invalid_argument,
                fmt::format("ContextOptions::engine is {}, which is not an EngineKind",
                            static_cast<unsigned>(options.engine)));
  }
  if (options.worker_threads > kMostWorkers) {
    throw Error(Errc::invalid_argument,
                fmt::format("ContextOptions::worker_threads is {}; at most {} are allowed",
                            options.worker_threads, kMostWorkers));
  }
}

void check_options(const SaveOptions& options) {
  if (options.snapshot > Snapshot::share) {
    throw Error(Errc::invalid_argument, fmt::format("SaveOptions::snapshot is {}, which is not a Snapshot",
                                                    static_cast<unsigned>(options.snapshot)));
  }
}

}  // namespace cairn::core
