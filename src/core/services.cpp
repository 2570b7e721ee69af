// SPDX-License-Identifier: Apache-2.0
#include "core/services.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"

#include "base/internal/limits.hpp"
#include "base/internal/probe.hpp"
#include "base/internal/thread.hpp"

namespace cairn::core {
namespace {

/// Enough for the plans of 500,000 arrays; larger ones are given back in part.
constexpr std::size_t kMostPlanBytes = std::size_t{64} << 20;

/// For small runs of loads, in addition to the staging memory.
constexpr std::size_t kScratchBytes = std::size_t{4} << 20;

constexpr std::chrono::milliseconds kThreadRetry{10};

/// Runs `work` on a thread of its own, as soon as the system has one.
template <class Work>
void detach_thread(const Work& work) noexcept {
  for (bool is_started = false; !is_started;) {
    try {
      start_thread("cairn-end", work).detach();
      is_started = true;
    } catch (...) {  // Error, std::bad_alloc: the limits of the system, which others share.
      CAIRN_PROBE("core.no_thread_to_end_services");
      std::this_thread::sleep_for(kThreadRetry);
    }
  }
}

io::EngineOptions engine_options(const ContextOptions& options) {
  io::EngineOptions chosen;
  chosen.queue_depth = std::max<std::uint32_t>(options.queue_depth, 1);
  chosen.syscalls = options.syscalls.get();
  return chosen;
}

}  // namespace

Memory::Memory(const ContextOptions& options, staging::MemoryHook pin, std::size_t ranks)
    : buffers(options.staging_bytes != 0 ? options.staging_bytes : default_staging_bytes() / ranks,
              std::move(pin),
              std::max(options.reserve_bytes,
                       options.idle_staging_bytes.value_or(std::numeric_limits<std::size_t>::max()))),
      scratch(kScratchBytes),
      plans(std::make_shared<KeptMemory>(kMostPlanBytes)) {}

Disk::Disk(const ContextOptions& options)
    : queue_depth(std::max<std::size_t>(options.queue_depth, 1)),
      files(options.open_files != 0 ? options.open_files : default_open_files()) {}

Services::Services(ContextOptions options_in)
    : options(std::move(options_in)),
      coordinator(options.coordinator != nullptr ? *options.coordinator : *coord::single_process()),
      clock(options.clock != nullptr ? *options.clock : system_clock()),
      devices(options.copiers),
      memory(options, devices.pin(), coordinator.ranks_on_host()),
      disk(options),
      saves(options.saves_in_flight),
      operations(options, clock),
      threads(options, clock, coordinator.ranks_on_host()),
      process_(::getpid()) {
  // Last: io_uring takes threads only where some are left, and does without where none are.
  disk.choice = io::make_engine(options.engine, engine_options(options));
  if (options.reserve_bytes != 0) {
    memory.buffers.reserve(options.reserve_bytes, threads.workers.size());
  }
}

std::shared_ptr<Services> Services::create(ContextOptions options) {
  // The last reference may be a coroutine's, dropped on a thread that the destructor would have to join.
  const auto destroy = [](Services* services) {
    if (!services->is_own_process()) {
      return;  // To end them would be to wait for threads that are not there; the kernel takes back the rest.
    }
    const auto end = [services, gone = services->gone] {
      delete services;
      gone.set();
    };
    if (services->threads.runs_this_thread()) {
      detach_thread(end);
    } else {
      end();
    }
  };
  return {new Services(std::move(options)), destroy};
}

bool Services::is_own_process() const noexcept {
  return ::getpid() == process_;
}

void Services::require_own_process() const {
  if (!is_own_process()) {
    throw Error(Errc::closed,
                fmt::format("the context belongs to process {}, from which this one was forked: make another "
                            "one here",
                            process_));
  }
}

}  // namespace cairn::core
