// SPDX-License-Identifier: Apache-2.0
#include "observe/internal/metered_engine.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace cairn::observe {
namespace {

Work work_of(io::Operation operation) {
  switch (operation) {
    case io::Operation::read:
      return Work::read;
    case io::Operation::write:
      return Work::write;
    case io::Operation::sync_data:
      break;
  }
  return Work::sync;
}

}  // namespace

void MeteredEngine::submit(io::Request& request) noexcept {
  Slot* const slot = take_slot();
  static_cast<io::Request&>(*slot) = request;
  slot->done = &MeteredEngine::on_done;
  slot->share = &share_;
  slot->original = &request;
  slot->owner = shared_from_this();
  begin(*slot);
  engine_.submit(*slot);
}

MeteredEngine::Slot* MeteredEngine::take_slot() {
  const MutexLock lock(mutex_);
  if (free_.empty()) {
    free_.reserve(slots_.size() + 1);  // So that giving a slot back never allocates.
    slots_.push_back(std::make_unique<Slot>());
    return slots_.back().get();
  }
  Slot* slot = free_.back();
  free_.pop_back();
  return slot;
}

void MeteredEngine::on_done(io::Request& request, std::int64_t result) noexcept {
  auto& slot = static_cast<Slot&>(request);
  io::Request* original = slot.original;
  const std::shared_ptr<MeteredEngine> owner = std::move(slot.owner);
  owner->end(slot, result);
  original->done(*original, result);  // May submit the rest, through this engine.
}

void MeteredEngine::begin(Slot& slot) {
  const MutexLock lock(mutex_);
  slot.begin = meter_->now();
  if (slot.operation == io::Operation::sync_data) {
    return;  // Moves nothing: it does not count for the depth.
  }
  advance(slot.begin);
  figures_.highest_depth = std::max(figures_.highest_depth, ++in_flight_);
}

void MeteredEngine::end(Slot& slot, std::int64_t result) {
  const MutexLock lock(mutex_);
  const Meter::TimePoint now = meter_->now();
  const auto moved = static_cast<std::uint64_t>(std::max<std::int64_t>(result, 0));
  if (slot.operation != io::Operation::sync_data) {
    advance(now);
    --in_flight_;
    figures_.shortened += result >= 0 && moved < slot.size ? 1 : 0;
  }
  figures_.retried += result == -EINTR || result == -EAGAIN ? 1 : 0;
  meter_->add_work(work_of(slot.operation), moved, now - slot.begin);
  free_.push_back(&slot);
}

void MeteredEngine::advance(Meter::TimePoint now) {
  if (in_flight_ != 0 && now > last_) {
    figures_.busy_time += now - last_;
    weighted_ += (now - last_) * static_cast<std::int64_t>(in_flight_);
  }
  last_ = std::max(last_, now);
}

TransferFigures MeteredEngine::figures() const {
  const MutexLock lock(mutex_);
  TransferFigures figures = figures_;
  if (figures.busy_time.count() != 0) {
    figures.mean_depth =
        static_cast<double>(weighted_.count()) / static_cast<double>(figures.busy_time.count());
  }
  return figures;
}

}  // namespace cairn::observe
