// SPDX-License-Identifier: Apache-2.0
#include "verdicts/stillness.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string_view>

#include <dirent.h>
#include <fmt/format.h>

namespace cairn::verdicts {
namespace {

std::int64_t nanoseconds_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

/// The file's text, or nothing when the thread has ended.
std::string_view read_again(int fd, std::array<char, 512>& buffer) {
  const ssize_t got = ::pread(fd, buffer.data(), buffer.size() - 1, 0);
  return got <= 0 ? std::string_view() : std::string_view(buffer.data(), static_cast<std::size_t>(got));
}

std::string read_small(const std::string& path) {
  std::array<char, 512> buffer{};
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::string text(fd < 0 ? std::string_view() : read_again(fd, buffer));
  ::close(fd);
  return text;
}

/// The letter of a thread's state: it stands behind the name, which may hold anything.
char state_in(std::string_view stat) {
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string_view::npos || name_end + 2 >= stat.size() ? '?' : stat[name_end + 2];
}

}  // namespace

Stillness::Stillness()
    : directory_(::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), self_(::gettid()) {}

Stillness::~Stillness() {
  for (const auto& [thread, files] : files_) {
    ::close(files.state);
    ::close(files.runs);
  }
  ::close(directory_);
}

bool Stillness::is_still() {
  if (has_worked()) {
    return false;
  }
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  // A thread that is made after the first list is in the second one, and one that is made after that was made by a
  // thread that ran after the first sum.
  list_threads();
  return add_up(before) && !list_threads() && add_up(after) && before == after;
}

bool Stillness::has_worked() {
  const std::int64_t own = nanoseconds_of(CLOCK_THREAD_CPUTIME_ID);
  // The process's clock is read between two looks at the own one, so that a difference is the others' work.
  const std::int64_t all = nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID);
  const std::int64_t others = all - own;
  constexpr std::int64_t kOwnWork = 5'000;  // Of this thread, between the two looks.
  const bool worked = worked_ns_ < 0 || others > worked_ns_ + kOwnWork;
  worked_ns_ = others;
  return worked;
}

bool Stillness::list_threads() {
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir("/proc/self/task"), &::closedir);
  std::map<pid_t, Files> found;
  bool is_new = false;
  while (const dirent* entry = ::readdir(tasks.get())) {
    const pid_t thread = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (thread == 0 || thread == self_) {
      continue;
    }
    const auto known = files_.find(thread);
    if (known != files_.end()) {
      found.insert(files_.extract(known));
      continue;
    }
    const std::string folder = std::string(entry->d_name) + "/";
    Files files;
    files.state = ::openat(directory_, (folder + "stat").c_str(), O_RDONLY | O_CLOEXEC);
    files.runs = ::openat(directory_, (folder + "schedstat").c_str(), O_RDONLY | O_CLOEXEC);
    found.emplace(thread, files);
    is_new = true;
  }
  for (const auto& [thread, files] : files_) {
    ::close(files.state);
    ::close(files.runs);
  }
  files_ = std::move(found);
  return is_new;
}

bool Stillness::add_up(std::uint64_t& runs) {
  for (const auto& [thread, files] : files_) {
    if (!look_at(thread, runs)) {
      return false;
    }
  }
  return true;
}

bool Stillness::look_at(pid_t thread, std::uint64_t& runs) {
  std::array<char, 512> buffer{};
  const Files& files = files_.at(thread);
  const std::string_view stat = read_again(files.state, buffer);
  if (stat.empty()) {  // It has ended, and perhaps another one has its number by now: look at the list again.
    ::close(files.state);
    ::close(files.runs);
    files_.erase(thread);
    return false;
  }
  const char state = state_in(stat);
  if (state != 'S' && state != 'Z') {
    return false;
  }
  const std::string_view schedule = read_again(files.runs, buffer);
  const std::size_t last = schedule.rfind(' ');
  runs += last == std::string_view::npos ? 0 : std::strtoull(schedule.data() + last, nullptr, 10);
  return true;
}

std::string Stillness::describe_threads() {
  std::string text;
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir("/proc/self/task"), &::closedir);
  while (const dirent* entry = ::readdir(tasks.get())) {
    if (entry->d_name[0] == '.') {
      continue;
    }
    const std::string folder = fmt::format("/proc/self/task/{}/", entry->d_name);
    std::string name = read_small(folder + "comm");
    name.resize(name.empty() ? 0 : name.size() - 1);
    text += fmt::format("  {:>8} {:<16} {} {}\n", entry->d_name, name, state_in(read_small(folder + "stat")),
                        read_small(folder + "wchan"));
  }
  return text;
}

}  // namespace cairn::verdicts
