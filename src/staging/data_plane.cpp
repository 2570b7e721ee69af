// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/data_plane.hpp"

#include <utility>

#include "cairn/base/error.hpp"

#include "base/internal/probe.hpp"

namespace cairn::staging {
namespace {

constexpr const char* kGivenBack = "the caller's memory is the caller's again";

async::Gate::Visit enter(const async::Gate& gate) {
  async::Gate::Visit visit = gate.try_enter();
  if (!visit) {
    CAIRN_PROBE("staging.memory_was_given_back");
    throw Error(Errc::cancelled, kGivenBack);
  }
  return visit;
}

}  // namespace

Awaitable<> DataPlane::run(std::function<void()> work) const {
  const bool is_background = copies_yield || (yields && prepared.has_happened());
  return is_background ? async::offload(background, std::move(work))
                       : async::offload(workers, std::move(work));
}

Awaitable<> DataPlane::run_on_borrowed(std::function<void()> work) const {
  std::function<void()> visit = [gate = blocking_gate, work = std::move(work)] {
    const async::Gate::Visit inside = enter(gate);
    work();
  };
  return copies_yield ? async::offload(background, std::move(visit))
                      : async::offload(workers, std::move(visit));
}

Awaitable<> DataPlane::run_call(std::function<void()> work) const {
  return async::offload(calls, std::move(work));
}

Awaitable<> DataPlane::run_users(std::function<void()> work) const {
  const bool is_background = yields && prepared.has_happened();
  std::function<void()> visit = [this, work = std::move(work)] {
    const async::Gate::Visit inside = touch_memory();  // It may read the caller's values, or fill them.
    work();
  };
  return async::offload(is_background ? users_background : users, std::move(visit));
}

bool DataPlane::runs_this_thread() const noexcept {
  return calls.runs_this_thread() || background.runs_this_thread() || users.runs_this_thread() ||
         users_background.runs_this_thread();
}

async::Gate::Visit DataPlane::touch_memory() const {
  return enter(prepared.has_happened() ? background_gate : blocking_gate);
}

async::Gate::Visit DataPlane::touch_promised_memory() const {
  return enter(background_gate);
}

Awaitable<Buffer> DataPlane::acquire_buffer() {
  Buffer buffer = try_acquire_buffer();
  if (!buffer) {
    CAIRN_PROBE("staging.waits_for_a_buffer");
    const observe::Meter::TimePoint begin = meter.now();
    buffer = co_await buffers.acquire();
    meter.waited_for_pool(meter.now() - begin);
    meter.saw_pool(buffers.leased_bytes());
  }
  co_return buffer;
}

Buffer DataPlane::try_acquire_buffer() {
  Buffer buffer = buffers.try_acquire();
  if (buffer) {
    meter.saw_pool(buffers.leased_bytes());
  }
  return buffer;
}

Awaitable<RunMemory> DataPlane::acquire_run(std::size_t bytes) {
  if (!SharedBuffers::serves(bytes)) {
    Buffer buffer = co_await acquire_buffer();
    co_return RunMemory(std::move(buffer));
  }
  RunMemory memory = try_acquire_run(bytes);
  if (!memory) {
    CAIRN_PROBE("staging.waits_for_a_shared_buffer");
    const observe::Meter::TimePoint begin = meter.now();
    memory = co_await shared.acquire(bytes);
    meter.waited_for_pool(meter.now() - begin);
    meter.saw_pool(buffers.leased_bytes());
  }
  co_return memory;
}

RunMemory DataPlane::try_acquire_run(std::size_t bytes) {
  if (!SharedBuffers::serves(bytes)) {
    Buffer buffer = try_acquire_buffer();
    return buffer ? RunMemory(std::move(buffer)) : RunMemory();
  }
  RunMemory memory = shared.try_acquire(bytes);
  if (memory) {
    meter.saw_pool(buffers.leased_bytes());
  }
  return memory;
}

}  // namespace cairn::staging
