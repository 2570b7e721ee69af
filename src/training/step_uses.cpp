// SPDX-License-Identifier: Apache-2.0
#include "training/step_uses.hpp"

#include <system_error>
#include <unistd.h>

#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/per_process.hpp"

namespace cairn::training {

namespace {

/// The roots in use; there is one table for the process, because the promise holds for the process.
struct Roots {
  Mutex mutex;
  std::map<std::pair<const io::Syscalls*, std::string>, std::weak_ptr<StepUses>> all CAIRN_GUARDED_BY(mutex);
};

constinit PerProcess<Roots> roots;

}  // namespace

std::shared_ptr<StepUses> StepUses::of(const std::filesystem::path& root, const io::Syscalls* syscalls) {
  std::error_code ignored;
  std::filesystem::path canonical = std::filesystem::weakly_canonical(root, ignored);
  if (ignored || canonical.empty()) {
    canonical = root;
  }
  if (!canonical.has_filename()) {
    canonical = canonical.parent_path();
  }
  Roots& known = roots.get();
  const MutexLock lock(known.mutex);
  std::erase_if(known.all, [](const auto& each) { return each.second.expired(); });
  std::weak_ptr<StepUses>& of_root = known.all[{syscalls, canonical.string()}];
  std::shared_ptr<StepUses> uses = of_root.lock();
  if (!uses) {
    uses = std::make_shared<StepUses>();
    of_root = uses;
  }
  return uses;
}

std::set<std::uint64_t> StepUses::in_use() const {
  const MutexLock lock(mutex_);
  return {users_.begin(), users_.end()};
}

bool StepUses::is_being_removed(std::uint64_t step) const {
  const MutexLock lock(mutex_);
  return removals_.contains(step);
}

bool StepUses::begin_removal(std::uint64_t step) {
  const MutexLock lock(mutex_);
  return !users_.contains(step) && removals_.insert(step).second;
}

void StepUses::end_removal(std::uint64_t step) noexcept {
  const MutexLock lock(mutex_);
  removals_.erase(step);
}

StepRemoval::~StepRemoval() {
  if (has_begun_) {
    uses_.end_removal(step_);
  }
}

StepUser::StepUser(std::shared_ptr<StepUses> uses, std::uint64_t step)
    : uses_(std::move(uses)), step_(step), process_(::getpid()) {
  const MutexLock lock(uses_->mutex_);
  if (uses_->removals_.contains(step)) {
    throw Error(Errc::not_found, fmt::format("step {} is being removed", step));
  }
  uses_->users_.insert(step);
}

StepUser::~StepUser() {
  if (process_ != ::getpid()) {
    return;  // Of the process that this one was forked from: its lock may never be free here.
  }
  const MutexLock lock(uses_->mutex_);
  uses_->users_.erase(uses_->users_.find(step_));
}

}  // namespace cairn::training
