// SPDX-License-Identifier: Apache-2.0
#include "mpi/scarce_memory.hpp"

#include <cstdlib>
#include <new>

void* operator new(std::size_t bytes) {
  void* const memory =
      bytes <= cairn::testing::largest_allocation ? std::malloc(bytes == 0 ? 1 : bytes) : nullptr;
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}
