// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/torch_archive.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "formats/internal/first_bytes.hpp"
#include "formats/internal/pickle.hpp"

namespace cairn::formats {
namespace {

constexpr std::string_view kNewestVersion = "3";
constexpr std::uint64_t kSmallMember = 64;
constexpr std::uint64_t kMostPadding = 128;  // Before the data of a member, as torch writes it: 64.

[[noreturn]] void refuse_archive(std::string_view path, std::string_view why) {
  throw Error(Errc::malformed_metadata, fmt::format("{}: {}", path, why));
}

/// Says what a file is that does not begin as an archive does.
void check_first_bytes(std::span<const std::byte> bytes, std::string_view path) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("PK")) {
    return;
  }
  if (text.starts_with('\x80')) {
    refuse_archive(path,
                   "a pickle without an archive, the form of torch.save before version 1.6, is not read: "
                   "torch.save(torch.load(...)) in Python writes today's");
  }
  const std::string told = told_by_first_bytes(bytes);
  refuse_archive(path, "it is not an archive of torch.save" + (told.empty() ? told : ": " + told));
}

/// The folder that all members lie in.
std::string common_folder(const ZipDirectory& directory, std::string_view path) {
  if (directory.members.empty()) {
    refuse_archive(path, "the archive is empty");
  }
  const std::string& first = directory.members.front().name;
  std::string folder = first.substr(0, first.find('/') + 1);
  if (folder.empty() && first.ends_with(".npy")) {
    refuse_archive(path, kNpzIsNotRead);
  }
  for (const ZipMember& member : directory.members) {
    if (folder.empty() || !member.name.starts_with(folder)) {
      refuse_archive(path, "the archive is not one of torch.save: its members lie in no common folder");
    }
  }
  return folder;
}

/// Refuses what torch writes by other functions, by the names of its members.
void check_is_saved_object(const TorchArchive& archive, std::string_view path) {
  const auto& members = archive.directory.members;
  const bool has_code = std::any_of(members.begin(), members.end(), [&](const ZipMember& member) {
    return member.name.starts_with(archive.folder + "code/");
  });
  if (has_code || archive.find("constants.pkl") != nullptr) {
    refuse_archive(
        path,
        "a TorchScript program is not read: torch.save(torch.jit.load(...).state_dict(), ...) in Python "
        "writes its weights alone");
  }
  if (archive.find("archive_format") != nullptr) {
    refuse_archive(path, "an exported program (.pt2) is not read: torch.save of its state_dict in Python is");
  }
}

std::vector<std::byte> read_member(const ReadAt& read, const ZipMember& member) {
  return member.size == 0 ? std::vector<std::byte>() : read(member.begin, member.size);
}

std::string read_small_member(const ReadAt& read, const TorchArchive& archive, std::string_view name,
                              std::string_view path) {
  const ZipMember* const member = archive.find(name);
  if (member != nullptr && member->size > kSmallMember) {
    refuse_archive(path, fmt::format("its '{}' has {} bytes", name, member->size));
  }
  const auto bytes = member == nullptr ? std::vector<std::byte>() : read_member(read, *member);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The headers of all members, and all of those that are not tensors.
std::vector<PartOfFile> parts_to_read(const TorchArchive& archive) {
  std::vector<PartOfFile> parts;
  for (const ZipMember& member : archive.directory.members) {
    parts.push_back({member.header, zip_header_bytes(member)});
  }
  for (const std::string_view name : {"version", "byteorder", "data.pkl"}) {
    const ZipMember* const member = archive.find(name);
    if (member != nullptr && member->size <= (name == "data.pkl" ? kMaxPickleBytes : kSmallMember)) {
      const std::uint64_t bytes = zip_header_bytes(*member) + kMostPadding + member->size;
      parts.push_back({member->header, std::min(bytes, member->limit - member->header)});
    }
  }
  return parts;
}

bool read_byte_order(const ReadAt& read, const TorchArchive& archive, std::string_view path) {
  const std::string order = read_small_member(read, archive, "byteorder", path);
  if (!order.empty() && order != "little" && order != "big") {
    refuse_archive(path, fmt::format("its byte order is '{}', neither 'little' nor 'big'", order));
  }
  return order == "big";
}

void check_version(const ReadAt& read, const TorchArchive& archive, std::string_view path) {
  const std::string text = read_small_member(read, archive, "version", path);
  const std::string_view version = std::string_view(text).substr(0, text.find('\n'));
  if (version.find_first_not_of("0123456789") != std::string_view::npos) {
    refuse_archive(path, fmt::format("its version is '{}', which is not a number", version));
  }
  if (version.size() > 1 || version > kNewestVersion) {
    throw Error(Errc::unsupported_version,
                fmt::format("{}: an archive of torch.save of version {}; {} is the newest that is read", path,
                            version, kNewestVersion));
  }
}

}  // namespace

TorchArchive open_torch_archive(const ReadAt& read, std::uint64_t file_size, std::string_view path,
                                const ExpectParts& expect) {
  check_first_bytes(read(0, std::min<std::uint64_t>(file_size, kTellingBytes)), path);
  TorchArchive archive;
  archive.directory = read_zip_directory(read, file_size, path);
  archive.folder = common_folder(archive.directory, path);
  check_is_saved_object(archive, path);
  if (expect) {
    expect(parts_to_read(archive));
  }
  for (ZipMember& member : archive.directory.members) {
    locate_zip_member(member, read(member.header, zip_header_bytes(member)), path);
  }
  const ZipMember* const pickle = archive.find("data.pkl");
  if (pickle == nullptr) {
    refuse_archive(path, "the archive is not one of torch.save: it has no 'data.pkl'");
  }
  if (pickle->size > kMaxPickleBytes) {
    refuse_archive(
        path, fmt::format("its 'data.pkl' has {} bytes; {} at most are read", pickle->size, kMaxPickleBytes));
  }
  check_version(read, archive, path);
  archive.is_big_endian = read_byte_order(read, archive, path);
  archive.pickle = read_member(read, *pickle);
  if (pickle->has_sum() && can_compute_crc32() && update_crc32(0, archive.pickle) != pickle->crc32) {
    throw Error(Errc::checksum_mismatch,
                fmt::format("{}: member '{}' is not what was written", path, pickle->name));
  }
  return archive;
}

}  // namespace cairn::formats
