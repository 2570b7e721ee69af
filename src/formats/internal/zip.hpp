// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::formats {

/// Gives the bytes [begin, begin + size) of a file. Nobody asks for bytes beyond the size that the file was said to
/// have.
using ReadAt = std::function<std::vector<std::byte>(std::uint64_t begin, std::uint64_t size)>;

/// Bytes [begin, begin + size) of a file.
struct PartOfFile {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};

/// Told which bytes a reader will ask for one after the other, so that they can be fetched at once.
using ExpectParts = std::function<void(const std::vector<PartOfFile>& parts)>;

/// A file within an archive.
struct ZipMember {
  std::string name;
  std::uint64_t header = 0;  ///< Where its local header begins.
  std::uint64_t limit = 0;   ///< Where the next header begins, or the directory.
  std::uint64_t begin = 0;   ///< First byte of its data; 0 until locate_zip_member.
  std::uint64_t size = 0;    ///< Bytes of its data, as they are stored.
  std::uint32_t crc32 = 0;   ///< Means something where has_sum().
  std::uint16_t method = 0;  ///< 0: stored as it is.
  std::uint16_t flags = 0;

  /// Returns whether the CRC-32 is one. torch writes 0 where it is told to write none, and for storages that
  /// `torch.serialization.skip_data` leaves room for. Nothing has the sum 0, too.
  [[nodiscard]] bool has_sum() const noexcept { return crc32 != 0 || size == 0; }
};

/// The directory at the end of an archive.
///
/// Invariant: members are sorted by name, names are unique, and no two members share a byte.
struct ZipDirectory {
  std::vector<ZipMember> members;

  [[nodiscard]] const ZipMember* find(std::string_view name) const noexcept;
};

/// So many bytes at the end of an archive tell where its directory lies.
inline constexpr std::uint64_t kZipTailBytes = 98;

struct ZipDirectoryPlace {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::uint64_t members = 0;
};

/// Tells where the directory of an archive lies, from the last kZipTailBytes of it, or all where it has fewer.
///
/// Errors (all three): Errc::malformed_metadata, naming the member or what disagrees.
/// Source: APPNOTE.TXT 6.3.10 of PKWARE; docs/format.md, "Archives of torch.save", has what is refused beyond it.
[[nodiscard]] ZipDirectoryPlace find_zip_directory(std::span<const std::byte> tail, std::uint64_t file_size,
                                                   std::string_view path);

/// Reads a directory. Members may be compressed or encrypted until they are located.
[[nodiscard]] ZipDirectory parse_zip_directory(std::span<const std::byte> bytes,
                                               const ZipDirectoryPlace& place, std::string_view path);

/// How many bytes from ZipMember::header on locate_zip_member wants.
[[nodiscard]] std::uint64_t zip_header_bytes(const ZipMember& member) noexcept;

/// Sets ZipMember::begin by the member's local header, which must say what the directory says. A member that is
/// compressed or encrypted is refused.
void locate_zip_member(ZipMember& member, std::span<const std::byte> header, std::string_view path);

/// Reads the directory of an archive, in one thread; members are not located.
[[nodiscard]] ZipDirectory read_zip_directory(const ReadAt& read, std::uint64_t file_size,
                                              std::string_view path);

/// Returns whether this build can compute the sums of archives.
[[nodiscard]] bool can_compute_crc32() noexcept;

/// Continues a CRC-32, as zip has it, over more bytes; begin with 0.
///
/// Errors: Errc::feature_missing, naming the packages, where can_compute_crc32() is false.
[[nodiscard]] std::uint32_t update_crc32(std::uint32_t sum, std::span<const std::byte> bytes);

/// Returns what the CRC-32 of a part adds to that of the whole when so many bytes follow the part: the sums of all
/// parts, each so shifted, are that of the whole by exclusive or, in any order.
[[nodiscard]] std::uint32_t shift_crc32(std::uint32_t sum, std::uint64_t bytes_behind) noexcept;

}  // namespace cairn::formats
