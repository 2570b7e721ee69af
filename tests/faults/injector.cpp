// SPDX-License-Identifier: Apache-2.0
#include "faults/injector.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include <fmt/format.h>

namespace cairn::faults {

std::string name_of_error(int error) {
  const char* name = ::strerrorname_np(error);
  return name != nullptr ? name : std::to_string(error);
}

std::string describe(const Fault& fault) {
  const std::string what = fault.effect == Effect::cut    ? "short"
                           : fault.effect == Effect::slow ? "slow"
                                                          : name_of_error(fault.error);
  return fmt::format("{} #{}{}: {}", name(fault.op), fault.number,
                     fault.effect == Effect::lasts ? " and later" : "", what);
}

void Injector::arm(const Fault* fault) noexcept {
  fault_ = fault;
  for (auto& count : counts_) {
    count = 0;
  }
  hits_ = refused_bytes_ = 0;
  failed_device_ = failed_inode_ = 0;
  is_synced_again_ = is_holding_ = is_released_ = false;
  is_armed_ = true;
}

Order Injector::next(Op op) noexcept {
  return order(op, true);
}

bool Injector::refuses(std::size_t bytes) noexcept {
  if (next(Op::new_memory).error == 0) {
    return false;
  }
  refused_bytes_ = bytes;
  return true;
}

Order Injector::order(Op op, bool is_hit) noexcept {
  if (!is_armed_) {
    return {};
  }
  const std::uint64_t number = ++counts_[static_cast<std::size_t>(op)];
  if (fault_ == nullptr || fault_->op != op ||
      (fault_->effect == Effect::lasts ? number < fault_->number : number != fault_->number)) {
    return {};
  }
  hits_ += is_hit ? 1 : 0;
  if (fault_->effect == Effect::slow) {
    hold();
    return {};
  }
  return fault_->effect == Effect::cut ? Order{0, true} : Order{fault_->error, false};
}

void Injector::hold() noexcept {
  constexpr timespec kPause{0, 200'000};
  is_holding_ = true;
  while (!is_released_) {
    ::nanosleep(&kPause, nullptr);
  }
  is_holding_ = false;
}

void Injector::failed_sync(int fd) noexcept {
  struct stat found {};

  if (::fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) {
    failed_device_ = found.st_dev;
    failed_inode_ = found.st_ino;
  }
}

void Injector::look_at_sync(int fd) noexcept {
  struct stat found {};

  if (is_armed_ && failed_inode_ != 0 && ::fstat(fd, &found) == 0 && found.st_ino == failed_inode_ &&
      found.st_dev == failed_device_) {
    is_synced_again_ = true;
  }
}

Injector& injector() noexcept {
  static Injector one;
  return one;
}

}  // namespace cairn::faults
