// SPDX-License-Identifier: Apache-2.0
#include "support/peak_memory.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <string>

#include <malloc.h>

#include "support/sanitizer.hpp"

namespace cairn::testing {
namespace {

/// A line of /proc/self/status, in bytes.
std::size_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) {
      return std::stoull(line.substr(name.size() + 1)) * 1024;
    }
  }
  return 0;
}

std::size_t growth_of(const std::function<void()>& work) {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5\n";  // The peak is what is resident now.
  const std::size_t before = status_bytes("VmRSS");
  work();
  const std::size_t peak = status_bytes("VmHWM");
  return peak > before ? peak - before : 0;
}

}  // namespace

const char* why_no_peak_memory() {
  return kHasSanitizer ? "sanitizers have memory of their own" : "";
}

std::optional<std::size_t> peak_growth(const std::function<void()>& work) {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) {
    return std::nullopt;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 1;
    try {
      const std::size_t growth = growth_of(work);
      status = ::write(ends[1], &growth, sizeof(growth)) == sizeof(growth) ? 0 : 1;
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "%.2000s\n", failure.what());
    }
    ::_exit(status);
  }
  ::close(ends[1]);
  std::size_t growth = 0;
  const bool is_told = child > 0 && ::read(ends[0], &growth, sizeof(growth)) == sizeof(growth);
  ::close(ends[0]);
  int status = 0;
  const bool has_ended = child > 0 && ::waitpid(child, &status, 0) == child;
  return is_told && has_ended && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? std::optional(growth)
                                                                               : std::nullopt;
}

}  // namespace cairn::testing
