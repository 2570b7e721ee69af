// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/internal/mutex.hpp"
#include "io/internal/file.hpp"
#include "io/internal/memory_hook.hpp"
#include "io/internal/syscalls.hpp"

namespace cairn::io {

/// Keeps files of a tmpfs mapped from one use to the next. A page that is mapped already costs nothing; to map it anew
/// takes longer than to copy its bytes.
///
/// A file that is mapped keeps its memory, also when it has lost its names. So what was removed is let go of, and what
/// nobody has used for some rounds. Files must not grow while they are here; they may be cut.
/// Threads: every method may be called from any thread.
class MappedFiles {
 public:
  /// Maps the first `bytes` of a file, not 0, as `map_to_fill` does, unless it is mapped already.
  ///
  /// Never null: what is returned says that the file is in use, as long as somebody has it. It is empty where the
  /// file cannot be mapped. With `pin` devices copy into it, and it is empty until `make_ready` has pinned it, for good
  /// where `pin` returns null. `refusal` then says why.
  /// Errors: OS errors of a look at the file.
  [[nodiscard]] std::shared_ptr<const std::span<std::byte>> map(const FileHandle& file, std::uint64_t bytes,
                                                                const std::filesystem::path& path,
                                                                const MemoryHook& pin, std::string& refusal);
  /// Returns whether somebody has what `map` has returned for a file.
  [[nodiscard]] bool is_in_use(FileId file) const;

  /// Maps the pages of what was mapped since the last call, as large ones where the kernel can: an access to them takes
  /// no page fault, and copies are faster. Then pins what devices will copy into. Takes its time, and may do so while
  /// files are filled.
  void make_ready();

  /// Lets go of files that have no name any more. They give their memory back when this returns, but for those that are
  /// in use, which do when they are no more: `make_ready` gives up the one that it is at, after 32 MiB or a device.
  void drop_removed();
  /// Begins a round: lets go of what was not mapped in the last `kRounds`.
  void begin_round();
  [[nodiscard]] std::size_t count() const;

  /// A file that is used again and again is in an image, then in another one.
  static constexpr std::uint64_t kRounds = 4;

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // Of a FileId.

  struct Entry {
    FileHandle file;  // Says whether it has a name; not open: nobody knows.
    std::shared_ptr<const std::span<std::byte>> memory;  // Null where it cannot be mapped.
    std::shared_ptr<void> hold;                          // Of devices: goes before the memory.
    MemoryHook pin;                                      // Still to be called.
    std::shared_ptr<void> use;                           // Who uses the file has it, too.
    std::uint64_t round = 0;
    bool is_ready = false;
    bool is_refused = false;  // By a device.

    [[nodiscard]] bool is_in_use() const noexcept { return use.use_count() > 1; }
    [[nodiscard]] bool has_work() const noexcept { return memory != nullptr && (!is_ready || pin); }
  };

  mutable Mutex mutex_;
  std::map<Key, Entry> entries_ CAIRN_GUARDED_BY(mutex_);
  std::uint64_t round_ CAIRN_GUARDED_BY(mutex_) = 0;
  std::multiset<Key> readying_ CAIRN_GUARDED_BY(mutex_);
  Condition readied_;
};

}  // namespace cairn::io
