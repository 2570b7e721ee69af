// SPDX-License-Identifier: Apache-2.0
#include "store/internal/trash.hpp"

#include <system_error>

#include <exception>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "store/retire.hpp"

namespace cairn::store {
namespace {

/// Removes what has that name of trash, if it is there still.
void remove_one(const io::Directory& parent, const std::string& name) {
  try {
    if (parent.status(name)) {
      parent.sync();  // It may be here that it failed: until then a power cut brings the checkpoint back.
      remove_retired(parent, name, parent.open_directory(name));
    }
  } catch (const Error& error) {  // A recovery may have been faster.
    if (error.code() != std::errc::no_such_file_or_directory || parent.status(name)) {
      throw;
    }
    CAIRN_PROBE("store.trash_is_gone");
  }
}

}  // namespace

void Trash::begin(const std::string& name) {
  const MutexLock lock(mutex_);
  const bool is_new = is_at_work_.emplace(name, true).second;
  CAIRN_ASSERT(is_new, "what is removed has a name of its own");
}

void Trash::end(const std::string& name) noexcept {
  const MutexLock lock(mutex_);
  is_at_work_.erase(name);
}

void Trash::give_up(const std::string& name) noexcept {
  const MutexLock lock(mutex_);
  const auto found = is_at_work_.find(name);
  if (found != is_at_work_.end()) {
    found->second = false;
  }
}

bool Trash::is_empty() const {
  const MutexLock lock(mutex_);
  return is_at_work_.empty();
}

void Trash::remove(const io::Directory& parent) {
  std::vector<std::string> failed;
  std::string running;
  {
    const MutexLock lock(mutex_);
    for (auto& [name, is_at_work] : is_at_work_) {
      if (is_at_work) {
        running = name;
      } else {
        failed.push_back(name);
        is_at_work = true;
      }
    }
  }
  std::exception_ptr failure;
  for (const std::string& name : failed) {
    try {
      remove_one(parent, name);
      end(name);
    } catch (...) {
      CAIRN_PROBE("store.trash_failed_again");
      give_up(name);
      failure = failure ? failure : std::current_exception();
    }
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
  if (!running.empty()) {
    throw Error(Errc::timed_out, fmt::format("{} is still being removed, and has passed its deadline",
                                             (parent.path() / running).string()));
  }
}

}  // namespace cairn::store
