// SPDX-License-Identifier: Apache-2.0
#include "base/internal/limits.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

#include <dirent.h>

namespace cairn {
namespace {

namespace fs = std::filesystem;

/// Enough for a file with two descriptors and one more.
constexpr std::size_t kLeastOpenFiles = 4;

/// Where there is no /proc: what a program has open as a rule.
constexpr std::size_t kGuessedDescriptors = 64;

/// Of the kernel's default for fs.nr_open: no process has more.
constexpr std::uint64_t kMostDescriptors = std::uint64_t{1} << 20;

std::uint64_t own_limit_of(int resource) {
  ::rlimit limit{};
  return ::getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

std::size_t open_descriptors(const fs::path& proc) {
  // Not std::filesystem::directory_iterator: that of libstdc++ 12 ends the program when it gets no memory.
  DIR* stream = ::opendir((proc / "self/fd").c_str());
  if (stream == nullptr) {
    return kGuessedDescriptors;
  }
  std::size_t count = 0;
  while (const dirent* entry = ::readdir(stream)) {
    count += entry->d_name[0] == '.' ? 0 : 1;
  }
  ::closedir(stream);
  return count;
}

/// The number that a file of the kernel begins with; nothing for "max", and when there is no such file.
std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

std::uint64_t machine_memory(const fs::path& proc) {
  std::ifstream file(proc / "meminfo");
  std::string name;
  std::uint64_t kibibytes = 0;
  if (file >> name >> kibibytes && name == "MemTotal:") {
    return kibibytes * 1024;
  }
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// The smallest limit in a control group and all above it. In a container the path of the group may be one that is
/// not visible; then what is mounted at `root` is its own.
std::uint64_t smallest_upwards(const fs::path& root, const std::string& group,
                               std::initializer_list<const char*> names) {
  std::uint64_t smallest = std::numeric_limits<std::uint64_t>::max();
  std::string rest = group;
  while (true) {
    for (const char* name : names) {
      smallest = std::min(smallest, number_in(fs::path(root.string() + rest) / name).value_or(smallest));
    }
    const std::size_t slash = rest.rfind('/');
    if (slash == std::string::npos) {
      return smallest;
    }
    rest.resize(slash);
  }
}

bool lists_memory(std::string_view controllers) {
  while (true) {
    const std::size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == "memory") {
      return true;
    }
    if (comma == std::string_view::npos) {
      return false;
    }
    controllers.remove_prefix(comma + 1);
  }
}

/// Lines of /proc/self/cgroup: "<number>:<controllers>:<path>"; of version 2, "0::<path>".
std::uint64_t group_limit(const LimitSources& sources) {
  std::uint64_t smallest = std::numeric_limits<std::uint64_t>::max();
  std::ifstream file(sources.proc / "self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      for (const fs::path& root : {sources.cgroup, sources.cgroup / "unified"}) {
        smallest = std::min(smallest, smallest_upwards(root, group, {"memory.max", "memory.high"}));
      }
    } else if (lists_memory(controllers)) {
      for (const fs::path& root : {sources.cgroup / "memory", sources.cgroup / controllers}) {
        smallest = std::min(smallest, smallest_upwards(root, group, {"memory.limit_in_bytes"}));
      }
    }
  }
  return smallest;
}

}  // namespace

std::uint64_t memory_limit(const LimitSources& sources) {
  const std::uint64_t addresses =
      sources.address_space.value_or(std::min(own_limit_of(RLIMIT_AS), own_limit_of(RLIMIT_DATA)));
  return std::min({machine_memory(sources.proc), group_limit(sources), addresses});
}

std::size_t default_staging_bytes(const LimitSources& sources) {
  return static_cast<std::size_t>(memory_limit(sources) / 4);
}

std::uint64_t default_unpacked_bytes(const LimitSources& sources) {
  return memory_limit(sources) / 2;
}

std::size_t free_descriptors(const LimitSources& sources) {
  const std::uint64_t most =
      std::min(sources.open_files.value_or(own_limit_of(RLIMIT_NOFILE)), kMostDescriptors);
  const std::size_t open = open_descriptors(sources.proc);
  return most > open ? static_cast<std::size_t>(most) - open : 0;
}

std::size_t default_open_files(const LimitSources& sources) {
  return std::max(free_descriptors(sources) / 2, kLeastOpenFiles);
}

}  // namespace cairn
