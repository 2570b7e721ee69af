// SPDX-License-Identifier: Apache-2.0
#include "support/own_user.hpp"

#include <sys/prctl.h>
#include <system_error>
#include <unistd.h>

#include <cerrno>

#include <grp.h>
#include <sched.h>

#include "support/sanitizer.hpp"

namespace cairn::testing {
namespace {

/// No process has this user yet: ids of processes are unique, and those of people and services are smaller.
constexpr uid_t kFirstOwnUser = 0x40000000;

bool take_own_id() {
  const uid_t id = kFirstOwnUser + static_cast<uid_t>(::getpid());
  return ::setgroups(0, nullptr) == 0 && ::setgid(id) == 0 && ::setuid(id) == 0 &&
         ::prctl(PR_SET_DUMPABLE, 1) == 0;  // Else /proc/self is root's from now on.
}

}  // namespace

std::string become_own_user() {
  if (kHasSanitizer) {
    return "sanitizers have threads and memory of their own";
  }
  if (::geteuid() == 0 && take_own_id()) {
    return {};
  }
  if (::geteuid() == 0) {
    return "root may not become another user here";
  }
  return ::unshare(CLONE_NEWUSER) == 0 ? std::string()
                                       : "no user namespace: " + std::system_category().message(errno);
}

void limit_to(int resource, rlim_t most) {
  const rlimit limit{most, most};
  if (::setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) {
    throw std::system_error(errno, std::system_category(), "setrlimit");
  }
}

}  // namespace cairn::testing
