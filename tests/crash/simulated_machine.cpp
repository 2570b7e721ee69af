// SPDX-License-Identifier: Apache-2.0
#include "crash/simulated_machine.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "io/internal/syscalls.hpp"

namespace cairn::crash {
namespace {

using io::FileKind;

std::string_view name_of(Change change) {
  constexpr std::string_view kNames[] = {"create", "resize", "write",  "fdatasync", "fsync", "mkdir",
                                         "rename", "link",   "unlink", "lock",      "tell"};
  return kNames[static_cast<std::size_t>(change)];
}

}  // namespace

std::string describe(const Operation& operation) {
  std::string text = fmt::format("{} {}", name_of(operation.change), operation.path);
  if (operation.process != 0) {
    text = fmt::format("process {}: {}", operation.process, text);
  }
  if (!operation.new_path.empty()) {
    text += fmt::format(" -> {}", operation.new_path);
  }
  return text;
}

void SimulatedMachine::record() {
  const std::lock_guard lock(mutex_);
  is_recording_ = true;
  moments_ = {{disk_, promise_, "start"}};
}

void SimulatedMachine::promise(const std::string& target, std::vector<const Content*> allowed) {
  const std::lock_guard lock(mutex_);
  if (saboteur != nullptr) {
    saboteur->settle();
  }
  promise_[target] = std::move(allowed);
  if (is_recording_) {
    moments_.push_back({disk_, promise_, "promise " + target});
  }
}

void SimulatedMachine::promise(Promise promise) {
  promise_ = std::move(promise);
}

bool SimulatedMachine::narrow(const std::string& target, const std::vector<const Content*>& allowed) {
  const std::lock_guard lock(mutex_);
  std::vector<const Content*> left;
  for (const Content* each : promise_.at(target)) {
    if (std::find(allowed.begin(), allowed.end(), each) != allowed.end()) {
      left.push_back(each);
    }
  }
  if (left.empty()) {
    return false;
  }
  promise_.at(target) = std::move(left);
  if (is_recording_) {
    moments_.push_back({disk_, promise_, "verdict about " + target});
  }
  return true;
}

void SimulatedMachine::lose_machine(int machine, Fate& fate) {
  const std::lock_guard lock(mutex_);
  disk_.lose_machine(machine, fate);
  if (is_recording_) {
    moments_.push_back({disk_, promise_, fmt::format("machine {} is lost", machine)});
  }
}

store::RandomSource SimulatedMachine::random() {
  const std::lock_guard lock(mutex_);
  auto random = std::make_shared<std::mt19937_64>(++seed_);
  return [random](std::span<std::byte> bytes) {
    std::generate(bytes.begin(), bytes.end(), [&random] { return static_cast<std::byte>((*random)()); });
  };
}

void SimulatedMachine::keep(const Operation& operation) {
  moments_.push_back({disk_, promise_, describe(operation)});
}

void Turns::begin(int process) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return current_ == process || has_left_[1 - process]; });
}

void Turns::end(int process) {
  const std::lock_guard lock(mutex_);
  const bool is_last = burst_ >= bursts_.size();
  if (!is_last && current_ == process && ++done_ >= bursts_[burst_]) {
    done_ = 0;
    ++burst_;
    current_ = 1 - process;
    changed_.notify_all();
  }
}

void Turns::leave(int process) {
  const std::lock_guard lock(mutex_);
  has_left_[process] = true;
  changed_.notify_all();
}

SimulatedProcess::Call::Call(SimulatedProcess& process) : process_(process) {
  if (process_.scheduler_ != nullptr) {
    process_.scheduler_->begin(process_.number_);
  }
  process_.machine_.mutex_.lock();
  ++process_.calls_;
}

SimulatedProcess::Call::~Call() {
  process_.machine_.mutex_.unlock();
  if (process_.scheduler_ != nullptr) {
    process_.scheduler_->end(process_.number_);
  }
}

template <class Effect>
int SimulatedProcess::change(Operation operation, Effect effect) {
  if (is_dead_) {
    return -EIO;
  }
  SimulatedMachine& machine = machine_;
  operation.process = number_;
  const auto effect_here = [&machine, number = number_, effect] {
    machine.disk_.write_as(number);
    return effect();
  };
  const int result =
      machine.saboteur != nullptr ? machine.saboteur->run(operation, effect_here) : effect_here();
  const bool may_change_disk = operation.change != Change::lock && operation.change != Change::tell;
  if (machine.is_recording_ && may_change_disk) {
    machine.keep(operation);
  }
  return result;
}

void SimulatedProcess::die() {
  const std::lock_guard lock(machine_.mutex_);
  is_dead_ = true;
  std::erase_if(machine_.locks_, [this](const auto& held) { return held.second.process == this; });
}

void SimulatedProcess::tell(const std::string& what, std::function<int()> effect) {
  const Call call(*this);
  change({Change::tell, what, {}}, std::move(effect));
}

int SimulatedProcess::look(const std::string& path, io::FileStatus& status, int result) {
  return machine_.saboteur != nullptr ? machine_.saboteur->look(number_, path, status, result) : result;
}

std::string SimulatedProcess::path_of(int directory, std::string_view name) const {
  return fmt::format("{}/{}", files_[static_cast<std::size_t>(directory)].path, name);
}

int SimulatedProcess::open_inode(Inode inode, std::string path) {
  const auto unused =
      std::find_if(files_.begin(), files_.end(), [](const OpenFile& file) { return !file.is_open; });
  const auto fd = static_cast<int>(unused - files_.begin());
  if (unused == files_.end()) {
    files_.emplace_back();
  }
  files_[static_cast<std::size_t>(fd)] = {inode, std::move(path), true};
  return fd;
}

int SimulatedProcess::open_path(Inode directory, const std::string& parent_path, std::string_view path,
                                int flags) {
  SimulatedDisk& disk = machine_.disk_;
  Inode current = directory;
  std::string full = parent_path;
  while (true) {
    const std::size_t end = path.find('/');
    const std::string_view name = path.substr(0, end);
    const bool is_last = end == std::string_view::npos;
    if (!name.empty()) {
      std::optional<Inode> next = disk.find(current, name);
      full = fmt::format("{}/{}", full, name);
      if (next && is_last && (flags & O_EXCL) != 0) {
        return -EEXIST;
      }
      if (!next && is_last && (flags & O_CREAT) != 0) {
        change({Change::create, full, {}}, [&disk, current, made = std::string(name)] {
          disk.make(current, made, FileKind::regular);
          return 0;
        });
        next = disk.find(current, name);
      }
      if (!next) {
        return -ENOENT;
      }
      current = *next;
    }
    const bool must_be_directory = !is_last || (flags & O_DIRECTORY) != 0;
    if (must_be_directory && disk.node(current).kind != FileKind::directory) {
      return -ENOTDIR;
    }
    if (is_last) {
      disk.open_as(number_, current);
      return open_inode(current, std::move(full));
    }
    path.remove_prefix(end + 1);
  }
}

int SimulatedProcess::open_at(int directory, const char* path, int flags, std::uint32_t mode) noexcept {
  if (directory != AT_FDCWD) {
    return open_beneath(directory, path, flags, mode);
  }
  const Call call(*this);
  return open_path(kRootInode, "", path, flags);
}

int SimulatedProcess::open_beneath(int directory, const char* path, int flags, std::uint32_t) noexcept {
  const Call call(*this);
  return open_path(inode_of(directory), files_[static_cast<std::size_t>(directory)].path, path, flags);
}

int SimulatedProcess::close(int fd) noexcept {
  const Call call(*this);
  OpenFile& file = files_[static_cast<std::size_t>(fd)];
  const auto held = machine_.locks_.find(file.inode);
  if (held != machine_.locks_.end() && held->second.process == this && held->second.fd == fd) {
    machine_.locks_.erase(held);
  }
  file.is_open = false;
  return 0;
}

int SimulatedProcess::allocate(int fd, std::uint64_t size_bytes) noexcept {
  const Call call(*this);
  SimulatedDisk& disk = machine_.disk_;
  const Inode inode = inode_of(fd);
  return change({Change::resize, files_[static_cast<std::size_t>(fd)].path, {}}, [&disk, inode, size_bytes] {
    disk.resize(inode, std::max(disk.node(inode).data.size(), static_cast<std::size_t>(size_bytes)));
    return 0;
  });
}

int SimulatedProcess::truncate(int fd, std::uint64_t size_bytes) noexcept {
  const Call call(*this);
  SimulatedDisk& disk = machine_.disk_;
  const Inode inode = inode_of(fd);
  return change({Change::resize, files_[static_cast<std::size_t>(fd)].path, {}}, [&disk, inode, size_bytes] {
    disk.resize(inode, static_cast<std::size_t>(size_bytes));
    return 0;
  });
}

std::int64_t SimulatedProcess::read_at(int fd, std::byte* data, std::size_t size,
                                       std::uint64_t offset) noexcept {
  const Call call(*this);
  const Node& node = machine_.disk_.node(inode_of(fd));
  if (node.kind != FileKind::regular) {
    return -EISDIR;
  }
  const std::size_t begin = std::min(node.data.size(), static_cast<std::size_t>(offset));
  const std::size_t moved = std::min(size, node.data.size() - begin);
  std::memcpy(data, node.data.data() + begin, moved);
  return static_cast<std::int64_t>(moved);
}

std::int64_t SimulatedProcess::write_at(int fd, const std::byte* data, std::size_t size,
                                        std::uint64_t offset) noexcept {
  const Call call(*this);
  SimulatedDisk& disk = machine_.disk_;
  const Inode inode = inode_of(fd);
  std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto effect = [&disk, inode, offset, bytes = std::move(bytes)] {
    disk.write(inode, static_cast<std::size_t>(offset), bytes);
    return 0;
  };
  const int result = change({Change::write, files_[static_cast<std::size_t>(fd)].path, {}}, effect);
  return result < 0 ? result : static_cast<std::int64_t>(size);
}

int SimulatedProcess::sync_data(int fd) noexcept {
  const Call call(*this);
  SimulatedDisk& disk = machine_.disk_;
  const Inode inode = inode_of(fd);
  return change({Change::sync_data, files_[static_cast<std::size_t>(fd)].path, {}}, [&disk, inode] {
    disk.sync(inode);
    return 0;
  });
}

int SimulatedProcess::sync(int fd) noexcept {
  const Call call(*this);
  SimulatedDisk& disk = machine_.disk_;
  const Inode inode = inode_of(fd);
  return change({Change::sync, files_[static_cast<std::size_t>(fd)].path, {}}, [&disk, inode] {
    disk.sync(inode);
    return 0;
  });
}

int SimulatedProcess::status(int fd, io::FileStatus& status) noexcept {
  const Call call(*this);
  const Inode inode = inode_of(fd);
  const Node& node = machine_.disk_.node(inode);
  status = {node.kind, {0, inode}, node.data.size(), static_cast<std::uint32_t>(kSectorBytes), true};
  return look(files_[static_cast<std::size_t>(fd)].path, status, 0);
}

int SimulatedProcess::status_at(int directory, const char* name, io::FileStatus& status) noexcept {
  const Call call(*this);
  const std::optional<Inode> found = machine_.disk_.find(inode_of(directory), name);
  if (!found) {
    return look(path_of(directory, name), status, -ENOENT);
  }
  const Node& node = machine_.disk_.node(*found);
  status = {node.kind, {0, *found}, node.data.size(), static_cast<std::uint32_t>(kSectorBytes), true};
  return look(path_of(directory, name), status, 0);
}

int SimulatedProcess::list(int directory, std::vector<io::DirectoryEntry>& entries) noexcept {
  const Call call(*this);
  for (const auto& [name, inode] : machine_.disk_.node(inode_of(directory)).entries) {
    entries.push_back({name, machine_.disk_.node(inode).kind, inode});
  }
  return 0;
}

int SimulatedProcess::make_directory_at(int directory, const char* name, std::uint32_t) noexcept {
  const Call call(*this);
  SimulatedDisk& disk = machine_.disk_;
  const Inode parent = inode_of(directory);
  if (disk.find(parent, name)) {
    return -EEXIST;
  }
  return change({Change::make_directory, path_of(directory, name), {}},
                [&disk, parent, made = std::string(name)] {
                  disk.make(parent, made, FileKind::directory);
                  return 0;
                });
}

int SimulatedProcess::rename_at(int old_directory, const char* old_name, int new_directory,
                                const char* new_name, io::RenameMode mode) noexcept {
  const Call call(*this);
  const bool is_supported = mode == io::RenameMode::exchange     ? machine_.has_exchange
                            : mode == io::RenameMode::no_replace ? machine_.has_no_replace
                                                                 : true;
  if (!is_supported) {
    return -EINVAL;
  }
  SimulatedDisk& disk = machine_.disk_;
  const auto effect = [&disk, mode, from = inode_of(old_directory), to = inode_of(new_directory),
                       name = std::string(old_name), target = std::string(new_name)] {
    const std::optional<Inode> moved = disk.find(from, name);
    const std::optional<Inode> taken = disk.find(to, target);
    if (!moved || (mode == io::RenameMode::exchange && !taken)) {
      return -ENOENT;
    }
    if (mode == io::RenameMode::exchange) {
      disk.exchange(from, name, to, target);
      return 0;
    }
    if (taken && mode == io::RenameMode::no_replace) {
      return -EEXIST;
    }
    if (taken && !disk.node(*taken).entries.empty()) {
      return -ENOTEMPTY;
    }
    disk.rename(from, name, to, target);
    return 0;
  };
  return change({Change::rename, path_of(old_directory, old_name), path_of(new_directory, new_name), mode},
                effect);
}

int SimulatedProcess::link_at(int old_directory, const char* old_name, int new_directory,
                              const char* new_name) noexcept {
  const Call call(*this);
  if (!machine_.has_links) {
    return -EOPNOTSUPP;
  }
  SimulatedDisk& disk = machine_.disk_;
  const auto effect = [&disk, from = inode_of(old_directory), to = inode_of(new_directory),
                       name = std::string(old_name), target = std::string(new_name)] {
    const std::optional<Inode> linked = disk.find(from, name);
    if (!linked) {
      return -ENOENT;
    }
    if (disk.find(to, target)) {
      return -EEXIST;
    }
    disk.link(to, target, *linked);
    return 0;
  };
  return change({Change::link, path_of(old_directory, old_name), path_of(new_directory, new_name)}, effect);
}

int SimulatedProcess::symlink_at(const char* target, int directory, const char* name) noexcept {
  const Call call(*this);
  SimulatedDisk& disk = machine_.disk_;
  const Inode parent = inode_of(directory);
  if (disk.find(parent, name)) {
    return -EEXIST;
  }
  return change({Change::link, path_of(directory, name), {}},
                [&disk, parent, made = std::string(name), says = std::string(target)] {
                  disk.make(parent, made, FileKind::symlink, says);
                  return 0;
                });
}

std::optional<std::string> SimulatedProcess::read_link(const std::string& name) const {
  const SimulatedDisk& disk = machine_.disk_;
  const std::optional<Inode> run = disk.find(kRootInode, kRunPath + 1);
  const std::optional<Inode> link = run ? disk.find(*run, name) : std::nullopt;
  if (!link || disk.node(*link).kind != FileKind::symlink) {
    return std::nullopt;
  }
  return disk.node(*link).data;
}

int SimulatedProcess::unlink_at(int directory, const char* name, bool is_directory) noexcept {
  const Call call(*this);
  SimulatedDisk& disk = machine_.disk_;
  const auto effect = [&disk, is_directory, parent = inode_of(directory), gone = std::string(name)] {
    const std::optional<Inode> found = disk.find(parent, gone);
    if (!found) {
      return -ENOENT;
    }
    const Node& node = disk.node(*found);
    if ((node.kind == FileKind::directory) != is_directory) {
      return is_directory ? -ENOTDIR : -EISDIR;
    }
    if (!node.entries.empty()) {
      return -ENOTEMPTY;
    }
    disk.unlink(parent, gone);
    return 0;
  };
  return change({Change::unlink, path_of(directory, name), {}}, effect);
}

int SimulatedProcess::try_lock(int fd) noexcept {
  const Call call(*this);
  auto& locks = machine_.locks_;
  const Inode inode = inode_of(fd);
  return change({Change::lock, files_[static_cast<std::size_t>(fd)].path, {}}, [&locks, inode, fd, this] {
    const auto held = locks.find(inode);
    if (held != locks.end() && (held->second.process != this || held->second.fd != fd)) {
      return -EAGAIN;
    }
    locks[inode] = {this, fd};
    return 0;
  });
}

int SimulatedProcess::file_system(int) noexcept {
  const Call call(*this);
  return static_cast<int>(io::FileSystem::local);
}

void SimulatedEngine::submit(io::Request& request) noexcept {
  std::int64_t result = -EINVAL;
  switch (request.operation) {
    case io::Operation::read:
      result = process_.read_at(request.fd, request.data, request.size, request.offset);
      break;
    case io::Operation::write:
      result = process_.write_at(request.fd, request.data, request.size, request.offset);
      break;
    case io::Operation::sync_data:
      result = process_.sync_data(request.fd);
      break;
  }
  request.done(request, result);
}

}  // namespace cairn::crash
