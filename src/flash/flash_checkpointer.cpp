// SPDX-License-Identifier: Apache-2.0
#include "cairn/flash/flash_checkpointer.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/api/load.hpp"
#include "cairn/base/error.hpp"

#include "base/internal/json_writer.hpp"
#include "coord/internal/borrowed_caller_thread.hpp"
#include "core/internal/disk_calls.hpp"
#include "core/internal/shared_context.hpp"
#include "flash/internal/agent.hpp"
#include "flash/state.hpp"
#include "io/internal/file.hpp"

namespace cairn {

using flash::Image;

namespace {

/// Staging memory of what persists: it competes with the program, and gains nothing by more.
constexpr std::size_t kPersistingBytes = std::size_t{64} << 20;
constexpr int kPersistingNiceness = 10;

ContextOptions persisting_options(const Context& context) {
  ContextOptions options = context.options();
  options.staging_bytes = kPersistingBytes;
  options.reserve_bytes = 0;
  options.background_niceness = kPersistingNiceness;
  options.coordinator = nullptr;
  return options;
}

const Context& require_alone(const Context& context) {
  const std::shared_ptr<coord::Coordinator>& coordinator = context.options().coordinator;
  if (coordinator && coordinator->size() > 1) {
    throw Error(Errc::invalid_argument, "a FlashCheckpointer is for one process yet, not for several ranks");
  }
  return context;
}

/// The history of the run is kept where the policy of either level needs it.
CheckpointerOptions disk_options(const FlashOptions& options) {
  CheckpointerOptions disk = options.disk;
  if (options.to_memory.needs_history()) {
    const SavePolicy& to_disk = options.disk.save;
    disk.save = SavePolicy(to_disk.name(), to_disk.asks_time(), to_disk, true, to_disk.mtbf());
  }
  return disk;
}

flash::Memory::Options memory_options(const FlashOptions& options, const std::filesystem::path& root) {
  if (options.memory.empty()) {
    throw Error(Errc::invalid_argument, "FlashOptions::memory names no directory");
  }
  flash::Memory::Options memory;
  memory.memory = io::named_path(std::filesystem::absolute(options.memory));
  memory.root = root;
  memory.limit_bytes = options.memory_bytes;
  memory.names = options.disk.names;
  memory.may_lose_the_only_image = options.may_lose_the_only_image;
  return memory;
}

}  // namespace

FlashCheckpointer::State::State(const std::filesystem::path& given_root, FlashOptions how,
                                const Context& where)
    : options(std::move(how)),
      context(core::shared_context(require_alone(where))),
      syscalls(core::DiskCalls(where).syscalls()),
      clock(core::DiskCalls(where).clock()),
      root(io::named_path(std::filesystem::absolute(given_root))),
      memory(memory_options(options, root), syscalls, where.options().random),
      disk(given_root, disk_options(options), where),
      copies(disk),
      persisting(persisting_options(where)) {
  memory.renew_mark();
  not_taken_at_start = enter(lines_on_disk());
  copies.set_found(memory.latest().has_value());
  look_what_is_on_disk();
  if (options.start_agent) {
    try {
      flash::start_agent(options.agent_program, memory.root().parent_path(), root);
    } catch (const Error&) {  // The program does without one.
      report(std::current_exception());
    }
  }
  persister.post([this] {
    std::vector<StepFormat> names = options.disk.names.also_read;
    names.push_back(options.disk.names.format);
    try {
      flash::remove_left_on_disk(io::Directory::open(syscalls, root), names);
    } catch (...) {  // It is away: the first copy tells.
    }
  });
}

void FlashCheckpointer::State::rewind(std::uint64_t step) {
  require_open();
  settle_in_flight();
  wait_for_disk();
  const MutexLock nothing_else(disk_mutex);
  disk.reload();
  const std::vector<std::uint64_t> steps = disk.steps();
  if (!memory.has_sound(step) && !std::binary_search(steps.begin(), steps.end(), step)) {
    throw Error(Errc::not_found, fmt::format("step {} is neither in memory, in {}, nor on disk, in {}", step,
                                             memory.root().string(), root.string()));
  }
  flash::Memory::HeldImages later = memory.hold_above(step);
  // First: the disk may refuse it yet, or be removing the step, and nothing more is given up then.
  copies.rewind(step, memory.has_sound(step));
  memory.retire(std::move(later));
  enter_if_rewound();
  has_gone_on = true;
  look_what_is_on_disk();
  last_given.reset();
}

void FlashCheckpointer::State::close() {
  const auto end = later(clock.steady_now(), options.disk.close_timeout);
  bool was_closed = false;
  {
    const MutexLock lock(mutex);
    was_closed = std::exchange(is_closed, true);
  }
  settle_in_flight();
  try_disk_now();
  const async::Event idle = persister.idle();
  std::optional<std::uint64_t> left;
  std::exception_ptr why;
  if (!coord::wait_with_progress_until(*coord::single_process(), idle, end, clock)) {
    const std::optional<std::uint64_t> newest = memory.latest();
    const MutexLock lock(mutex);
    is_giving_up = true;
    why = disk_refused;
    if (waiting || (persisted && !persisted->goes_straight())) {
      left = newest;
      copying.cancel();
    }
    interrupted.set();
  }
  if (!was_closed && std::uncaught_exceptions() <= exceptions) {  // Else the program is about to fail.
    memory.end(left);
  }
  std::exception_ptr of_disk;
  try {
    disk.close(std::max(end - clock.steady_now(), std::chrono::nanoseconds(0)));
  } catch (...) {  // It may be what is told below.
    of_disk = std::current_exception();
  }
  throw_failure();
  if (left) {
    throw Error(Errc::still_running,
                fmt::format("step {} of {} is not on disk{}; it is in memory, in {}", *left, root.string(),
                            why ? fmt::format(" ({})", describe(why)) : "", memory.root().string()));
  }
  throw_loss();
  if (of_disk) {
    std::rethrow_exception(of_disk);
  }
  if (!was_closed) {
    report_lost_end();
  }
}

/// A run that ends in order may have been given a step last for which there was no image.
void FlashCheckpointer::State::report_lost_end() {
  const std::vector<std::uint64_t> on_disk = disk.steps();
  if (!last_given || memory.newest_there() == last_given ||
      std::binary_search(on_disk.begin(), on_disk.end(), *last_given)) {
    return;
  }
  const std::optional<std::uint64_t> newest = std::max(memory.newest_there(), disk.latest());
  report(std::make_exception_ptr(
      Error(Errc::not_committed,
            fmt::format("step {} was the last, and is neither in memory nor on disk: the newest there is {}",
                        *last_given, newest ? fmt::format("step {}", *newest) : "none"))));
}

FlashCheckpointer::FlashCheckpointer(std::filesystem::path root, FlashOptions options, const Context& context)
    : state_(std::make_shared<State>(root, std::move(options), context)), process_(::getpid()) {}

FlashCheckpointer::~FlashCheckpointer() {
  if (process_ != ::getpid()) {
    // Its threads cannot be waited for here. It stays where a look for leaks finds it.
    static auto& left = *new std::vector<std::shared_ptr<State>>;
    left.push_back(std::move(state_));
    return;
  }
  try {
    close();
  } catch (...) {
    state_->report(std::current_exception());
  }
  const MutexLock lock(state_->mutex);
  state_->copying.cancel();
}

FlashCheckpointer::State& FlashCheckpointer::own() const {
  if (process_ != ::getpid()) {
    throw Error(
        Errc::closed,
        fmt::format("the FlashCheckpointer of {} belongs to process {}, from which this one was forked",
                    state_->options.memory.string(), process_));
  }
  return *state_;
}

FlashResponse FlashCheckpointer::save(std::uint64_t step, const Checkpointables& items,
                                      const StepOptions& options) {
  return own().save(step, items, options);
}

std::optional<FlashResumed> FlashCheckpointer::resume(const Requests& requests,
                                                      const ResumeOptions& options) {
  return own().resume(requests, options);
}

Loaded FlashCheckpointer::load(std::uint64_t step, const Requests& requests, const LoadOptions& options) {
  State& state = own();
  state.settle_in_flight();
  if (state.memory.has(step)) {
    try {
      return state.load_image(step, requests, options);
    } catch (...) {
      if (!state.is_damage(state.memory.path(step), std::current_exception())) {
        throw;
      }
      state.memory.set(step, &Image::is_damaged);
      const std::vector<std::uint64_t> steps = state.disk.steps();
      if (!std::binary_search(steps.begin(), steps.end(), step)) {
        throw;
      }
    }
  }
  return state.disk.load(step, requests, options);
}

CheckpointMetadata FlashCheckpointer::metadata(std::uint64_t step) {
  State& state = own();
  state.settle_in_flight();
  return state.memory.has(step) ? checkpointables_metadata(state.memory.path(step), state.context)
                                : state.disk.metadata(step);
}

void FlashCheckpointer::rewind(std::uint64_t step) {
  own().rewind(step);
}

std::optional<std::uint64_t> FlashCheckpointer::latest_in_memory() const {
  State& state = own();
  bool is_complete = false;
  {
    const MutexLock lock(state.mutex);
    is_complete = state.in_flight && state.in_flight->is_complete();
  }
  if (is_complete) {
    state.settle_in_flight();
  }
  return state.memory.latest();
}

std::uint64_t FlashCheckpointer::skipped() const {
  State& state = own();
  const MutexLock lock(state.mutex);
  return state.skipped;
}

Checkpointer& FlashCheckpointer::disk() noexcept {
  return state_->disk;
}

FlashPeriods FlashCheckpointer::periods(Timeout mtbf, Timeout mtbf_of_memory) const {
  State& state = own();
  FlashPeriods periods;
  periods.memory = state.image_costs.report(mtbf, Timeout());
  periods.disk = state.disk.period(mtbf_of_memory);
  return periods;
}

FlashPeriods FlashCheckpointer::periods() const {
  State& state = own();
  FlashPeriods periods;
  periods.memory = state.image_costs.report(state.options.to_memory, estimated_mtbf(state.disk.failures()));
  periods.disk = state.disk.period();
  return periods;
}

double FlashPeriods::expected_loss() const {
  return std::min(1.0, memory.expected_loss + disk.expected_loss);
}

double FlashPeriods::goodput() const {
  return std::max(0.0, memory.goodput + disk.goodput - 1);
}

std::string FlashPeriods::json() const {
  std::string text;
  JsonWriter writer(text);
  writer.begin_object().key("memory").raw(memory.json()).key("disk").raw(disk.json());
  writer.key("expected_loss_ratio").value(expected_loss()).key("goodput_ratio").value(goodput()).end();
  return text;
}

std::string FlashPeriods::prometheus_text() const {
  std::string text;
  for (const auto& [level, report] : {std::pair("memory", &memory), std::pair("disk", &disk)}) {
    std::istringstream lines(report->prometheus_text());
    constexpr std::string_view kTraining = "cairn_training_";
    for (std::string line; std::getline(lines, line);) {
      text +=
          line.replace(line.find(kTraining), kTraining.size(), fmt::format("cairn_flash_{}_", level)) + "\n";
    }
  }
  return text;
}

void FlashCheckpointer::wait() {
  State& state = own();
  state.settle_in_flight();
  coord::wait_with_progress(*coord::single_process(), state.preparer.idle());
  state.try_disk_now();
  state.wait_for_disk();
  state.throw_failure();
  if (const std::exception_ptr refusal = state.disk_refusal()) {
    std::rethrow_exception(refusal);
  }
  state.throw_loss();
  state.disk.wait();
}

void FlashCheckpointer::close() {
  own().close();
}

}  // namespace cairn
