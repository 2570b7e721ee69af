// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/internal/syscalls.hpp"

namespace cairn::crash {

using Inode = std::uint32_t;

inline constexpr Inode kRootInode = 0;
inline constexpr std::size_t kSectorBytes = 512;  // What a disk writes whole or not at all.
inline constexpr int kServer = -1;                // What it has, no machine takes away with it.

struct Node {
  io::FileKind kind = io::FileKind::directory;
  std::string data;                                   ///< Of a file.
  std::map<std::string, Inode, std::less<>> entries;  ///< Of a directory.
};

/// Decides what a power cut leaves of one file that was not synced.
class Fate {
 public:
  Fate() = default;
  virtual ~Fate() = default;
  Fate(const Fate&) = delete;
  Fate& operator=(const Fate&) = delete;

  /// Which of the sizes that the file has had since its last sync; the oldest is 0.
  virtual std::size_t size(std::size_t sizes) = 0;
  /// Which of the contents that a sector has had since then; the oldest is 0, and `versions` stands for
  /// garbage, which only a sector may hold that was never synced.
  virtual std::size_t sector(std::size_t versions, bool can_be_garbage) = 0;
};

/// A file system in memory that knows what is durable.
///
/// What programs see is the page cache. Beside it stands what was made durable by a sync, and between the two
/// what was done since: writes and changes of size for each file, changes of names for all directories.
/// - `sync` of a file makes its data and size durable, not its name; of a directory, the names in it.
/// - A power cut keeps any set of the other changes of names, in any order; but a rename changes both its
///   names or none, as the journals of ext4, XFS and btrfs guarantee, and a second move needs the first.
/// - Of an unsynced file it keeps any size that the file has had, and of each sector any content that it has
///   had, zeros, or garbage.
///
/// Several machines may share it, as a network file system. What one has changed all see at once; but the data of a
/// file, and the name of a new one, are with the machine that has written it until it is synced, or opened by
/// another, and are lost with that machine. Other changes of names go to the server at once, after the new names that
/// the machine still had. Copies share what they have in common.
/// Threads: a value.
class SimulatedDisk {
 public:
  SimulatedDisk();  ///< Nothing but the root directory.

  [[nodiscard]] const Node& node(Inode inode) const { return *cached_[inode]; }
  [[nodiscard]] std::optional<Inode> find(Inode directory, std::string_view name) const;

  /// `data` is there as soon as the name is: what a symbolic link says.
  Inode make(Inode directory, const std::string& name, io::FileKind kind, std::string data = "");
  void write(Inode file, std::size_t offset, std::string_view bytes);
  void resize(Inode file, std::size_t size);
  void link(Inode directory, const std::string& name, Inode file);
  void unlink(Inode directory, const std::string& name);
  /// What had the new name is gone.
  void rename(Inode from, const std::string& name, Inode to, const std::string& new_name);
  void exchange(Inode one, const std::string& name, Inode other, const std::string& other_name);

  void sync(Inode inode);
  void sync_all();

  /// Which machine makes the changes from here on.
  void write_as(int machine) { writer_ = machine; }
  /// A machine opens a file: what another one had to itself is the server's from here on.
  void open_as(int machine, Inode file);
  /// A machine is lost. Of what it has not synced `fate` says what is left of the data; the names of new files are
  /// gone.
  void lose_machine(int machine, Fate& fate);

  /// Changes of names that a power cut may undo.
  [[nodiscard]] std::size_t pending_names() const { return pending_names_.size(); }
  /// How many of them, from the first on, a journal would have kept because something later is durable.
  [[nodiscard]] std::size_t journalled_names() const;
  [[nodiscard]] bool has_pending_data() const { return !pending_data_.empty(); }
  /// What the disk holds after a power cut that keeps these of the pending changes of names.
  [[nodiscard]] SimulatedDisk after_power_cut(const std::vector<bool>& kept, Fate& fate) const;

  /// A hash of all that can be reached from the root.
  [[nodiscard]] std::uint64_t fingerprint() const;
  /// The tree as text, for reports.
  [[nodiscard]] std::string describe() const;

 private:
  using NodePointer = std::shared_ptr<Node>;  // Shared between disks; changed only where nobody else has it.

  enum class Kind : std::uint8_t { creation, move, other };

  struct DataChange {
    std::size_t offset = 0;
    std::shared_ptr<const std::string> bytes;  // Null: `offset` is the new size.
    int holder = kServer;                      // The machine that is lost with it.
  };

  struct Assignment {
    Inode directory;
    std::string name;
    std::optional<Inode> target;
  };

  struct NameChange {
    std::uint64_t number = 0;
    std::vector<Assignment> assignments;
    std::vector<std::uint64_t> needs;  // The earlier moves that brought what this one moves.
    int holder = kServer;              // As above.
  };

  static void apply(Node& node, const DataChange& change);
  static void apply(std::vector<NodePointer>& nodes, const NameChange& change);
  static Node& edit(NodePointer& node);
  void change_names(std::vector<Assignment> assignments, Kind kind);
  void give_names_away(int machine);
  void change_data(Inode file, DataChange change);
  void make_durable(std::size_t position);
  void sync_names(Inode directory);
  [[nodiscard]] std::string survivors(Inode file, const std::vector<DataChange>& changes, Fate& fate) const;
  [[nodiscard]] std::uint64_t fingerprint(Inode inode) const;
  void describe(Inode inode, const std::string& path, std::string& text) const;

  std::vector<NodePointer> cached_;   // What programs see; the inode is the index.
  std::vector<NodePointer> durable_;  // Likewise, what no power cut takes away.
  std::map<Inode, std::vector<DataChange>> pending_data_;
  std::vector<NameChange> pending_names_;
  std::uint64_t last_number_ = 0;
  std::uint64_t last_durable_ = 0;
  int writer_ = 0;
};

}  // namespace cairn::crash
