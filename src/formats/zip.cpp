// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/zip.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/checked.hpp"
#include "base/internal/utf8.hpp"

namespace cairn::formats {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kEntrySignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocatorSignature = 0x07064b50;

constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kEntryBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kLocatorBytes = 20;
static_assert(kEndBytes + kLocatorBytes + kEnd64Bytes == kZipTailBytes);

/// A field that has no room for a number has this, and a record of 64 bits has the number.
constexpr std::uint32_t kElsewhere = 0xffff'ffffu;
constexpr std::uint16_t kCountElsewhere = 0xffffu;
constexpr std::uint16_t kExtra64 = 1;

constexpr std::uint16_t kEncrypted = 1u << 0 | 1u << 6 | 1u << 13;
constexpr std::uint16_t kPatched = 1u << 5;
constexpr std::uint16_t kSizesFollow = 1u << 3;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 63;

[[noreturn]] void refuse_zip(std::string_view path, std::string_view why) {
  throw Error(Errc::malformed_metadata, fmt::format("{}: {}", path, why));
}

[[noreturn]] void refuse_member(std::string_view path, std::string_view member, std::string_view why) {
  throw Error(Errc::malformed_metadata, fmt::format("{}: member '{}': {}", path, member, why));
}

/// Reads a number at a place that the caller knows to be inside.
template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t at) noexcept {
  static_assert(std::is_unsigned_v<T>);
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// Returns the field of 64-bit numbers among the extra fields of a member, empty where there is none.
std::span<const std::byte> find_extra64(std::span<const std::byte> extra) noexcept {
  while (extra.size() >= 4) {
    const std::size_t size = number_at<std::uint16_t>(extra, 2);
    if (size > extra.size() - 4) {
      break;
    }
    if (number_at<std::uint16_t>(extra, 0) == kExtra64) {
      return extra.subspan(4, size);
    }
    extra = extra.subspan(4 + size);
  }
  return {};
}

/// Takes the 64-bit form of a number that has none of its own.
std::uint64_t widened(std::uint32_t number, std::span<const std::byte>& extra64, std::string_view path,
                      std::string_view member) {
  if (number != kElsewhere) {
    return number;
  }
  if (extra64.size() < sizeof(std::uint64_t)) {
    refuse_member(path, member, "its 64-bit numbers are missing");
  }
  const auto wide = number_at<std::uint64_t>(extra64, 0);
  extra64 = extra64.subspan(sizeof wide);
  return wide;
}

/// What the record of 64-bit numbers says; the two records before the end must agree with it.
ZipDirectoryPlace place_by_end64(std::span<const std::byte> tail, std::uint64_t file_size,
                                 std::string_view path) {
  const std::uint64_t end64_at = file_size - kZipTailBytes;
  if (tail.size() < kZipTailBytes || number_at<std::uint32_t>(tail, 0) != kEnd64Signature ||
      number_at<std::uint64_t>(tail, 4) != kEnd64Bytes - 12) {
    refuse_zip(path, "the archive's record of 64-bit numbers is not before its end");
  }
  const auto locator = tail.subspan(kEnd64Bytes);
  if (number_at<std::uint64_t>(locator, 8) != end64_at || number_at<std::uint32_t>(locator, 4) != 0 ||
      number_at<std::uint32_t>(locator, 16) > 1 || number_at<std::uint32_t>(tail, 16) != 0 ||
      number_at<std::uint32_t>(tail, 20) != 0) {
    refuse_zip(path, "the archive has several parts, or its records disagree about where they lie");
  }
  if (number_at<std::uint64_t>(tail, 24) != number_at<std::uint64_t>(tail, 32)) {
    refuse_zip(path, "the archive has several parts");
  }
  return {number_at<std::uint64_t>(tail, 48), number_at<std::uint64_t>(tail, 40),
          number_at<std::uint64_t>(tail, 32)};
}

ZipMember parse_entry(std::span<const std::byte> entry, std::size_t name_bytes, std::size_t extra_bytes,
                      std::string_view path) {
  ZipMember member;
  member.name.assign(reinterpret_cast<const char*>(entry.data()) + kEntryBytes, name_bytes);
  if (member.name.empty() || member.name.find('\0') != std::string::npos || !is_valid_utf8(member.name)) {
    refuse_member(path, member.name, "its name is empty or not a text");
  }
  member.flags = number_at<std::uint16_t>(entry, 8);
  member.method = number_at<std::uint16_t>(entry, 10);
  member.crc32 = number_at<std::uint32_t>(entry, 16);
  std::span<const std::byte> extra64 = find_extra64(entry.subspan(kEntryBytes + name_bytes, extra_bytes));
  const std::uint64_t unpacked = widened(number_at<std::uint32_t>(entry, 24), extra64, path, member.name);
  member.size = widened(number_at<std::uint32_t>(entry, 20), extra64, path, member.name);
  member.header = widened(number_at<std::uint32_t>(entry, 42), extra64, path, member.name);
  if (number_at<std::uint16_t>(entry, 34) != 0) {
    refuse_member(path, member.name, "it lies in another part of the archive");
  }
  if (member.method == 0 && unpacked != member.size) {
    refuse_member(path, member.name, fmt::format("{} bytes are stored as {}", unpacked, member.size));
  }
  return member;
}

/// Checks that the members follow one another from the first byte to the directory, and notes where each must end.
void set_limits(std::vector<ZipMember>& members, std::uint64_t directory, std::string_view path) {
  std::sort(members.begin(), members.end(),
            [](const ZipMember& a, const ZipMember& b) { return a.header < b.header; });
  std::uint64_t limit = directory;
  for (auto member = members.rbegin(); member != members.rend(); ++member) {
    member->limit = limit;
    const std::uint64_t header_end = member->header + kLocalBytes + member->name.size();
    if (member->header >= limit || header_end > limit || member->size > limit - header_end) {
      refuse_member(path, member->name,
                    fmt::format("{} bytes from {} on reach beyond {}, where something else begins",
                                member->size, member->header, limit));
    }
    limit = member->header;
  }
  if (limit != 0 && !members.empty()) {
    refuse_zip(path, fmt::format("{} bytes lie before the first member of the archive", limit));
  }
}

}  // namespace

const ZipMember* ZipDirectory::find(std::string_view name) const noexcept {
  const auto found =
      std::lower_bound(members.begin(), members.end(), name,
                       [](const ZipMember& member, std::string_view wanted) { return member.name < wanted; });
  return found != members.end() && found->name == name ? &*found : nullptr;
}

ZipDirectoryPlace find_zip_directory(std::span<const std::byte> tail, std::uint64_t file_size,
                                     std::string_view path) {
  tail = tail.last(std::min<std::size_t>(tail.size(), kZipTailBytes));
  if (file_size >= kMaxFileBytes || tail.size() < kEndBytes ||
      number_at<std::uint32_t>(tail.last(kEndBytes), 0) != kEndSignature ||
      number_at<std::uint16_t>(tail.last(kEndBytes), 20) != 0) {
    refuse_zip(path, "no directory of an archive lies at its end: the file is cut, or something follows it");
  }
  const std::span<const std::byte> end = tail.last(kEndBytes);
  ZipDirectoryPlace place{number_at<std::uint32_t>(end, 16), number_at<std::uint32_t>(end, 12),
                          number_at<std::uint16_t>(end, 10)};
  std::uint64_t expected_end = file_size - kEndBytes;
  const bool has_locator =
      tail.size() >= kEndBytes + kLocatorBytes &&
      number_at<std::uint32_t>(tail.last(kEndBytes + kLocatorBytes), 0) == kLocatorSignature;
  if (has_locator) {
    const ZipDirectoryPlace wide = place_by_end64(tail, file_size, path);
    if ((place.begin != kElsewhere && place.begin != wide.begin) ||
        (place.size != kElsewhere && place.size != wide.size) ||
        (place.members != kCountElsewhere && place.members != wide.members)) {
      refuse_zip(path, "the archive says twice where its directory lies, and differently");
    }
    place = wide;
    expected_end = file_size - kZipTailBytes;
  }
  if (number_at<std::uint16_t>(end, 4) != 0 || number_at<std::uint16_t>(end, 6) != 0 ||
      number_at<std::uint16_t>(end, 8) != number_at<std::uint16_t>(end, 10)) {
    refuse_zip(path, "the archive has several parts");
  }
  const std::optional<std::uint64_t> directory_end = checked_add(place.begin, place.size);
  if (!directory_end || *directory_end != expected_end) {
    refuse_zip(path, fmt::format("a directory of {} bytes at {} does not end where the archive ends, at {}",
                                 place.size, place.begin, expected_end));
  }
  if (place.members > place.size / kEntryBytes) {
    refuse_zip(path,
               fmt::format("a directory of {} bytes has no room for {} members", place.size, place.members));
  }
  return place;
}

ZipDirectory parse_zip_directory(std::span<const std::byte> bytes, const ZipDirectoryPlace& place,
                                 std::string_view path) {
  ZipDirectory directory;
  directory.members.reserve(static_cast<std::size_t>(place.members));
  while (!bytes.empty()) {
    if (bytes.size() < kEntryBytes || number_at<std::uint32_t>(bytes, 0) != kEntrySignature) {
      refuse_zip(path, "the archive's directory is damaged");
    }
    const std::size_t name_bytes = number_at<std::uint16_t>(bytes, 28);
    const std::size_t extra_bytes = number_at<std::uint16_t>(bytes, 30);
    const std::size_t entry_bytes =
        kEntryBytes + name_bytes + extra_bytes + number_at<std::uint16_t>(bytes, 32);
    if (entry_bytes > bytes.size()) {
      refuse_zip(path, "the archive's directory is damaged: an entry reaches beyond it");
    }
    directory.members.push_back(parse_entry(bytes.first(entry_bytes), name_bytes, extra_bytes, path));
    directory.has_crc32 = directory.has_crc32 || directory.members.back().crc32 != 0;
    bytes = bytes.subspan(entry_bytes);
  }
  if (directory.members.size() != place.members) {
    refuse_zip(path, fmt::format("the archive's directory has {} members, but it says {}",
                                 directory.members.size(), place.members));
  }
  set_limits(directory.members, place.begin, path);
  std::sort(directory.members.begin(), directory.members.end(),
            [](const ZipMember& a, const ZipMember& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(directory.members.begin(), directory.members.end(),
                         [](const ZipMember& a, const ZipMember& b) { return a.name == b.name; });
  if (twice != directory.members.end()) {
    refuse_member(path, twice->name, "two members have this name");
  }
  return directory;
}

void check_stored(const ZipDirectory& directory, std::string_view path) {
  for (const ZipMember& member : directory.members) {
    if ((member.flags & kEncrypted) != 0) {
      refuse_member(path, member.name, "it is encrypted");
    }
    if (member.method != 0 || (member.flags & kPatched) != 0) {
      refuse_member(
          path, member.name,
          fmt::format("it is compressed (method {}); torch.save stores members as they are", member.method));
    }
  }
}

std::uint64_t zip_header_bytes(const ZipMember& member) noexcept {
  constexpr std::uint64_t kExtra64Bytes = 4 + 2 * sizeof(std::uint64_t);
  return std::min(kLocalBytes + member.name.size() + kExtra64Bytes, member.limit - member.header);
}

void locate_zip_member(ZipMember& member, std::span<const std::byte> header, std::string_view path) {
  const std::size_t name_end = kLocalBytes + member.name.size();
  if (header.size() < name_end || number_at<std::uint32_t>(header, 0) != kLocalSignature ||
      number_at<std::uint16_t>(header, 26) != member.name.size() ||
      std::memcmp(header.data() + kLocalBytes, member.name.data(), member.name.size()) != 0) {
    refuse_member(path, member.name, "its header is damaged, or of another member");
  }
  const std::uint64_t extra_bytes = number_at<std::uint16_t>(header, 28);
  const auto have = std::min<std::uint64_t>(extra_bytes, header.size() - name_end);
  std::span<const std::byte> extra64 = find_extra64(header.subspan(name_end, static_cast<std::size_t>(have)));
  const bool is_later = (member.flags & kSizesFollow) != 0;  // Then a header has zeros, or the same.
  const auto agrees = [&](std::uint64_t told, std::uint64_t known) {
    return told == known || (is_later && told == 0);
  };
  const std::uint64_t unpacked = widened(number_at<std::uint32_t>(header, 22), extra64, path, member.name);
  const std::uint64_t packed = widened(number_at<std::uint32_t>(header, 18), extra64, path, member.name);
  if (number_at<std::uint16_t>(header, 6) != member.flags ||
      number_at<std::uint16_t>(header, 8) != member.method ||
      !agrees(number_at<std::uint32_t>(header, 14), member.crc32) || !agrees(packed, member.size) ||
      (member.method == 0 && !agrees(unpacked, member.size))) {
    refuse_member(path, member.name, "its header and the directory disagree");
  }
  const std::uint64_t begin = member.header + name_end + extra_bytes;
  if (begin > member.limit || member.size > member.limit - begin) {
    refuse_member(path, member.name, "its bytes reach into what follows");
  }
  member.begin = begin;
}

ZipDirectory read_zip_directory(const ReadAt& read, std::uint64_t file_size, std::string_view path) {
  const std::uint64_t tail_bytes = std::min(kZipTailBytes, file_size);
  const ZipDirectoryPlace place =
      find_zip_directory(read(file_size - tail_bytes, tail_bytes), file_size, path);
  return parse_zip_directory(read(place.begin, place.size), place, path);
}

}  // namespace cairn::formats
