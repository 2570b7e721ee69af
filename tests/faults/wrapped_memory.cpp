// SPDX-License-Identifier: Apache-2.0
// Memory and threads that may be refused.
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

#include <dlfcn.h>
#include <pthread.h>

#include "faults/injector.hpp"

using cairn::faults::injector;
using cairn::faults::Op;

extern "C" {
void* __real_aligned_alloc(std::size_t alignment, std::size_t bytes);
char* __real___cxa_demangle(const char* name, char* buffer, std::size_t* size, int* status);
void __real_free(void* memory);
}

namespace {

void* allocate_or_null(std::size_t bytes, std::size_t alignment) noexcept {
  if (injector().refuses(bytes)) {
    return nullptr;
  }
  void* memory = nullptr;
  if (alignment <= alignof(std::max_align_t)) {
    memory = std::malloc(bytes == 0 ? 1 : bytes);
  } else if (::posix_memalign(&memory, alignment, bytes) != 0) {
    memory = nullptr;
  }
  injector().news += memory != nullptr ? 1 : 0;
  return memory;
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  void* memory = allocate_or_null(bytes, alignment);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

void release(void* memory) noexcept {
  injector().news -= memory != nullptr ? 1 : 0;
  __real_free(memory);
}

using StartThread = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate(bytes, 1);
}

void* operator new[](std::size_t bytes) {
  return allocate(bytes, 1);
}

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}

void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}

void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return allocate_or_null(bytes, 1);
}

void* operator new[](std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return allocate_or_null(bytes, 1);
}

void operator delete(void* memory) noexcept {
  release(memory);
}

void operator delete[](void* memory) noexcept {
  release(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  release(memory);
}

void operator delete[](void* memory, std::size_t /*bytes*/) noexcept {
  release(memory);
}

void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  release(memory);
}

void operator delete[](void* memory, std::align_val_t /*alignment*/) noexcept {
  release(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  release(memory);
}

void operator delete[](void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  release(memory);
}

extern "C" {

// Takes the place of the C library's own, for the standard library too, which the linker cannot lead elsewhere.
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) noexcept {
  static const auto real = reinterpret_cast<StartThread>(::dlsym(RTLD_NEXT, "pthread_create"));
  const int error = injector().next(Op::start_thread).error;
  return error != 0 ? error : real(thread, attributes, run, argument);
}

// Asio's allocator calls these two; the only other memory that the library frees itself is that of demangled names.
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t bytes) {
  if (injector().refuses(bytes)) {
    return nullptr;
  }
  ++injector().frames;
  return __real_aligned_alloc(alignment, bytes);
}

char* __wrap___cxa_demangle(const char* name, char* buffer, std::size_t* size, int* status) {
  char* text = __real___cxa_demangle(name, buffer, size, status);
  injector().frames += text != nullptr ? 1 : 0;
  return text;
}

void __wrap_free(void* memory) {
  injector().frames -= memory != nullptr ? 1 : 0;
  __real_free(memory);
}

}  // extern "C"
