// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace cairn {

/// Names the limits that an errno of a shortage may come from, with their values: "RLIMIT_NOFILE is 1024". Empty
/// where the process has none, and for all other errors.
std::string limits_behind(int error);

/// The same for a thread that could not be started: "RLIMIT_NPROC is 100, or pids.max of a control group".
std::string limits_of_threads();

}  // namespace cairn
