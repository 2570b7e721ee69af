// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/offload.hpp"

#include <functional>
#include <utility>

#include "cairn/base/timeout.hpp"

#include "core/internal/busy_here.hpp"
#include "core/internal/disk_calls.hpp"

namespace cairn {
namespace {

Awaitable<> run_offloaded(core::DiskCalls calls, std::function<void()> work) {
  core::refuse_here(*calls.services(), "offload");
  std::function<void()> scoped = [services = calls.services(), work = std::move(work)] {
    const core::OffloadedHere here(*services);
    work();
  };
  co_await calls.await("offload", Timeout(), std::move(scoped));
}

}  // namespace

Awaitable<> detail::offload(std::function<void()> work, const Context& context) {
  return run_offloaded(core::DiskCalls(context), std::move(work));
}

}  // namespace cairn
