// SPDX-License-Identifier: Apache-2.0
// A CachedDisk as a file: `disk_server FOLDER BYTES` mounts a FUSE file system on FOLDER that has one file,
// `disk.img`, for a loop device to use: its flushes arrive here as syncs. A process of its own, so that a test never
// waits for itself. Says "ready", and then answers each line of standard input with one of its own:
//
//   fail read|write|sync SKIPPED TIMES BEGIN END   heal   cut SEED   on
//
// When standard input ends, so does the disk.
#define FUSE_USE_VERSION 35
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

#include <fuse.h>

#include "disk/cached_disk.hpp"

namespace cairn::disk {
namespace {

constexpr std::string_view kName = "/disk.img";

struct Served {
  explicit Served(std::uint64_t bytes) : disk(bytes) {}

  std::mutex mutex;  // Protects `disk`.
  CachedDisk disk;
};

Served& served() {
  return *static_cast<Served*>(fuse_get_context()->private_data);
}

int get_attributes(const char* path, struct stat* attributes, fuse_file_info*) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->st_nlink = 1;
  if (path == kName) {
    attributes->st_mode = S_IFREG | 0600;
    attributes->st_size = static_cast<off_t>(served().disk.bytes());
    return 0;
  }
  attributes->st_mode = S_IFDIR | 0700;
  return std::string_view(path) == "/" ? 0 : -ENOENT;
}

int open_file(const char* path, fuse_file_info* info) {
  info->direct_io = 1;  // Every request is to arrive here, and none to be answered by the page cache.
  return path == kName ? 0 : -ENOENT;
}

int read_file(const char*, char* data, std::size_t size, off_t offset, fuse_file_info*) {
  Served& to = served();
  const std::lock_guard lock(to.mutex);
  const auto begin = static_cast<std::uint64_t>(offset);
  if (begin >= to.disk.bytes()) {
    return 0;
  }
  size = std::min<std::uint64_t>(size, to.disk.bytes() - begin);
  return to.disk.read(begin, std::as_writable_bytes(std::span(data, size))) ? static_cast<int>(size) : -EIO;
}

int write_file(const char*, const char* data, std::size_t size, off_t offset, fuse_file_info*) {
  Served& to = served();
  const std::lock_guard lock(to.mutex);
  const auto bytes = std::as_bytes(std::span(data, size));
  return to.disk.write(static_cast<std::uint64_t>(offset), bytes) ? static_cast<int>(size) : -EIO;
}

int sync_file(const char*, int, fuse_file_info*) {
  Served& to = served();
  const std::lock_guard lock(to.mutex);
  return to.disk.sync() ? 0 : -EIO;
}

std::optional<Request> request_from(std::string_view name) {
  if (name == "read") {
    return Request::read;
  }
  if (name == "write") {
    return Request::write;
  }
  return name == "sync" ? std::optional(Request::sync) : std::nullopt;
}

std::string answer(CachedDisk& disk, const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  words >> verb;
  if (verb == "fail") {
    std::string name;
    Fault fault;
    words >> name >> fault.skipped >> fault.times >> fault.begin >> fault.end;
    const std::optional<Request> request = request_from(name);
    if (words && request) {
      fault.request = *request;
      disk.add(fault);
      return "done";
    }
  } else if (verb == "heal") {
    return std::to_string(disk.heal());
  } else if (verb == "cut") {
    std::uint64_t seed = 0;
    words >> seed;
    const CachedDisk::Remains remains = disk.cut(seed);
    return std::to_string(remains.kept_sectors) + " " + std::to_string(remains.lost_sectors);
  } else if (verb == "on") {
    disk.power_on();
    return "done";
  }
  return "what is '" + line + "'?";
}

[[noreturn]] void obey(Served& disk, const std::string& folder) {
  for (std::string line; std::getline(std::cin, line);) {
    const std::lock_guard lock(disk.mutex);
    std::cout << answer(disk.disk, line) << std::endl;
  }
  ::umount2(folder.c_str(), MNT_DETACH);
  std::_Exit(
      0);  // Closes the channel to the kernel: whoever still uses the disk gets errors, and does not wait.
}

int serve(const std::string& folder, std::uint64_t bytes) {
  fuse_operations operations{};
  operations.getattr = get_attributes;
  operations.open = open_file;
  operations.read = read_file;
  operations.write = write_file;
  operations.fsync = sync_file;
  Served disk(bytes);
  std::string program = "disk_server";
  char* arguments[] = {program.data(), nullptr};
  fuse_args options = FUSE_ARGS_INIT(1, arguments);
  fuse* loop = fuse_new(&options, &operations, sizeof operations, &disk);
  if (loop == nullptr || fuse_mount(loop, folder.c_str()) != 0) {
    return 1;
  }
  // What this process allocates must not wait for memory that only a write to this very disk would free.
  ::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
  std::thread(obey, std::ref(disk), folder).detach();
  std::cout << "ready" << std::endl;
  return fuse_loop(loop);
}

}  // namespace
}  // namespace cairn::disk

int main(int argc, char** argv) {
  if (argc != 3) {
    return 2;
  }
  return cairn::disk::serve(argv[1], std::strtoull(argv[2], nullptr, 10));
}
