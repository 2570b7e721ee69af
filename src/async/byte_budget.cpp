// SPDX-License-Identifier: Apache-2.0
#include "async/internal/byte_budget.hpp"

#include <utility>

namespace cairn::async {

ByteBudget::ByteBudget(std::size_t capacity_bytes) : semaphore_(capacity_bytes) {}

Awaitable<ByteLease> ByteBudget::acquire(std::size_t bytes) {
  return acquire(semaphore_, bytes);
}

Awaitable<ByteLease> ByteBudget::acquire(Semaphore semaphore, std::size_t bytes) {
  Permit permit = co_await semaphore.acquire(bytes);
  co_return ByteLease(std::move(permit));
}

ByteLease ByteBudget::try_acquire(std::size_t bytes) {
  return ByteLease(semaphore_.try_acquire(bytes));
}

void ByteBudget::close() {
  semaphore_.close();
}

std::size_t ByteBudget::capacity_bytes() const noexcept {
  return semaphore_.capacity();
}

std::size_t ByteBudget::leased_bytes() const {
  return semaphore_.taken();
}

std::size_t ByteBudget::waiting() const {
  return semaphore_.waiting();
}

}  // namespace cairn::async
