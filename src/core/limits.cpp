// SPDX-License-Identifier: Apache-2.0
#include "core/limits.hpp"

#include <sys/resource.h>
#include <system_error>

#include <algorithm>

namespace cairn::core {
namespace {

namespace fs = std::filesystem;

/// Enough for a file with two descriptors and one beside it.
constexpr std::size_t kLeastOpenFiles = 4;

/// Where there is no /proc: what a program has open as a rule.
constexpr std::size_t kGuessedDescriptors = 64;

/// Of the kernel's default for fs.nr_open: no process has more.
constexpr std::uint64_t kMostDescriptors = std::uint64_t{1} << 20;

std::uint64_t limit_of(int resource) {
  ::rlimit limit{};
  return ::getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

std::size_t open_descriptors(const fs::path& proc) {
  std::error_code failure;
  std::size_t count = 0;
  for (fs::directory_iterator each(proc / "self/fd", failure), end; !failure && each != end;
       each.increment(failure)) {
    ++count;
  }
  return failure ? kGuessedDescriptors : count;
}

}  // namespace

std::size_t free_descriptors(const LimitSources& sources) {
  const std::uint64_t most = std::min(sources.open_files.value_or(limit_of(RLIMIT_NOFILE)), kMostDescriptors);
  const std::size_t open = open_descriptors(sources.proc);
  return most > open ? static_cast<std::size_t>(most) - open : 0;
}

std::size_t default_open_files(const LimitSources& sources) {
  return std::max(free_descriptors(sources) / 2, kLeastOpenFiles);
}

}  // namespace cairn::core
