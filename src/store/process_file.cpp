// SPDX-License-Identifier: Apache-2.0
#include "store/internal/process_file.hpp"

#include <unistd.h>

#include <cstdint>
#include <set>
#include <utility>

#include "base/internal/assert.hpp"
#include "base/internal/at_fork.hpp"
#include "base/internal/mutex.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"

namespace cairn::store {
namespace {

/// The descriptors that a child closes.
struct Descriptors {
  Mutex mutex;
  std::set<int> all CAIRN_GUARDED_BY(mutex);
  std::uint64_t forks CAIRN_GUARDED_BY(mutex) = 0;  // That have begun.
};

Descriptors& descriptors() {
  static Descriptors& made = []() -> Descriptors& {
    auto& one = *new Descriptors;
    ForkHooks hooks;
    // With the mutex locked, which clang cannot see.
    hooks.before = [&one]() CAIRN_UNCHECKED_LOCKS { ++one.forks; };
    hooks.in_child = [&one]() CAIRN_UNCHECKED_LOCKS {
      for (const int fd : one.all) {
        ::close(fd);
      }
      one.all.clear();
    };
    keep_whole_in_forks(one.mutex, std::move(hooks));
    return one;
  }();
  return made;
}

std::uint64_t count_forks() {
  Descriptors& known = descriptors();
  const MutexLock lock(known.mutex);
  return known.forks;
}

/// False when the process was forked since: a child may have the file, and not know that it is to close it.
bool enter(int fd, std::uint64_t forks) {
  Descriptors& known = descriptors();
  const MutexLock lock(known.mutex);
  if (known.forks != forks) {
    CAIRN_PROBE("store.forked_while_a_file_was_opened");
    return false;
  }
  known.all.insert(fd);
  CAIRN_ASSERT(fd >= 0, "only open files are closed in children");
  return true;
}

}  // namespace

ProcessFile::ProcessFile(const std::function<io::FileHandle()>& open) : process_(::getpid()) {
  for (;;) {
    forks_ = count_forks();
    file_ = std::make_unique<io::FileHandle>(open());
    if (enter(file_->fd(), forks_)) {
      return;
    }
  }
}

ProcessFile::~ProcessFile() {
  if (!file_) {
    return;
  }
  if (process_ != ::getpid()) {
    CAIRN_PROBE("store.file_of_the_parent_process");
    static_cast<void>(
        file_.release());  // Its descriptor was closed, and its number is another file's perhaps.
    return;
  }
  Descriptors& known = descriptors();
  const MutexLock lock(known.mutex);
  if (known.forks != forks_) {
    CAIRN_PROBE("store.forked_while_a_file_was_locked");
    static_cast<void>(io::uninterrupted([&] { return file_->syscalls().unlock(file_->fd()); }));
  }
  known.all.erase(file_->fd());
  file_.reset();  // With the lock: so the number is not another file's while a child would close it.
}

}  // namespace cairn::store
