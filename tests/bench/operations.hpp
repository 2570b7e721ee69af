// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/workload.hpp"

namespace cairn::bench {

/// Each runs one operation and prints its JSON lines on standard output.
/// Errors: std::exception with a sentence.
void run_save(const Workload& workload);
void run_load(const Workload& workload);
void run_metadata(const Workload& workload);
/// How much a save in the background slows down two threads that compute.
void run_interference(const Workload& workload);
void run_ceilings(const Workload& workload);

}  // namespace cairn::bench
