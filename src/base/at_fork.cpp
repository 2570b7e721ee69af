// SPDX-License-Identifier: Apache-2.0
#include "base/internal/at_fork.hpp"

#include <list>
#include <optional>
#include <utility>

#include <pthread.h>

#include "cairn/base/error.hpp"

namespace cairn {
namespace {

struct Kept {
  Mutex* mutex = nullptr;
  ForkHooks hooks;
  std::optional<MutexLock> held;  // During a fork.
};

struct Forks {
  Mutex mutex;
  std::list<Kept> kept CAIRN_GUARDED_BY(mutex);
  std::optional<MutexLock> held;
};

Forks& forks() {
  static Forks& all = *new Forks;  // Never destroyed: a program may fork while it ends.
  return all;
}

void call(const std::function<void()>& hook) {
  if (hook) {
    hook();
  }
}

// Clang cannot see that the locks are held from one of these functions to the next.

void lock_all() CAIRN_UNCHECKED_LOCKS {
  Forks& all = forks();
  all.held.emplace(all.mutex);
  for (Kept& each : all.kept) {
    each.held.emplace(*each.mutex);
    call(each.hooks.before);
  }
}

void unlock_all() CAIRN_UNCHECKED_LOCKS {
  Forks& all = forks();
  for (Kept& each : all.kept) {
    each.held.reset();
  }
  all.held.reset();
}

void begin_in_child() CAIRN_UNCHECKED_LOCKS {
  for (const Kept& each : forks().kept) {
    call(each.hooks.in_child);
  }
  unlock_all();
}

}  // namespace

void keep_whole_in_forks(Mutex& mutex, ForkHooks hooks) {
  static const int failure = ::pthread_atfork(lock_all, unlock_all, begin_in_child);
  if (failure != 0) {
    throw_errno(failure, "pthread_atfork", {});
  }
  Forks& all = forks();
  const MutexLock lock(all.mutex);
  all.kept.emplace_back();
  all.kept.back().mutex = &mutex;
  all.kept.back().hooks = std::move(hooks);
}

}  // namespace cairn
