// SPDX-License-Identifier: Apache-2.0
#include "verdicts/slow_calls.hpp"

#include <fcntl.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "verdicts/guarded_memory.hpp"

namespace cairn::verdicts {
namespace {

using namespace std::string_view_literals;

constexpr std::array<std::string_view, kCallKinds> kNames = {
    "open"sv, "close"sv,   "fallocate"sv, "ftruncate"sv, "read"sv, "write"sv,  "fdatasync"sv, "fsync"sv,
    "stat"sv, "readdir"sv, "mkdir"sv,     "rename"sv,    "link"sv, "unlink"sv, "lock"sv};

/// What a call of this kind may fail with.
int error_of(CallKind kind, Dice& dice) {
  switch (kind) {
    case CallKind::allocate:
    case CallKind::write:
    case CallKind::make_directory:
      return dice.one_in(2) ? ENOSPC : EIO;
    case CallKind::lock:
      return ENOLCK;
    default:
      return EIO;
  }
}

bool may_be_interrupted(CallKind kind) {
  return kind == CallKind::read || kind == CallKind::write || kind == CallKind::open;
}

bool is_renaming(CallKind kind) {
  return kind == CallKind::rename || kind == CallKind::link;
}

}  // namespace

std::size_t SlowCalls::slowness(CallKind kind, std::size_t bytes) const {
  constexpr std::size_t kLarge = 100'000;
  const bool is_transfer = (kind == CallKind::read || kind == CallKind::write) && bytes >= kLarge;
  const bool is_commit = is_renaming(kind) || kind == CallKind::sync;
  // Where others are quick, these may be slow more often.
  constexpr std::size_t kMoreOften = 5;
  switch (disturbances_.focus) {
    case Focus::all:
      return disturbances_.slow;
    case Focus::transfers:
      return is_transfer ? (disturbances_.slow + kMoreOften - 1) / kMoreOften : 0;
    case Focus::commit:
      return is_commit                  ? (disturbances_.slow + kMoreOften - 1) / kMoreOften
             : kind == CallKind::unlink ? disturbances_.slow
                                        : 0;
  }
  return 0;
}

SlowCalls::Fate SlowCalls::decide(CallKind kind, int fd, std::size_t bytes) {
  Fate fate;
  if (is_calm_ || is_calm(fd)) {
    return fate;
  }
  const auto at = static_cast<std::size_t>(kind);
  // Of each kind the n-th call has the same fate in every run, whichever thread makes it.
  Dice dice(seed_, (at + 1) * 1'000'003 + seen_[at].fetch_add(1));
  const auto happens = [&dice](std::size_t one_in) { return one_in != 0 && dice.one_in(one_in); };
  if (happens(disturbances_.failing)) {
    fate.trouble = Trouble::failure;
  }
  if (is_renaming(kind) && happens(disturbances_.lost_answers)) {
    fate.trouble = Trouble::lost_answer;
  }
  if (may_be_interrupted(kind) && happens(disturbances_.odd)) {
    fate.trouble = Trouble::oddity;
  }
  fate.error = error_of(kind, dice);
  if (happens(slowness(kind, bytes))) {
    (dice.one_in(2) ? fate.before : fate.after) = dice.up_to(disturbances_.longest);
  }
  return fate;
}

void SlowCalls::tell(CallKind kind, const std::string& what) {
  std::array<char, 17> thread{};
  ::prctl(PR_GET_NAME, thread.data());
  journal_->note(fmt::format("    {} {} ({})", kNames[static_cast<std::size_t>(kind)], what, thread.data()));
}

void SlowCalls::dawdle(CallKind kind, Duration duration) {
  if (duration == duration.zero()) {
    return;
  }
  if (++slow_now_ <= kMostSlow) {
    ++slow_calls_;
    tell(kind, fmt::format("takes {} ms", duration.count() / 1'000'000));
    clock_->sleep_for(duration, fmt::format("a slow {}", kNames[static_cast<std::size_t>(kind)]));
  }
  --slow_now_;
}

template <class Real>
auto SlowCalls::run(CallKind kind, int fd, Real real, std::size_t bytes) noexcept -> decltype(real()) {
  const Fate fate = decide(kind, fd, bytes);
  dawdle(kind, fate.before);
  decltype(real()) result = -fate.error;
  switch (fate.trouble) {
    case Trouble::none:
      result = real();
      break;
    case Trouble::failure:
      ++failures_;
      tell(kind, "fails");
      break;
    case Trouble::lost_answer:
      if (const auto done = real(); done < 0) {
        result = done;
      } else {
        ++lost_answers_;
        tell(kind, "is done, and reported as failed");
      }
      break;
    case Trouble::oddity:
      result = -EINTR;
      break;
  }
  dawdle(kind, fate.after);
  return result;
}

void SlowCalls::mark(int fd, bool is_calm) {
  if (fd >= 0 && static_cast<std::size_t>(fd) < calm_fds_.size()) {
    calm_fds_[static_cast<std::size_t>(fd)] = is_calm;
  }
}

bool SlowCalls::is_calm(int fd) const {
  return fd >= 0 && static_cast<std::size_t>(fd) < calm_fds_.size() &&
         calm_fds_[static_cast<std::size_t>(fd)];
}

int SlowCalls::open_at(int directory, const char* path, int flags, std::uint32_t mode) noexcept {
  if (std::string_view(path).find(kCalmFolder) != std::string_view::npos) {
    const int fd = real_.open_at(directory, path, flags, mode);
    mark(fd, true);
    return fd;
  }
  const int fd = run(CallKind::open, directory, [&] { return real_.open_at(directory, path, flags, mode); });
  mark(fd, is_calm(directory));
  return fd;
}

int SlowCalls::open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept {
  const int fd =
      run(CallKind::open, directory, [&] { return real_.open_beneath(directory, path, flags, mode); });
  mark(fd, is_calm(directory));
  return fd;
}

int SlowCalls::close(int fd) noexcept {
  const Fate fate = decide(CallKind::close, fd);
  dawdle(CallKind::close, fate.before);
  const int result = real_.close(fd);  // A failing close closes, as the kernel's does.
  dawdle(CallKind::close, fate.after);
  if (fate.trouble == Trouble::failure) {
    ++failures_;
    tell(CallKind::close, "fails");
    return -fate.error;
  }
  return result;
}

int SlowCalls::allocate(int fd, std::uint64_t size) noexcept {
  return run(CallKind::allocate, fd, [&] { return real_.allocate(fd, size); });
}

int SlowCalls::truncate(int fd, std::uint64_t size) noexcept {
  return run(CallKind::truncate, fd, [&] { return real_.truncate(fd, size); });
}

std::int64_t SlowCalls::read_at(int fd, std::byte* data, std::size_t size, std::uint64_t offset) noexcept {
  GuardedMemory::the().check_transfer(data, size);
  const std::int64_t got = run(
      CallKind::read, fd, [&] { return real_.read_at(fd, data, size, offset); }, size);
  GuardedMemory::the().check_transfer(data, size);
  return got;
}

std::int64_t SlowCalls::write_at(int fd, const std::byte* data, std::size_t size,
                                 std::uint64_t offset) noexcept {
  GuardedMemory::the().check_transfer(data, size);
  const std::int64_t put = run(
      CallKind::write, fd, [&] { return real_.write_at(fd, data, size, offset); }, size);
  GuardedMemory::the().check_transfer(data, size);
  return put;
}

int SlowCalls::sync_data(int fd) noexcept {
  return run(CallKind::sync_data, fd, [&] { return real_.sync_data(fd); });
}

int SlowCalls::sync(int fd) noexcept {
  return run(CallKind::sync, fd, [&] { return real_.sync(fd); });
}

int SlowCalls::status(int fd, io::FileStatus& status) noexcept {
  return run(CallKind::status, fd, [&] { return real_.status(fd, status); });
}

int SlowCalls::status_at(int directory, const char* name, io::FileStatus& status) noexcept {
  return run(CallKind::status, directory, [&] { return real_.status_at(directory, name, status); });
}

int SlowCalls::list(int directory, std::vector<io::DirectoryEntry>& entries) noexcept {
  return run(CallKind::list, directory, [&] { return real_.list(directory, entries); });
}

int SlowCalls::make_directory_at(int directory, const char* name, std::uint32_t mode) noexcept {
  return run(CallKind::make_directory, directory,
             [&] { return real_.make_directory_at(directory, name, mode); });
}

int SlowCalls::rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                         io::RenameMode mode) noexcept {
  return run(CallKind::rename, new_directory,
             [&] { return real_.rename_at(old_directory, old_name, new_directory, new_name, mode); });
}

int SlowCalls::link_at(int old_directory, const char* old_name, int new_directory,
                       const char* new_name) noexcept {
  return run(CallKind::link, new_directory,
             [&] { return real_.link_at(old_directory, old_name, new_directory, new_name); });
}

int SlowCalls::unlink_at(int directory, const char* name, bool is_directory) noexcept {
  return run(CallKind::unlink, directory, [&] { return real_.unlink_at(directory, name, is_directory); });
}

int SlowCalls::try_lock(int fd) noexcept {
  return run(CallKind::lock, fd, [&] { return real_.try_lock(fd); });
}

int SlowCalls::is_network_file_system(int fd) noexcept {
  return real_.is_network_file_system(fd);
}

}  // namespace cairn::verdicts
