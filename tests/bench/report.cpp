// SPDX-License-Identifier: Apache-2.0
#include "bench/report.hpp"

#include <cstdio>

namespace cairn::bench {

nlohmann::ordered_json line_of(const char* operation, const Workload& workload) {
  return {{"op", operation}, {"workload", workload.name}, {"variant", workload.variant}};
}

void add_usage(nlohmann::ordered_json& line, const Usage& usage) {
  line["cpu_s"] = usage.process_seconds();
  line["machine_cpu_s"] = usage.machine_seconds();
  line["peak_rss_mb"] = usage.peak_rss_mb();
}

void print(const nlohmann::ordered_json& line) {
  std::fputs((line.dump() + "\n").c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace cairn::bench
