// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/zip.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
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
constexpr std::uint64_t kExtra64Bytes = 4 + 2 * sizeof(std::uint64_t);

constexpr std::uint16_t kEncrypted = 1u << 0 | 1u << 6 | 1u << 13;
constexpr std::uint16_t kPatched = 1u << 5;
constexpr std::uint16_t kSizesFollow = 1u << 3;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 63;

[[noreturn]] void refuse_zip(std::string_view path, std::string_view why) {
  throw Error(Errc::malformed_metadata, fmt::format("{}: {}", path, why));
}

[[noreturn]] void refuse_member(std::string_view path, std::string_view member, std::string_view why) {
  refuse_zip(path, fmt::format("member '{}': {}", member, why));
}

/// The little-endian numbers of a record, at places that the caller knows to be inside.
struct ZipRecord {
  std::span<const std::byte> bytes;

  template <class T>
  [[nodiscard]] T number(std::size_t at) const noexcept {
    T value{};
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  }
  [[nodiscard]] std::uint16_t u16(std::size_t at) const noexcept { return number<std::uint16_t>(at); }
  [[nodiscard]] std::uint32_t u32(std::size_t at) const noexcept { return number<std::uint32_t>(at); }
  [[nodiscard]] std::uint64_t u64(std::size_t at) const noexcept { return number<std::uint64_t>(at); }
};

/// The 64-bit forms of a member's numbers, taken one after the other from its extra fields.
class WideNumbers {
 public:
  WideNumbers(std::span<const std::byte> extra, std::string_view path, std::string_view member)
      : path_(path), member_(member) {
    while (extra.size() >= 4) {
      const std::size_t size = ZipRecord{extra}.u16(2);
      if (size > extra.size() - 4) {
        break;
      }
      if (ZipRecord{extra}.u16(0) == kExtra64) {
        numbers_ = extra.subspan(4, size);
        break;
      }
      extra = extra.subspan(4 + size);
    }
  }

  std::uint64_t widened(std::uint32_t number) {
    if (number != kElsewhere) {
      return number;
    }
    if (numbers_.size() < sizeof(std::uint64_t)) {
      refuse_member(path_, member_, "its 64-bit numbers are missing");
    }
    const std::uint64_t wide = ZipRecord{numbers_}.u64(0);
    numbers_ = numbers_.subspan(sizeof wide);
    return wide;
  }

 private:
  std::span<const std::byte> numbers_;
  std::string_view path_;
  std::string_view member_;
};

/// Reads the record of 64-bit numbers, where there is one; the two records before the end must agree with it.
ZipDirectoryPlace place_by_end64(std::span<const std::byte> tail, std::uint64_t file_size,
                                 std::string_view path) {
  const ZipRecord end64{tail};
  if (tail.size() < kZipTailBytes || end64.u32(0) != kEnd64Signature || end64.u64(4) != kEnd64Bytes - 12) {
    refuse_zip(path, "the archive's record of 64-bit numbers is not before its end");
  }
  const ZipRecord locator{tail.subspan(kEnd64Bytes)};
  if (locator.u64(8) != file_size - kZipTailBytes || locator.u32(4) != 0 || locator.u32(16) > 1 ||
      end64.u32(16) != 0 || end64.u32(20) != 0 || end64.u64(24) != end64.u64(32)) {
    refuse_zip(path, "the archive has several parts, or its records disagree about where they lie");
  }
  return {end64.u64(48), end64.u64(40), end64.u64(32)};
}

ZipMember parse_entry(std::span<const std::byte> bytes, std::size_t name_bytes, std::size_t extra_bytes,
                      std::string_view path) {
  const ZipRecord entry{bytes};
  ZipMember member;
  member.name.assign(reinterpret_cast<const char*>(bytes.data()) + kEntryBytes, name_bytes);
  if (member.name.empty() || member.name.find('\0') != std::string::npos || !is_valid_utf8(member.name)) {
    refuse_member(path, member.name, "its name is empty or not a text");
  }
  member.flags = entry.u16(8);
  member.method = entry.u16(10);
  member.crc32 = entry.u32(16);
  WideNumbers wide(bytes.subspan(kEntryBytes + name_bytes, extra_bytes), path, member.name);
  const std::uint64_t unpacked = wide.widened(entry.u32(24));
  member.size = wide.widened(entry.u32(20));
  member.header = wide.widened(entry.u32(42));
  if (entry.u16(34) != 0 || (member.method == 0 && unpacked != member.size)) {
    refuse_member(
        path, member.name,
        fmt::format("{} bytes are stored as {}, or in another part of the archive", unpacked, member.size));
  }
  return member;
}

/// Checks that the members follow one another from the first byte to the directory, and notes where each must end.
void set_limits(std::vector<ZipMember>& members, std::uint64_t directory, std::string_view path) {
  const auto comes_before = [](const ZipMember& a, const ZipMember& b) { return a.header < b.header; };
  if (!std::is_sorted(members.begin(), members.end(), comes_before)) {  // Nearly all are.
    std::sort(members.begin(), members.end(), comes_before);
  }
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
  const ZipRecord end{tail.last(std::min(tail.size(), kEndBytes))};
  if (file_size >= kMaxFileBytes || tail.size() < kEndBytes || end.u32(0) != kEndSignature ||
      end.u16(20) != 0) {
    refuse_zip(path, "no directory of an archive lies at its end: the file is cut, or something follows it");
  }
  if (end.u16(4) != 0 || end.u16(6) != 0 || end.u16(8) != end.u16(10)) {
    refuse_zip(path, "the archive has several parts");
  }
  ZipDirectoryPlace place{end.u32(16), end.u32(12), end.u16(10)};
  std::uint64_t expected_end = file_size - kEndBytes;
  if (tail.size() >= kEndBytes + kLocatorBytes &&
      ZipRecord{tail.last(kEndBytes + kLocatorBytes)}.u32(0) == kLocatorSignature) {
    const ZipDirectoryPlace wide = place_by_end64(tail, file_size, path);
    if ((place.begin != kElsewhere && place.begin != wide.begin) ||
        (place.size != kElsewhere && place.size != wide.size) ||
        (place.members != kCountElsewhere && place.members != wide.members)) {
      refuse_zip(path, "the archive says twice where its directory lies, and differently");
    }
    place = wide;
    expected_end = file_size - kZipTailBytes;
  }
  if (checked_add(place.begin, place.size) != expected_end) {
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
    const ZipRecord entry{bytes};
    if (bytes.size() < kEntryBytes || entry.u32(0) != kEntrySignature) {
      refuse_zip(path, "the archive's directory is damaged");
    }
    const std::size_t name_bytes = entry.u16(28);
    const std::size_t extra_bytes = entry.u16(30);
    const std::size_t entry_bytes = kEntryBytes + name_bytes + extra_bytes + entry.u16(32);
    if (entry_bytes > bytes.size()) {
      refuse_zip(path, "the archive's directory is damaged: an entry reaches beyond it");
    }
    directory.members.push_back(parse_entry(bytes.first(entry_bytes), name_bytes, extra_bytes, path));
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

std::uint64_t zip_header_bytes(const ZipMember& member) noexcept {
  return std::min(kLocalBytes + member.name.size() + kExtra64Bytes, member.limit - member.header);
}

void locate_zip_member(ZipMember& member, std::span<const std::byte> bytes, std::string_view path) {
  if ((member.flags & kEncrypted) != 0) {
    refuse_member(path, member.name, "it is encrypted");
  }
  if (member.method != 0 || (member.flags & kPatched) != 0) {
    refuse_member(
        path, member.name,
        fmt::format("it is compressed (method {}); torch.save stores members as they are", member.method));
  }
  const ZipRecord header{bytes};
  const std::size_t name_end = kLocalBytes + member.name.size();
  if (bytes.size() < name_end || header.u32(0) != kLocalSignature || header.u16(26) != member.name.size() ||
      std::memcmp(bytes.data() + kLocalBytes, member.name.data(), member.name.size()) != 0) {
    refuse_member(path, member.name, "its header is damaged, or of another member");
  }
  const std::size_t extra_bytes = header.u16(28);
  WideNumbers wide(bytes.subspan(name_end, std::min(extra_bytes, bytes.size() - name_end)), path,
                   member.name);
  const std::uint64_t unpacked = wide.widened(header.u32(22));
  const std::uint64_t packed = wide.widened(header.u32(18));
  const bool is_later = (member.flags & kSizesFollow) != 0;  // Then a header has zeros, or the same.
  const auto agrees = [&](std::uint64_t told, std::uint64_t known) {
    return told == known || (is_later && told == 0);
  };
  if (header.u16(6) != member.flags || header.u16(8) != 0 || !agrees(header.u32(14), member.crc32) ||
      !agrees(packed, member.size) || !agrees(unpacked, member.size)) {
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
