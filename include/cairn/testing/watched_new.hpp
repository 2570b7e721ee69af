// SPDX-License-Identifier: Apache-2.0
#pragma once

// Replaces `operator new` and `operator delete` of the program, so that ContextOptions::check_handlers watches what
// values allocate, too: the elements of a std::vector, the text of a std::string. To be included in exactly one
// source file, of a program for tests or debugging. Memory that is not for such copies comes from std::malloc.

#include <cstddef>
#include <cstdlib>
#include <new>

#include "cairn/contract/value_traits.hpp"

namespace cairn::testing {

/// As `operator new` must: asks the handler for new memory until there is some.
inline void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* memory = contract::allocate_watched(bytes, alignment)) {
    return memory;
  }
  for (;;) {
    void* memory = nullptr;
    if (alignment <= alignof(std::max_align_t)) {
      memory = std::malloc(bytes == 0 ? 1 : bytes);
    } else {
      memory = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
    }
    if (memory != nullptr) {
      return memory;
    }
    const std::new_handler make_room = std::get_new_handler();
    if (make_room == nullptr) {
      throw std::bad_alloc();
    }
    make_room();
  }
}

inline void free_somewhere(void* memory) noexcept {
  if (memory != nullptr && !contract::free_watched(memory)) {
    std::free(memory);
  }
}

}  // namespace cairn::testing

// The forms for arrays, and those that do not throw, come to these.
void* operator new(std::size_t bytes) {
  return cairn::testing::allocate_or_throw(bytes, alignof(std::max_align_t));
}

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return cairn::testing::allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}

void operator delete(void* memory) noexcept {
  cairn::testing::free_somewhere(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  cairn::testing::free_somewhere(memory);
}

void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  cairn::testing::free_somewhere(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  cairn::testing::free_somewhere(memory);
}
