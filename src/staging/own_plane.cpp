// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/own_plane.hpp"

#include <system_error>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <mutex>

#include "cairn/base/error.hpp"

#include "base/internal/clock.hpp"

namespace cairn::staging {
namespace {

constexpr std::size_t kTransfersAThread = 4;
constexpr std::size_t kMostTransfers = 16;  // More keep no disk busier.

std::size_t transfers_for(std::size_t threads) {
  return std::min(kTransfersAThread * threads, kMostTransfers);
}

/// Makes the engine that does the work when the first request comes.
class LazyEngine final : public io::Engine {
 public:
  explicit LazyEngine(io::Syscalls& syscalls) : syscalls_(syscalls) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "lazy"; }
  [[nodiscard]] io::Syscalls& syscalls() noexcept override { return syscalls_; }

  void submit(io::Request& request) noexcept override {
    try {
      std::call_once(once_, [this] { make(); });
      engine_->submit(request);
    } catch (const std::system_error& error) {
      request.done(request, -error.code().value());
    } catch (const std::exception&) {
      request.done(request, -ENOMEM);
    }
  }

 private:
  void make() {
    // A ring's transfers do not pass through the calls that somebody has put in the place of the system's.
    const bool is_real = &syscalls_ == &io::posix_syscalls();
    io::EngineOptions options;
    options.syscalls = &syscalls_;
    engine_ = io::make_engine(is_real ? io::EngineKind::automatic : io::EngineKind::threads, options).engine;
  }

  io::Syscalls& syscalls_;
  std::once_flag once_;
  std::unique_ptr<io::Engine> engine_;
};

}  // namespace

OwnPlane::OwnPlane(io::Syscalls& syscalls, std::size_t threads)
    : engine_(std::make_unique<LazyEngine>(syscalls)),
      meter_(system_clock(), system_clock().steady_now(), "", TraceSink()),
      pool_(async::PoolThreads(1, threads), "cairn-worker"),
      strand_(async::make_strand(pool_.executor())),
      plane_{.engine = *engine_,
             .meter = meter_,
             .workers = async::LimitedPool(pool_, threads),
             .calls = async::LimitedPool(pool_, threads),
             .background = async::LimitedPool(pool_, threads),
             .users = async::LimitedPool(pool_, threads),
             .users_background = async::LimitedPool(pool_, threads),
             .buffers = BufferPool((transfers_for(threads) + threads) * kBufferBytes),
             .scratch = async::Semaphore(0),
             .transfers = async::Semaphore(transfers_for(threads)),
             .gathers = async::Semaphore(0),
             .files = FileBudget(0),
             .strand = strand_,
             .helpers = std::make_shared<async::TaskGroup>(strand_)} {}

}  // namespace cairn::staging
