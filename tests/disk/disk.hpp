// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "disk/cached_disk.hpp"
#include "support/process.hpp"
#include "support/temp_dir.hpp"

namespace cairn::disk {

/// How a file system is made, and how large it must be.
struct FileSystem {
  const char* name;
  const char* make;  ///< A command; the device follows.
  std::uint64_t bytes;
  /// A command for when it cannot be mounted; none: it has to be mountable.
  const char* repair = nullptr;
  const char* options = "defaults";  ///< To mount it with.
};

/// Where it notes an error in its superblock, 1 KiB, and the power goes, that may be torn: boot scripts repair it, too.
inline constexpr FileSystem kExt4{"ext4", "mkfs.ext4 -q -F", std::uint64_t{64} << 20, "e2fsck -f -y"};
inline constexpr FileSystem kXfs{"xfs", "mkfs.xfs -q -f", std::uint64_t{320} << 20};
inline constexpr FileSystem kBtrfs{"btrfs", "mkfs.btrfs -q -f", std::uint64_t{256} << 20};

/// A file system on a disk whose power can be cut, and that can be told to fail.
///
/// The disk is a process of its own, behind a loop device. When the object goes, both go, whatever state they are in.
class MountedDisk {
 public:
  explicit MountedDisk(const FileSystem& system);
  ~MountedDisk();
  MountedDisk(const MountedDisk&) = delete;
  MountedDisk& operator=(const MountedDisk&) = delete;

  /// Makes and mounts the file system, with an empty directory `root()`. Returns why that cannot be here; empty when it
  /// has been done.
  [[nodiscard]] std::string missing();
  [[nodiscard]] std::filesystem::path root() const { return mount_point_ / "run"; }

  /// Unmounts it, and mounts it again, repaired if need be. Returns whether both succeeded.
  [[nodiscard]] bool mount_again();
  /// Cuts the power: see CachedDisk. From now on everything fails; `mount_again` switches it on first.
  CachedDisk::Remains cut(std::uint64_t seed);
  void fail(const Fault& fault);
  /// Forgets all faults. Returns how many requests they have hit.
  std::uint64_t heal();

 private:
  std::string ask(const std::string& line);
  bool mount() const;
  bool unmount() const;

  FileSystem system_;
  const cairn::testing::TempDir directory_;
  const std::filesystem::path mount_point_ = directory_ / "mounted";
  const std::filesystem::path served_ = directory_ / "served";
  std::optional<cairn::testing::Process> server_;
  std::string device_;  // Empty before there is one.
};

}  // namespace cairn::disk
