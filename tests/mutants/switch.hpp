// SPDX-License-Identifier: Apache-2.0
// What the copies of the sources ask, at each of their mutants, whether it is the one that is switched on.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace cairn_mutants {

constexpr int kMost = 65536;

/// Read once: the number of the mutant that is on, 0 for none, and a byte for each mutant that this process reaches.
///
/// Tests that run programs of their own hand on the environment, and so their mutants.
class Switch {
 public:
  Switch() noexcept {
    if (const char* number = std::getenv("CAIRN_MUTANT")) {
      number_ = std::atoi(number);
    }
    if (const char* path = std::getenv("CAIRN_MUTANTS_REACHED")) {
      map(path);
    }
  }

  [[nodiscard]] bool is(int number) const noexcept {
    if (reached_ != nullptr) {
      __atomic_store_n(&reached_[number], static_cast<unsigned char>(1), __ATOMIC_RELAXED);
    }
    return number_ == number;
  }

 private:
  /// A process that may not open it, because it has shut itself in, is not recorded.
  void map(const char* path) noexcept {
    const int fd = ::open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
      return;
    }
    void* const bytes = ::mmap(nullptr, kMost, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (bytes != MAP_FAILED) {
      reached_ = static_cast<unsigned char*>(bytes);
    }
  }

  int number_ = 0;
  unsigned char* reached_ = nullptr;
};

inline bool is(int number) noexcept {
  static const Switch the_switch;
  return the_switch.is(number);
}

/// `negation % value` is `!value`, or `value` where the mutant is on. `%` binds as `!` does to what follows it, nearly.
struct Negation {
  bool is_removed;
};

template <class Value>
bool operator%(Negation negation, const Value& value) {
  return static_cast<bool>(value) == negation.is_removed;
}

inline Negation negation(int number) noexcept {
  return {is(number)};
}

}  // namespace cairn_mutants
