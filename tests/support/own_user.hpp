// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

#include <string>

namespace cairn::testing {

/// Makes the calling process the only one of its user, so that a limit on his threads counts its own: as root by
/// taking an id that nobody has, else by a user namespace. For a process that has started no thread and opened no
/// file yet.
///
/// Returns why that cannot be done here, or would mean little; empty when it was.
std::string become_own_user();

/// Sets a limit of this process; throws when the system refuses.
void limit_to(int resource, rlim_t most);

}  // namespace cairn::testing
