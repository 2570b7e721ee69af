// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace cairn {

class Context;

/// What the saves and loads of a context have done since it was made, in Prometheus' text format 0.0.4.
///
/// Counters: saves and loads begun, done, failed by error code; bytes; requests retried and shortened.
/// Histograms: seconds of saves, of their blocking phases, of loads, and of each step. Gauges: staging
/// memory. Questions for metadata are not counted.
/// Threads: safe, also while operations run; an operation is counted before its response says it is done.
[[nodiscard]] std::string prometheus_text(const Context& context);

}  // namespace cairn
