// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/array/array_view.hpp"
#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/foreign_catalogue.hpp"

#include "base/internal/checked.hpp"
#include "base/internal/utf8.hpp"
#include "formats/internal/dcp_metadata.hpp"
#include "formats/internal/foreign_index.hpp"
#include "formats/internal/torch_archive.hpp"
#include "formats/internal/zstd.hpp"

namespace cairn::formats {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::array kKnownCodecs = {kLatin1Codec,    kTorchArchiveCodec, kZstdCodec,
                                     kConjugateCodec, kNegateCodec,       kShardCodec};

/// So much may stand around the elements of a slice: an archive's directory, say.
constexpr std::uint64_t kMostAround = std::uint64_t{1} << 20;

[[noreturn]] void refuse_encoded(const EncodedSlice& slice, std::string_view why) {
  throw Error(Errc::malformed_metadata, fmt::format("{}: {}", slice.name, why));
}

void swap_bytes(std::vector<std::byte>& bytes, DType dtype) {
  const std::size_t item = bits(dtype) / 8 / (is_complex(dtype) ? 2 : 1);
  for (std::size_t at = 0; item > 1 && at + item <= bytes.size(); at += item) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + item));
  }
}

/// Flips the signs that a codec says, in elements that are little-endian, or else big-endian.
void flip_signs(std::vector<std::byte>& bytes, DType dtype, bool is_big_endian, std::string_view codec) {
  const bool is_of_pairs = is_complex(dtype);
  const bool is_conjugate = codec == kConjugateCodec;
  const std::size_t part = bits(dtype) / 8 / (is_of_pairs ? 2 : 1);
  if (part == 0 || (is_conjugate && !is_of_pairs)) {
    return;
  }
  const std::size_t sign = is_big_endian ? 0 : part - 1;
  for (std::size_t at = is_conjugate ? part : 0; at + part <= bytes.size();
       at += is_conjugate ? 2 * part : part) {
    bytes[at + sign] ^= std::byte{0x80};
  }
}

std::vector<std::byte> decode_latin1(Bytes bytes, const EncodedSlice& slice) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<std::byte> plain;
  while (!text.empty()) {
    const std::optional<char32_t> code = take_code_point(text);
    if (!code || *code > 0xff) {
      refuse_encoded(slice, "bytes that should be the code points of a text are not");
    }
    plain.push_back(static_cast<std::byte>(*code));
  }
  return plain;
}

/// Makes the elements of a tensor row-major and little-endian, with the signs that they should have.
std::vector<std::byte> in_order(Bytes stored, const SliceForm& form, const ForeignArray& tensor,
                                const EncodedSlice& slice) {
  constexpr std::uint64_t kMostRepeats = 16;
  const std::uint64_t bytes = byte_count(tensor.dtype, tensor.shape).value_or(0);
  if (bytes / kMostRepeats > stored.size()) {
    refuse_encoded(slice, "its elements are repeated too often");
  }
  std::vector<std::byte> ordered(stored.begin(), stored.end());
  if (form.is_big_endian) {
    swap_bytes(ordered, tensor.dtype);
  }
  for (const std::string& codec : form.codecs) {
    flip_signs(ordered, tensor.dtype, false, codec);
  }
  if (form.strides) {
    const std::vector<std::byte> strided =
        std::exchange(ordered, std::vector<std::byte>(static_cast<std::size_t>(bytes)));
    copy(ArrayView(strided.data(), tensor.shape, tensor.dtype, *form.strides),
         MutableArrayView(ordered.data(), tensor.shape, tensor.dtype));
  }
  return ordered;
}

/// Returns the elements of the one tensor in an archive from the first one of the slice on.
Bytes unpack_tensor(Bytes bytes, const EncodedSlice& slice, std::vector<std::byte>& memory) {
  const ReadAt read = [bytes](std::uint64_t begin, std::uint64_t size) {
    const Bytes part = bytes.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size));
    return std::vector<std::byte>(part.begin(), part.end());
  };
  const TorchArchive archive = open_torch_archive(read, bytes.size(), slice.name);
  const ForeignCatalogue contents = describe_torch_archive(archive, slice.name);
  const ForeignSlice& tensor = tensor_of_chunk(contents, slice);
  Bytes elements = bytes.subspan(static_cast<std::size_t>(tensor.range.begin),
                                 static_cast<std::size_t>(tensor.range.end - tensor.range.begin));
  if (tensor.crc32 && can_compute_crc32() && update_crc32(0, elements) != *tensor.crc32) {
    throw Error(Errc::checksum_mismatch,
                fmt::format("{}: its elements are not what was written", slice.name));
  }
  if (const SliceForm& form = contents.forms[tensor.form]; form != SliceForm()) {
    std::vector<std::byte> ordered = in_order(elements, form, contents.arrays[0], slice);
    memory = std::move(ordered);  // Only now: the archive may lie there.
    elements = memory;
  }
  const std::uint64_t item_bytes = std::max(bits(slice.dtype) / 8, 1u);
  if (slice.first > elements.size() / item_bytes) {
    refuse_encoded(slice, "it begins beyond the tensor that it is a part of");
  }
  return elements.subspan(static_cast<std::size_t>(slice.first * item_bytes));
}

}  // namespace

void check_codecs(const SliceForm& form, std::string_view path) {
  for (const std::string& codec : form.codecs) {
    if (std::find(kKnownCodecs.begin(), kKnownCodecs.end(), codec) == kKnownCodecs.end()) {
      throw Error(Errc::feature_missing,
                  fmt::format("{}: its bytes are encoded with '{}', which is not read", shown(path), codec));
    }
    if (codec == kZstdCodec && !can_read_zstd()) {
      static_cast<void>(unpack_zstd({}, 0, fmt::format("{}: encoded with '{}'", shown(path), codec)));
    }
  }
}

Bytes decode(Bytes bytes, const EncodedSlice& slice, std::vector<std::byte>& memory) {
  for (const std::string& codec : slice.form.codecs) {
    if (codec == kTorchArchiveCodec) {
      bytes = unpack_tensor(bytes, slice, memory);
    } else if (codec == kZstdCodec) {
      const auto elements = checked_multiply<std::uint64_t>(slice.elements, bits(slice.dtype) / 8);
      const std::uint64_t most = std::max(elements.value_or(0), slice.needed_bytes);
      memory = unpack_zstd(bytes, checked_add(most, kMostAround).value_or(most), slice.name);
      bytes = memory;
    } else if (codec == kConjugateCodec || codec == kNegateCodec) {
      memory = std::vector<std::byte>(bytes.begin(), bytes.end());
      flip_signs(memory, slice.dtype, slice.form.is_big_endian, codec);
      bytes = memory;
    } else if (codec != kShardCodec) {
      memory = decode_latin1(bytes, slice);
      bytes = memory;
    }
  }
  if (slice.form.is_big_endian) {
    std::vector<std::byte> swapped(bytes.begin(), bytes.end());
    swap_bytes(swapped, slice.dtype);
    memory = std::move(swapped);
    bytes = memory;
  }
  if (bytes.size() < slice.needed_bytes) {
    refuse_encoded(
        slice, fmt::format("decoded it has {} bytes, and should have {}", bytes.size(), slice.needed_bytes));
  }
  return bytes;
}

}  // namespace cairn::formats
