// SPDX-License-Identifier: Apache-2.0
#include "store/internal/parts_directory.hpp"

#include <fcntl.h>
#include <system_error>

#include <array>
#include <cerrno>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "io/internal/check.hpp"
#include "io/internal/remove_directory.hpp"
#include "store/internal/manifest.hpp"
#include "store/names.hpp"
#include "store/owner.hpp"
#include "store/staged_state.hpp"

namespace cairn::store {
namespace {

std::string name_of(const SaveTarget& target) {
  return std::string(kPartialPrefix) + target.name;
}

/// Another may have made it, and have died before its name was durable; or makes it meanwhile, and begins to work there.
void make_if_missing(const io::Directory& parent, const std::string& name) {
  const int made = io::uninterrupted(
      [&] { return parent.syscalls().make_directory_at(parent.fd(), name.c_str(), io::kDirectoryMode); });
  if (made != -EEXIST) {
    io::require(made, "mkdir", parent.path() / name);
  }
  parent.sync();
}

}  // namespace

PartsDirectory::PartsDirectory(io::Directory parent, std::string name, io::Directory directory)
    : parent_(std::move(parent)), name_(std::move(name)), directory_(std::move(directory)) {
  const std::filesystem::path path = directory_.path() / kOwnerName;
  io::Syscalls& syscalls = directory_.syscalls();
  const int fd = io::uninterrupted([&] {
    return syscalls.open_beneath(directory_.fd(), kOwnerName.data(), O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
  });
  mark_ = io::FileHandle(syscalls, io::require(fd, "create", path));
  // Any other refusal means that the file system has no locks: then nobody is kept from anything.
  if (syscalls.try_lock(fd) == -EAGAIN || directory_.is_replaced()) {
    throw Error(std::error_code(EBUSY, std::system_category()),
                fmt::format("{}: another program is at work on these parts", directory_.path().string()));
  }
  const std::string text = encode_owner(this_process({}));
  io::write_all(mark_, std::as_bytes(std::span(text)), 0, path);
  io::require(syscalls.truncate(fd, text.size()), "truncate", path);
}

std::optional<PartsDirectory> PartsDirectory::open(SaveTarget target) {
  std::string name = name_of(target);
  if (!target.parent.status(name)) {
    return std::nullopt;
  }
  io::Directory directory = target.parent.open_directory(name);
  return PartsDirectory(std::move(target.parent), std::move(name), std::move(directory));
}

PartsDirectory PartsDirectory::make(SaveTarget target) {
  require_outside_checkpoints(target.parent, target.path);
  std::string name = name_of(target);
  make_if_missing(target.parent, name);
  io::Directory directory = target.parent.open_directory(name);
  return PartsDirectory(std::move(target.parent), std::move(name), std::move(directory));
}

void PartsDirectory::remove(const RandomSource& random) {
  // By its mark recovery knows that it is ours, once it has a name that says that it is to go.
  io::require(directory_.syscalls().sync_data(mark_.fd()), "fdatasync", directory_.path() / kOwnerName);
  directory_.sync();
  const std::string trash = trash_name(name_, make_uuid(random));
  parent_.rename(name_, parent_, trash, io::RenameMode::replace);  // The new name is nobody's.
  parent_.sync();
  io::remove_directory(parent_, trash, directory_, std::array{kOwnerName});
}

}  // namespace cairn::store
