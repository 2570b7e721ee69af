// SPDX-License-Identifier: Apache-2.0
#include "faults/mutants.hpp"

#include <utility>

#include "io/internal/syscalls.hpp"
#include "support/forwarding_syscalls.hpp"

namespace cairn::faults {
namespace {

class Mutant final : public testing::ForwardingSyscalls {
 public:
  explicit Mutant(Twist twist) : twist_(std::move(twist)) {}

 private:
  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    const std::int64_t answer = twist_(call.kind, call.fd, call.make());
    return answer == kAll ? static_cast<std::int64_t>(call.bytes) : answer;
  }

  Twist twist_;
};

}  // namespace

std::shared_ptr<io::Syscalls> make_mutant(Twist twist) {
  return std::make_shared<Mutant>(std::move(twist));
}

}  // namespace cairn::faults
