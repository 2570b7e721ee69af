// SPDX-License-Identifier: Apache-2.0
#include "training/root.hpp"

#include <system_error>

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "api/internal/look.hpp"
#include "io/internal/check.hpp"
#include "store/internal/listing.hpp"

namespace cairn::training {
namespace {

io::FileId id_of(const io::Directory& directory) {
  io::FileStatus status;
  io::require(io::uninterrupted([&] { return directory.syscalls().status(directory.fd(), status); }), "stat",
              directory.path());
  return status.id;
}

/// Where a directory lies now, for people; empty where the kernel does not say.
std::string place_of(const io::Directory& directory) {
  std::error_code unknown;
  return std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", directory.fd()), unknown).string();
}

/// Returns whether the kernel says that it was removed: no path leads to it any more.
bool is_removed(const io::Directory& directory) {
  constexpr std::string_view kRemoved = " (deleted)";
  const std::string place = place_of(directory);
  std::error_code unknown;
  return place.ends_with(kRemoved) && !std::filesystem::exists(place, unknown);
}

}  // namespace

std::shared_ptr<const io::Directory> Root::held() const {
  const MutexLock lock(mutex_);
  return held_;
}

void Root::throw_turned(const io::Directory& before) const {
  std::error_code unknown;
  const std::filesystem::path now = std::filesystem::canonical(path_, unknown);
  throw Error(Errc::invalid_argument,
              fmt::format("{} leads to {} by now, and led to {} before: whose steps are meant, nobody can "
                          "tell; make another Checkpointer for the one that is",
                          path_.string(), unknown ? "nothing" : now.string(), place_of(before)));
}

std::optional<io::Directory> Root::open() const {
  const auto look = [this] { return store::open_root(syscalls(), path_); };
  std::optional<io::Directory> now = api::look_if_made(path_, look);
  if (!now) {
    return now;
  }
  if (const std::shared_ptr<const io::Directory> before = held()) {
    if (id_of(*before) != id_of(*now)) {
      throw_turned(*before);
    }
    return now;
  }
  auto first = std::make_shared<const io::Directory>(std::move(*now));
  {
    const MutexLock lock(mutex_);
    held_ = held_ ? held_ : std::move(first);
  }
  return open();
}

void Root::require_same() const {
  if (open()) {
    return;
  }
  const std::shared_ptr<const io::Directory> before = held();
  if (!before) {
    return;
  }
  if (!is_removed(*before)) {
    throw_turned(*before);
  }
  const MutexLock lock(mutex_);
  held_ = held_ == before ? nullptr : held_;
}

}  // namespace cairn::training
