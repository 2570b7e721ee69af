// SPDX-License-Identifier: Apache-2.0
#include "store/internal/timestamp.hpp"

#include <cstdint>
#include <ctime>

#include <fmt/format.h>

namespace cairn::store {
namespace {

std::uint32_t part_of_second(std::chrono::system_clock::time_point time) {
  const std::chrono::nanoseconds part = time - std::chrono::floor<std::chrono::seconds>(time);
  return static_cast<std::uint32_t>(part.count());
}

}  // namespace

std::string utc(std::chrono::system_clock::time_point time) {
  const std::time_t seconds =
      std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(time));
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

void set_started(Manifest& manifest, std::chrono::system_clock::time_point time) {
  manifest.started = utc(time);
  manifest.started_nanoseconds = part_of_second(time);
}

void set_committed(Manifest& manifest, std::chrono::system_clock::time_point time) {
  manifest.committed = utc(time);
  manifest.committed_nanoseconds = part_of_second(time);
}

}  // namespace cairn::store
