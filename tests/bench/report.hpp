// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "bench/measure.hpp"
#include "bench/workload.hpp"

namespace cairn::bench {

/// What the line of an operation begins with.
nlohmann::ordered_json line_of(const char* operation, const Workload& workload);

void add_usage(nlohmann::ordered_json& line, const Usage& usage);

/// Prints a line on standard output.
void print(const nlohmann::ordered_json& line);

}  // namespace cairn::bench
