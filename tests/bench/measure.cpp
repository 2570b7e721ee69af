// SPDX-License-Identifier: Apache-2.0
#include "bench/measure.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace cairn::bench {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double process_cpu() {
  double total = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    ::getrusage(who, &usage);
    total += seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  }
  return total;
}

/// Busy seconds of all cores: everything in /proc/stat but idle and waiting for disks.
double machine_cpu() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0;
  stat >> cpu >> user >> nice >> system >> idle >> wait >> irq >> soft >> steal;
  return (user + nice + system + irq + soft + steal) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

Usage::Usage() : process_begin_(process_cpu()), machine_begin_(machine_cpu()) {
  std::ofstream("/proc/self/clear_refs") << "5";  // Resets the peak.
}

double Usage::process_seconds() const {
  return process_cpu() - process_begin_;
}

double Usage::machine_seconds() const {
  return machine_cpu() - machine_begin_;
}

double Usage::peak_rss_mb() const {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) {
      return std::stod(line.substr(6)) / 1024.0;
    }
  }
  return 0;
}

void sync_file_system(const std::filesystem::path& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || ::syncfs(fd) != 0) {
    throw std::runtime_error("cannot sync " + directory.string());
  }
  ::close(fd);
}

bool drop_page_cache(const std::filesystem::path& directory) {
  sync_file_system(directory);
  std::ofstream control("/proc/sys/vm/drop_caches");
  control << "3" << std::flush;
  return control.good();
}

DiskUse disk_use(const std::filesystem::path& directory) {
  DiskUse use;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    struct stat status {};
    if (entry.is_regular_file() && ::stat(entry.path().c_str(), &status) == 0) {
      ++use.files;
      use.file_bytes += static_cast<std::uint64_t>(status.st_size);
      use.disk_bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
  }
  return use;
}

}  // namespace cairn::bench
