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

/// For small runs of loads, beside the staging memory.
constexpr std::size_t kScratchBytes = std::size_t{4} << 20;

/// How long a cancelled operation may take to end before its context goes without it.
constexpr std::chrono::seconds kCancelGrace{5};

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
      choice(io::make_engine(options.engine, engine_options(options))),
      coordinator(options.coordinator != nullptr ? *options.coordinator : single_process()),
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
      engine(std::move(choice.engine)),
      workers(worker_threads(options), "cairn-worker"),
      background(worker_threads(options), "cairn-behind", checked_niceness(options)),
      coroutines(kCoroutineThreads, "cairn-task"),
      process_(::getpid()) {
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
    if (services->coroutines.runs_this_thread() || services->workers.runs_this_thread() ||
        services->background.runs_this_thread()) {
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
  closing_.reserve(operations_.size() + 1);  // close() may be a destructor's, and takes none.
  operations_.push_back(operation);
}

void Services::leave(const Operation* operation) {
  const std::lock_guard lock(mutex_);
  std::erase_if(operations_, [operation](const auto& entered) { return entered.get() == operation; });
  left_.notify_all();
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
    running = std::exchange(closing_, {});
    running.insert(running.end(), operations_.begin(), operations_.end());
  }
  const auto deadline = std::chrono::steady_clock::now() + options.close_timeout;
  for (const auto& operation : running) {
    if (!operation->done().wait_for(deadline - std::chrono::steady_clock::now())) {
      operation->stop(Errc::closed, "the context was closed before this ended");
    }
  }
  running.clear();
  // An operation leaves after it has told everybody how it ended, so that nothing lost is missed here. One whose
  // handler never returns is left behind; it keeps these services alive.
  std::unique_lock lock(mutex_);
  left_.wait_for(lock, kCancelGrace, [this] { return operations_.empty(); });
  closing_ = std::move(running);
  return std::exchange(lost_, nullptr);
}

}  // namespace cairn::core
