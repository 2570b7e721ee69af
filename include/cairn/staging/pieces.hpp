// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace cairn {

/// Says who keeps the values of a save unchanged until they are on disk.
enum class Snapshot : std::uint8_t {
  copy,    ///< Cairn copies them during the blocking phase; the caller is free at `staged`.
  borrow,  ///< The caller promises not to change them until `committed`; nothing is copied.
  share,   ///< As borrow, for arrays that share ownership; they may be dropped at any time.
};

class DeviceCopier;
class DeviceTransfers;

/// Bytes that lie on a device, and who reaches them; nowhere when `copier` is null.
struct DeviceRegion {
  DeviceCopier* copier = nullptr;
  std::byte* data = nullptr;
};

/// Holds what sources and sinks have in common.
class BytePlace {
 public:
  virtual ~BytePlace() = default;

  /// Where all of the bytes lie, one behind the other, when that is on a device. Those of many places are
  /// copied there at once, instead of by `read` or `write`.
  [[nodiscard]] virtual DeviceRegion on_device() const { return {}; }

  /// Adds who reaches the devices on which some of the bytes lie, also where they are cast or spread on their way:
  /// whoever copies them lets each follow the program's stream first.
  virtual void add_copiers(std::set<DeviceCopier*>& copiers) const {
    if (DeviceCopier* const copier = on_device().copier) {
      copiers.insert(copier);
    }
  }

  /// "'params/w'": whose bytes they are, for messages.
  [[nodiscard]] virtual std::string describe() const { return "bytes of a handler"; }
};

/// Bytes that are not simply in memory: a strided array, one that is cast on the way, one on a device.
///
/// Threads: `read` is called concurrently, for different ranges, on threads that copy. It should not block: the other
///          copies of its operation wait for it, and with Snapshot::copy the caller does.
class ByteSource : public BytePlace {
 public:
  /// Returns whether they are nobody's but the save's: with Snapshot::copy, too, they are read in the
  /// background.
  [[nodiscard]] virtual bool is_lasting() const { return false; }

  /// Fills `out` with the bytes that begin `offset_bytes` after the first.
  virtual void read(std::uint64_t offset_bytes, std::span<std::byte> out) const = 0;
};

/// The reverse: takes bytes that a file holds to where they belong.
///
/// Threads: `write` is called concurrently, for different ranges, on threads that copy. It should not block: the
///          other copies of its operation wait for it.
class ByteSink : public BytePlace {
 public:
  /// Takes the bytes that begin `offset_bytes` after the first.
  virtual void write(std::uint64_t offset_bytes, std::span<const std::byte> in) = 0;
};

/// Compares what a range of a file holds with what is known of it, as its bytes come.
///
/// Threads: as ByteSink. Each byte of the range comes once.
class ByteCheck {
 public:
  virtual ~ByteCheck() = default;

  /// Takes the bytes of the file that begin at `offset_bytes`. May throw when all have come and are not those that were
  /// written.
  virtual void take(std::uint64_t offset_bytes, std::span<const std::byte> bytes) = 0;
};

/// Where the bytes `[offset, offset + size)` of a file come from: `data`, or `source` when `data` is null.
struct SourcePiece {
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  const std::byte* data = nullptr;
  std::shared_ptr<const ByteSource> source;
  /// Keeps `data` alive; may be null when the caller does.
  std::shared_ptr<const void> owner;
  /// Says who keeps these bytes unchanged; nothing: as the save has it. `copy` has them read in the blocking phase,
  /// anything else later.
  std::optional<Snapshot> snapshot = std::nullopt;
};

/// Where the bytes `[offset, offset + size)` of a file go to: `data`, or `sink` when `data` is null; nowhere when both
/// are.
struct DestinationPiece {
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  std::byte* data = nullptr;
  std::shared_ptr<ByteSink> sink;
  /// Keeps `data` alive; may be null when the caller does.
  std::shared_ptr<void> owner;
  /// Is shown the bytes, too; may be null.
  std::shared_ptr<ByteCheck> check = nullptr;
};

/// What is wanted of several files, by their names.
using PiecesByFile = std::map<std::string, std::vector<DestinationPiece>, std::less<>>;

/// What errors say of files that are missing or damaged, behind all else, by their names.
using NotesByFile = std::map<std::string, std::string, std::less<>>;

/// Sorts pieces by offset and checks them against a file of `file_bytes`.
///
/// Errors: Errc::invalid_argument when two overlap, or one reaches beyond the file.
void arrange(std::vector<SourcePiece>& pieces, std::uint64_t file_bytes);
void arrange(std::vector<DestinationPiece>& pieces, std::uint64_t file_bytes);

/// Fills `out` with the bytes of the file that begin at `begin_bytes`; zeros where no piece has any.
/// `pieces` are arranged.
void gather(std::span<const SourcePiece> pieces, std::uint64_t begin_bytes, std::span<std::byte> out);

/// As above; but what comes from devices is only started, and is there when `started` has been waited for.
///
/// Ownership: pieces and `out` must stay valid until then.
void gather(std::span<const SourcePiece> pieces, std::uint64_t begin_bytes, std::span<std::byte> out,
            DeviceTransfers& started);

/// As gather, but leaves `out` as it is where no piece has any bytes.
void gather_onto(std::span<const SourcePiece> pieces, std::uint64_t begin_bytes, std::span<std::byte> out);

/// Takes the bytes of the file that begin at `begin_bytes` to where the pieces want them, and shows them to their
/// checks. `pieces` are arranged; bytes may lie where they belong already.
void scatter(std::span<const DestinationPiece> pieces, std::uint64_t begin_bytes,
             std::span<const std::byte> in);

/// The memory that holds all of `[begin, begin + size)` of the file in one run; null when it is in several
/// pieces, or not in memory. `pieces` are arranged.
const std::byte* contiguous(std::span<const SourcePiece> pieces, std::uint64_t begin_bytes,
                            std::uint64_t size_bytes);
std::byte* contiguous(std::span<const DestinationPiece> pieces, std::uint64_t begin_bytes,
                      std::uint64_t size_bytes);

}  // namespace cairn
