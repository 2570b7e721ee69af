// SPDX-License-Identifier: Apache-2.0
#include "disk/disk.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "support/sync_file_system.hpp"

namespace cairn::disk {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLongestUse{5};

bool succeeds(const std::string& command) {
  return std::system((command + " > /dev/null 2>&1").c_str()) == 0;
}

/// The first line that a command writes; empty when there is none.
std::string line_of(const std::string& command) {
  std::FILE* stream = ::popen((command + " 2> /dev/null").c_str(), "r");
  std::array<char, 256> text{};
  if (stream != nullptr && std::fgets(text.data(), text.size(), stream) == nullptr) {
    text[0] = '\0';
  }
  if (stream != nullptr) {
    ::pclose(stream);
  }
  const std::string line = text.data();
  return line.substr(0, line.find('\n'));
}

const char* word_for(Request request) {
  switch (request) {
    case Request::read:
      return "read";
    case Request::write:
      return "write";
    case Request::sync:
      break;
  }
  return "sync";
}

}  // namespace

MountedDisk::MountedDisk(const FileSystem& system) : system_(system) {}

MountedDisk::~MountedDisk() {
  succeeds("umount " + mount_point_.string());
  if (!device_.empty()) {
    succeeds("losetup --detach " + device_);
  }
  succeeds("umount --lazy " + served_.string());
}

std::string MountedDisk::missing() {
  const std::string program = CAIRN_DISK_SERVER;
  if (program.empty()) {
    return "libfuse3 was missing when the tests were built";
  }
  if (::geteuid() != 0) {
    return "only root can mount a disk";
  }
  if (!fs::exists("/dev/fuse")) {
    return "there is no /dev/fuse";
  }
  fs::create_directory(served_);
  server_.emplace(program, std::vector<std::string>{served_.string(), std::to_string(system_.bytes)});
  if (server_->next_line() != "ready") {
    return "no FUSE file system can be mounted here";
  }
  device_ = line_of(fmt::format("losetup --find --show {}", (served_ / "disk.img").string()));
  if (device_.empty()) {
    return "there is no free loop device";
  }
  // No request larger than FUSE passes on at once: when only the first part of one is written, the loop device takes
  // it for all.
  if (!succeeds(fmt::format("sh -c 'echo 512 > /sys/block/{}/queue/max_sectors_kb'",
                            fs::path(device_).filename().string()))) {
    return "the requests of the loop device cannot be limited";
  }
  if (!succeeds(fmt::format("{} {}", system_.make, device_))) {
    return fmt::format("'{}' does not work", system_.make);
  }
  fs::create_directory(mount_point_);
  if (!mount()) {
    return fmt::format("no {} can be mounted here", system_.name);
  }
  fs::create_directory(root());
  testing::sync_file_system(root());
  return "";
}

bool MountedDisk::mount() const {
  return succeeds(fmt::format("mount -o {} {} {}", system_.options, device_, mount_point_.string()));
}

bool MountedDisk::unmount() const {
  // A save that has failed says so before the last of its descriptors is closed.
  const auto deadline = std::chrono::steady_clock::now() + kLongestUse;
  bool is_unmounted = succeeds("umount " + mount_point_.string());
  while (!is_unmounted && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    is_unmounted = succeeds("umount " + mount_point_.string());
  }
  return is_unmounted;
}

bool MountedDisk::mount_again() {
  const bool is_unmounted = unmount();
  ask("on");
  if (!is_unmounted || mount()) {
    return is_unmounted;
  }
  if (system_.repair != nullptr) {
    succeeds(fmt::format("{} {}", system_.repair, device_));  // Says 1 when it has repaired something.
  }
  return system_.repair != nullptr && mount();
}

CachedDisk::Remains MountedDisk::cut(std::uint64_t seed) {
  std::istringstream answer(ask(fmt::format("cut {}", seed)));
  CachedDisk::Remains remains;
  answer >> remains.kept_sectors >> remains.lost_sectors;
  return remains;
}

void MountedDisk::fail(const Fault& fault) {
  ask(fmt::format("fail {} {} {} {} {}", word_for(fault.request), fault.skipped, fault.times, fault.begin,
                  fault.end));
}

std::uint64_t MountedDisk::heal() {
  return std::stoull(ask("heal"));
}

std::string MountedDisk::ask(const std::string& line) {
  server_->tell(line);
  std::string answer = server_->next_line();
  if (answer.empty() || answer.starts_with("what")) {
    throw std::runtime_error(fmt::format("the disk answers '{}' with '{}'", line, answer));
  }
  return answer;
}

}  // namespace cairn::disk
