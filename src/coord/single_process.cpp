// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "cairn/coord/coordinator.hpp"

namespace cairn::coord {
namespace {

/// The transport of a job of one rank: there is nobody to send to, or to wait for.
class Nobody final : public Transport {
 public:
  std::size_t rank() const noexcept override { return 0; }
  std::size_t size() const noexcept override { return 1; }
  std::span<const std::uint32_t> hosts() const noexcept override { return {&host_, 1}; }
  Hash128 job() const noexcept override { return {}; }
  void send(std::size_t /*to*/, Packet /*packet*/) override {}
  void listen(Receiver /*receiver*/, std::function<void()> /*ended*/) override {}
  void call_after(std::chrono::nanoseconds /*delay*/, std::function<void()> /*work*/) override {}
  Time now() const override { return std::chrono::steady_clock::now(); }

 private:
  const std::uint32_t host_ = 0;
};

}  // namespace

const std::shared_ptr<Coordinator>& single_process() {
  // Never destroyed: threads of a context that is still busy at the end of the program go on using it.
  static const auto& coordinator =
      *new std::shared_ptr<Coordinator>(std::make_shared<Coordinator>(std::make_unique<Nobody>()));
  return coordinator;
}

}  // namespace cairn::coord
