// SPDX-License-Identifier: Apache-2.0
#include "core/services.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "core/limits.hpp"
#include "core/operation.hpp"

namespace cairn::core {
namespace {

constexpr std::size_t kCoroutineThreads = 2;

/// Enough for the plans of 500,000 arrays; larger ones are given back in part.
constexpr std::size_t kMostPlanBytes = std::size_t{64} << 20;

/// More threads than any program has operations that block at once.
constexpr std::size_t kMostThreads = 1024;

/// In real time, beyond the grace.
constexpr std::chrono::seconds kTelling{1};

/// For small runs of loads, beside the staging memory.
constexpr std::size_t kScratchBytes = std::size_t{4} << 20;

constexpr std::chrono::milliseconds kThreadRetry{10};

std::size_t worker_threads(const ContextOptions& options) {
  return options.worker_threads != 0 ? options.worker_threads
                                     : std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
}

/// Runs `work` on a thread of its own, as soon as the system has one.
template <class Work>
void detach_thread(const Work& work) noexcept {
  for (bool is_started = false; !is_started;) {
    try {
      std::thread(work).detach();
      is_started = true;
    } catch (...) {  // std::system_error, std::bad_alloc: the limits of the system, which others share.
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

/// Refuses two copiers for one device, and none at all in the place of one.
const std::vector<std::shared_ptr<DeviceCopier>>& checked(
    const std::vector<std::shared_ptr<DeviceCopier>>& copiers) {
  for (auto copier = copiers.begin(); copier != copiers.end(); ++copier) {
    if (*copier == nullptr) {
      throw Error(Errc::invalid_argument, "ContextOptions::copiers holds a null pointer");
    }
    const Device device = (*copier)->device();
    if (std::any_of(copiers.begin(), copier, [&](const auto& other) { return other->device() == device; })) {
      throw Error(Errc::already_exists, fmt::format("{} has two copiers", to_string(device)));
    }
  }
  return copiers;
}

int checked_niceness(const ContextOptions& options) {
  constexpr int kMost = 19;
  if (options.background_niceness < 0 || options.background_niceness > kMost) {
    throw Error(Errc::invalid_argument, fmt::format("ContextOptions::background_niceness is {}, not 0 to {}",
                                                    options.background_niceness, kMost));
  }
  return options.background_niceness;
}

/// Pins staging memory as the pool takes it from the system.
staging::MemoryHook pin_for(const std::vector<std::shared_ptr<DeviceCopier>>& copiers,
                            std::shared_ptr<std::atomic<bool>> has_unpinned) {
  if (copiers.empty()) {
    return {};
  }
  return [copiers, has_unpinned = std::move(has_unpinned)](std::span<std::byte> memory) {
    auto pins = std::make_shared<std::vector<std::shared_ptr<void>>>();
    for (const auto& copier : copiers) {
      pins->push_back(copier->pin(memory));
      if (pins->back() == nullptr) {
        *has_unpinned = true;
      }
    }
    return pins;
  };
}

}  // namespace

Services::Services(ContextOptions options_in)
    : options(std::move(options_in)),
      coordinator(options.coordinator != nullptr ? *options.coordinator : *single_process()),
      clock(options.clock != nullptr ? *options.clock : system_clock()),
      has_unpinned(std::make_shared<std::atomic<bool>>(false)),
      buffers(options.staging_bytes != 0 ? options.staging_bytes : default_staging_bytes(),
              pin_for(checked(options.copiers), has_unpinned)),
      scratch(kScratchBytes),
      plans(std::make_shared<KeptMemory>(kMostPlanBytes)),
      transfers(std::max<std::size_t>(options.queue_depth, 1)),
      gathers(transfers.capacity()),
      files(options.open_files != 0 ? options.open_files : default_open_files()),
      saves(options.saves_in_flight),
      workers(worker_threads(options), "cairn-worker"),
      calls({1, kMostThreads}, "cairn-call"),
      background({1, kMostThreads}, "cairn-behind", checked_niceness(options)),
      coroutines({kCoroutineThreads, kMostThreads}, "cairn-task"),
      timers(clock),
      process_(::getpid()) {
  // Last: io_uring takes threads only where some are left, and does without where none are.
  choice = io::make_engine(options.engine, engine_options(options));
  engine = std::move(choice.engine);
  if (options.reserve_bytes != 0) {
    buffers.reserve(options.reserve_bytes, worker_threads(options));
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
    if (services->runs_this_thread()) {
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
                fmt::format("the context belongs to process {}, from which this one was forked", process_));
  }
}

void Services::enter(const std::shared_ptr<Operation>& operation) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) {
    throw Error(Errc::closed, "the context was closed");
  }
  operations_.push_back(operation);
}

void Services::leave(const Operation* operation) {
  const std::lock_guard lock(mutex_);
  std::erase_if(operations_, [operation](const auto& entered) { return entered.get() == operation; });
}

bool Services::runs_this_thread() const noexcept {
  return coroutines.runs_this_thread() || workers.runs_this_thread() || calls.runs_this_thread() ||
         background.runs_this_thread() || timers.runs_this_thread();
}

DeviceCopier* Services::copier(Device device) const noexcept {
  const auto found = std::find_if(options.copiers.begin(), options.copiers.end(),
                                  [device](const auto& copier) { return copier->device() == device; });
  return found == options.copiers.end() ? nullptr : found->get();
}

void Services::lose(const std::string& path, const std::exception_ptr& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!lost_) {
      lost_ = failure;
    }
  }
  if (options.on_lost_failure) {
    options.on_lost_failure(path, failure);
  }
}

std::exception_ptr Services::close() {
  if (!is_own_process()) {
    return nullptr;
  }
  std::vector<std::shared_ptr<Operation>> running;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    running = operations_;
  }
  const auto wait_for_all = [&running](std::chrono::nanoseconds timeout, const Clock& by) {
    const auto deadline = later(by.steady_now(), timeout);
    return std::all_of(running.begin(), running.end(), [&](const auto& operation) {
      const auto now = by.steady_now();
      const auto left = deadline > now ? deadline - now : std::chrono::nanoseconds::zero();
      const bool is_endless = deadline == std::chrono::steady_clock::time_point::max();
      return operation->told().wait_for(is_endless ? std::chrono::nanoseconds::max() : left, by);
    });
  };
  std::string still_running;
  if (!wait_for_all(options.close_timeout, clock)) {
    for (const auto& operation : running) {
      operation->stop(Errc::closed, "the context was closed before this ended");
    }
    static_cast<void>(wait_for_all(options.stop_grace, clock));
    // It is decided now how they end: to do so, and to tell all who listen, takes no time but what the machine needs for it.
    for (const auto& operation : running) {
      static_cast<void>(operation->decided().wait_for(kTelling));
      if (operation->answered().has_happened()) {
        static_cast<void>(operation->told().wait_for(kTelling));
      }
    }
  }
  for (const auto& operation : running) {
    if (!operation->is_done()) {
      still_running += fmt::format("{}{}", still_running.empty() ? "" : ", ", operation->title());
    }
  }
  const std::lock_guard lock(mutex_);
  if (lost_ || still_running.empty()) {
    return std::exchange(lost_, nullptr);
  }
  return std::make_exception_ptr(Error(
      Errc::still_running, fmt::format("the context was closed, but not all has ended: {}", still_running)));
}

}  // namespace cairn::core
