// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/first_bytes.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace cairn::formats {
namespace {

/// Holds what files of a kind begin with.
struct Kind {
  std::string_view begin;  ///< Texts in lower case.
  bool is_text = false;    ///< Then spaces before it and capital letters do not count.
  std::string_view words;
};

constexpr std::string_view kPage =
    "the answer of a server lies in its place, as it comes for a file that needs a login or is gone: "
    "download the file again";
constexpr std::string_view kTorch =
    "it is a file of torch.save, not one of safetensors; safetensors.torch.save_file in Python makes those";

constexpr std::array<Kind, 11> kKinds{{
    {"version https://git-lfs", true,
     "a pointer of Git LFS lies in its place: 'git lfs pull' in that repository fetches the file itself"},
    {"<!doctype", true, kPage},
    {"<html", true, kPage},
    {"<?xml", true, kPage},
    {"<error", true, kPage},
    {"{\"error", true, kPage},
    {"entry not found", true, kPage},
    {std::string_view("PK\x03\x04", 4), false, kTorch},
    {"GGUF", false, "it is a file of GGUF, which is not read yet; export it as safetensors"},
    {"\x89HDF\r\n\x1a\n", false, "it is a file of HDF5, which is not read yet; export it as safetensors"},
    {"\x1f\x8b", false, "it is compressed with gzip: unpack it first, as gunzip does"},
}};

bool begins_with(std::string_view bytes, const Kind& kind) {
  if (!kind.is_text) {
    return bytes.starts_with(kind.begin);
  }
  constexpr std::string_view kMark = "\xef\xbb\xbf";  // Of UTF-8.
  if (bytes.starts_with(kMark)) {
    bytes.remove_prefix(kMark.size());
  }
  bytes.remove_prefix(std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size()));
  return bytes.size() >= kind.begin.size() &&
         std::equal(kind.begin.begin(), kind.begin.end(), bytes.begin(), [](char lower, char given) {
           return lower == static_cast<char>(std::tolower(static_cast<unsigned char>(given)));
         });
}

/// A pickle of protocol 2 and later, before torch 1.6. Its third byte is an opcode; that of a short header's length
/// is zero.
bool is_pickle(std::string_view bytes) {
  return bytes.size() >= 3 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5 && bytes[2] != '\0';
}

bool is_text(std::string_view bytes) {
  return !bytes.empty() && std::all_of(bytes.begin(), bytes.end(), [](char byte) {
    return (byte >= ' ' && byte <= '~') || byte == '\n' || byte == '\r' || byte == '\t';
  });
}

bool is_tar(std::string_view bytes) {
  constexpr std::size_t kMarkBegins = 257;
  return bytes.size() > kMarkBegins && bytes.substr(kMarkBegins).starts_with("ustar");
}

/// An archive whose first member is an array of numpy.
bool is_npz(std::string_view bytes) {
  constexpr std::size_t kNameBegins = 30;
  if (bytes.size() < kNameBegins || !bytes.starts_with(std::string_view("PK\x03\x04", 4))) {
    return false;
  }
  const auto length = static_cast<std::size_t>(static_cast<unsigned char>(bytes[26])) +
                      (static_cast<std::size_t>(static_cast<unsigned char>(bytes[27])) << 8);
  return bytes.substr(kNameBegins, length).ends_with(".npy");
}

/// A protobuf message that begins with a small number, the version, and a text, who has made it.
bool is_onnx(std::string_view bytes) {
  constexpr char kNewestVersion = 32;  // Far beyond today's.
  if (bytes.size() < 5 || bytes[0] != '\x08' || bytes[1] < 1 || bytes[1] > kNewestVersion ||
      bytes[2] != '\x12') {
    return false;
  }
  const auto length = static_cast<std::size_t>(static_cast<unsigned char>(bytes[3]));
  const std::string_view producer = bytes.substr(4, length);
  return length > 0 && length < 0x80 && producer.size() == length && is_text(producer);
}

}  // namespace

std::string told_by_first_bytes(std::span<const std::byte> first_bytes) {
  const std::string_view bytes(reinterpret_cast<const char*>(first_bytes.data()),
                               std::min(first_bytes.size(), kTellingBytes));
  if (is_npz(bytes)) {
    return std::string(kNpzIsNotRead);
  }
  for (const Kind& kind : kKinds) {
    if (begins_with(bytes, kind)) {
      return std::string(kind.words);
    }
  }
  if (is_pickle(bytes)) {
    return std::string(kTorch);
  }
  if (is_tar(bytes)) {
    return "it is a tar archive: unpack it first";
  }
  if (is_onnx(bytes)) {
    return "it is a file of ONNX, which is not read yet; export it as safetensors";
  }
  // Not what it says: the name may be a link to anything.
  return is_text(bytes) ? "a text lies in its place" : "";
}

}  // namespace cairn::formats
