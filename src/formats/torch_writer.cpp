// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/torch_writer.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/checked.hpp"
#include "formats/internal/pickle.hpp"
#include "formats/internal/torch_archive.hpp"

namespace cairn::formats {
namespace {

constexpr std::uint64_t kStorageAlignment = 64;
constexpr std::uint32_t kInWideField = 0xffff'ffffu;  // The number stands in a field of 64 bits.
constexpr std::uint64_t kMostCounted = 0xffff;
constexpr std::uint64_t kHeaderBytes = 30;
constexpr std::uint16_t kWideField = 1;
constexpr std::uint16_t kExtraPadding = 0x4246;  // "FB", as torch pads.
constexpr std::uint16_t kWideVersion = 45;       // Of the format, for numbers of 64 bits,
constexpr std::uint16_t kPlainVersion = 20;      // and without them.
constexpr std::uint16_t kFirstDay = 0x21;        // 1 January 1980: archives of equal arrays are equal.
constexpr std::string_view kByteOrder = "little";
constexpr std::string_view kVersionText = "3\n";

template <class T>
void put_number(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::uint32_t narrowed(std::uint64_t number) {
  return number >= kInWideField ? kInWideField : static_cast<std::uint32_t>(number);
}

/// A field of those numbers that have no room in 32 bits; empty where all have.
std::string wide_numbers(std::initializer_list<std::uint64_t> numbers) {
  std::string wide;
  for (const std::uint64_t number : numbers) {
    if (number >= kInWideField) {
      put_number(wide, number);
    }
  }
  std::string extra;
  if (!wide.empty()) {
    put_number(extra, kWideField);
    put_number(extra, static_cast<std::uint16_t>(wide.size()));
  }
  return extra + wide;
}

/// What a local header and an entry of the directory have in common.
void put_common(std::string& out, const ZipMember& member, std::size_t extra_bytes) {
  put_number(out,
             member.size >= kInWideField || member.header >= kInWideField ? kWideVersion : kPlainVersion);
  put_number(out, std::uint16_t{0});  // Flags.
  put_number(out, std::uint16_t{0});  // Stored as it is.
  put_number(out, std::uint16_t{0});  // Midnight.
  put_number(out, kFirstDay);
  put_number(out, member.crc32);
  put_number(out, narrowed(member.size));
  put_number(out, narrowed(member.size));
  put_number(out, static_cast<std::uint16_t>(member.name.size()));
  put_number(out, static_cast<std::uint16_t>(extra_bytes));
}

std::string local_extra(const ZipMember& member) {
  return wide_numbers({member.size, member.size});
}

/// Everything before the bytes of a member.
std::string local_header(const ZipMember& member) {
  std::string extra = local_extra(member);
  const std::uint64_t padding =
      member.begin - member.header - kHeaderBytes - member.name.size() - extra.size();
  put_number(extra, kExtraPadding);
  put_number(extra, static_cast<std::uint16_t>(padding - 4));
  extra.append(static_cast<std::size_t>(padding) - 4, 'Z');
  std::string out;
  put_number(out, std::uint32_t{0x04034b50});
  put_common(out, member, extra.size());
  return out + member.name + extra;
}

std::string directory_entry(const ZipMember& member) {
  const std::string extra = wide_numbers({member.size, member.size, member.header});
  std::string out;
  put_number(out, std::uint32_t{0x02014b50});
  put_number(out, kWideVersion);  // Made by.
  put_common(out, member, extra.size());
  put_number(out, std::uint16_t{0});  // Bytes of a comment.
  put_number(out, std::uint16_t{0});  // The part of the archive.
  put_number(out, std::uint16_t{0});
  put_number(out, std::uint32_t{0});
  put_number(out, narrowed(member.header));
  return out + member.name + extra;
}

/// The records behind the entries.
std::string end_of_archive(std::uint64_t begin, std::uint64_t bytes, std::uint64_t members) {
  std::string out;
  if (begin >= kInWideField || bytes >= kInWideField || members >= kMostCounted) {
    put_number(out, std::uint32_t{0x06064b50});
    put_number(out, std::uint64_t{44});  // Bytes of the record behind this number.
    put_number(out, kWideVersion);
    put_number(out, kWideVersion);
    put_number(out,
               std::uint64_t{0});  // The number of this part of the archive, and of that with the directory.
    put_number(out, members);
    put_number(out, members);
    put_number(out, bytes);
    put_number(out, begin);
    put_number(out, std::uint32_t{0x07064b50});
    put_number(out, std::uint32_t{0});
    put_number(out, begin + bytes);
    put_number(out, std::uint32_t{1});
  }
  put_number(out, std::uint32_t{0x06054b50});
  put_number(out, std::uint32_t{0});
  put_number(out, static_cast<std::uint16_t>(std::min(members, kMostCounted)));
  put_number(out, static_cast<std::uint16_t>(std::min(members, kMostCounted)));
  put_number(out, narrowed(bytes));
  put_number(out, narrowed(begin));
  put_number(out, std::uint16_t{0});
  return out;
}

std::uint32_t crc32_of(std::string_view text) {
  return can_compute_crc32() ? update_crc32(0, std::as_bytes(std::span(text))) : 0;
}

}  // namespace

std::string why_not_in_torch(DType dtype, const Shape& shape) {
  if (find_torch_type(dtype) == nullptr) {
    return fmt::format("torch has no dtype for {}", name(dtype));
  }
  if (is_packed(dtype) && (shape.empty() || shape[shape.size() - 1] % 2 != 0)) {
    return fmt::format("torch has pairs of {} along the last axis, which is of an odd extent", name(dtype));
  }
  return {};
}

void write_tensor(PickleWriter& pickle, DType dtype, const Shape& shape, std::string_view storage_key) {
  const TorchType& type = *find_torch_type(dtype);
  Shape extents = shape;
  if (is_packed(dtype)) {
    extents[extents.size() - 1] /= 2;
  }
  Shape strides(extents.size(), 1);
  for (std::size_t axis = extents.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * std::max<std::uint64_t>(extents[axis], 1);
  }
  // A dtype whose storage has no class of its own lies in an untyped one, whose size is in bytes.
  const bool is_untyped = type.storage.empty();
  const std::uint64_t bytes = byte_count(dtype, shape).value_or(0);
  pickle.global("torch._utils", is_untyped ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2").begin_tuple();
  pickle.begin_tuple().text("storage");
  pickle.global(is_untyped ? "torch.storage" : "torch", is_untyped ? "UntypedStorage" : type.storage);
  pickle.text(storage_key).text("cpu").unsigned_integer(is_untyped ? bytes : bytes / (bits(dtype) / 8));
  pickle.end_tuple().persistent();
  pickle.integer(0).tuple(extents).tuple(strides).boolean(false);
  pickle.global("collections", "OrderedDict").begin_tuple().end_tuple().call();
  if (is_untyped) {
    pickle.global("torch", type.dtype);
  }
  pickle.end_tuple().call();
}

TorchArchiveWriter::TorchArchiveWriter(std::string pickle, std::span<const std::uint64_t> storage_bytes)
    : pickle_(std::move(pickle)) {
  if (pickle_.size() > kMaxPickleBytes) {
    throw Error(Errc::invalid_argument,
                fmt::format("names and values make a pickle of {} bytes; {} at most are read", pickle_.size(),
                            kMaxPickleBytes));
  }
  add_member("data.pkl", pickle_.size());
  add_member("byteorder", kByteOrder.size());
  for (std::size_t i = 0; i < storage_bytes.size(); ++i) {
    add_member(fmt::format("data/{}", i), storage_bytes[i]);
  }
  add_member("version", kVersionText.size());
  members_[0].crc32 = crc32_of(pickle_);
  members_[1].crc32 = crc32_of(kByteOrder);
  members_.back().crc32 = crc32_of(kVersionText);
  size_bytes_ = members_.back().limit + directory().size();
}

void TorchArchiveWriter::add_member(std::string name, std::uint64_t bytes) {
  ZipMember member;
  member.name = "archive/" + std::move(name);
  member.header = members_.empty() ? 0 : members_.back().limit;
  member.size = bytes;
  // The padding is a field, too: it has four bytes at least.
  member.begin = round_up(member.header + kHeaderBytes + member.name.size() + local_extra(member).size() + 4,
                          kStorageAlignment);
  member.limit = checked_add(member.begin, bytes).value_or(~std::uint64_t{0});
  if (member.limit > kMaxArchiveBytes) {
    throw Error(Errc::invalid_argument,
                fmt::format("an archive of more than {} bytes cannot be written", kMaxArchiveBytes));
  }
  members_.push_back(std::move(member));
}

void TorchArchiveWriter::add_to_sum(std::size_t storage, std::span<const std::byte> bytes) {
  std::uint32_t& sum = members_[kFirst + storage].crc32;
  sum = can_compute_crc32() ? update_crc32(sum, bytes) : 0;
}

std::string TorchArchiveWriter::directory() const {
  std::string out;
  for (const ZipMember& member : members_) {
    out += directory_entry(member);
  }
  return out + end_of_archive(members_.back().limit, out.size(), members_.size());
}

void TorchArchiveWriter::write_rest(
    const std::function<void(std::uint64_t begin, std::string_view bytes)>& write) const {
  write(members_[0].header, local_header(members_[0]) + pickle_);
  write(members_[1].header, local_header(members_[1]).append(kByteOrder));
  for (std::size_t i = kFirst; i + 1 < members_.size(); ++i) {
    write(members_[i].header, local_header(members_[i]));
  }
  write(members_.back().header, local_header(members_.back()).append(kVersionText) + directory());
}

}  // namespace cairn::formats
