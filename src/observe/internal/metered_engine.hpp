// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "base/internal/mutex.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/engine_share.hpp"
#include "observe/internal/meter.hpp"

namespace cairn::observe {

/// The context's engine as one operation sees it, with a share of its own: measures each request, and how many are in
/// flight.
///
/// Keeps itself alive while a request is in flight, even when the operation has gone.
class MeteredEngine final : public io::Engine, public std::enable_shared_from_this<MeteredEngine> {
 public:
  // outlives: the context's engine and clock outlive all requests.
  MeteredEngine(io::Engine& engine, std::shared_ptr<Meter> meter)
      : engine_(engine), meter_(std::move(meter)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return engine_.name(); }
  void submit(io::Request& request) noexcept override;
  [[nodiscard]] io::Syscalls& syscalls() noexcept override { return engine_.syscalls(); }

  [[nodiscard]] TransferFigures figures() const;

 private:
  /// A request on behalf of another, which is told when this is done.
  struct Slot : io::Request {
    io::Request* original = nullptr;
    std::shared_ptr<MeteredEngine> owner;
    Meter::TimePoint begin;
  };

  static void on_done(io::Request& request, std::int64_t result) noexcept;
  Slot* take_slot();
  void begin(Slot& slot);
  void end(Slot& slot, std::int64_t result);
  void advance(Meter::TimePoint now) CAIRN_REQUIRES(mutex_);

  io::Engine& engine_;
  io::EngineShare share_;
  std::shared_ptr<Meter> meter_;

  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Slot>> slots_ CAIRN_GUARDED_BY(mutex_);
  std::vector<Slot*> free_ CAIRN_GUARDED_BY(mutex_);
  std::size_t in_flight_ CAIRN_GUARDED_BY(mutex_) = 0;
  Meter::TimePoint last_ CAIRN_GUARDED_BY(mutex_);                 // When that changed.
  std::chrono::nanoseconds weighted_ CAIRN_GUARDED_BY(mutex_){0};  // In flight × time.
  TransferFigures figures_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn::observe
