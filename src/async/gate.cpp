// SPDX-License-Identifier: Apache-2.0
#include "async/internal/gate.hpp"

#include <atomic>
#include <cstdint>

namespace cairn::async {
namespace {

// The lowest bit says that the gate is closed; the rest counts visitors. One word, so that nobody enters unseen between
// the closing and the count.
constexpr std::uint64_t kClosed = 1;
constexpr std::uint64_t kVisitor = 2;

}  // namespace

struct Gate::State {
  std::atomic<std::uint64_t> word{0};
  Event left;
};

Gate::Gate() : state_(std::make_shared<State>()) {}

Gate Gate::closed() {
  Gate gate;
  gate.close();
  return gate;
}

Gate::Visit Gate::try_enter() const noexcept {
  if (is_closed()) {
    return {};
  }
  Visit visit(state_);
  if ((state_->word.fetch_add(kVisitor) & kClosed) != 0) {
    return {};  // Closed meanwhile: the visit leaves at once, and tells if it was the last.
  }
  return visit;
}

void Gate::close() const {
  const std::uint64_t before = state_->word.fetch_or(kClosed);
  if (before == 0) {
    state_->left.set();
  }
}

bool Gate::is_closed() const noexcept {
  return (state_->word.load() & kClosed) != 0;
}

const Event& Gate::left() const noexcept {
  return state_->left;
}

void Gate::Visit::leave() noexcept {
  const std::shared_ptr<State> state = std::move(state_);
  if (state && state->word.fetch_sub(kVisitor) == kVisitor + kClosed) {
    state->left.set();
  }
}

}  // namespace cairn::async
