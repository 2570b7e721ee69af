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

constexpr std::array<Kind, 10> kKinds{{
    {"version https://git-lfs", true,
     "a pointer of Git LFS lies in its place: 'git lfs pull' in that repository fetches the file itself"},
    {"<!doctype", true, kPage},
    {"<html", true, kPage},
    {"<?xml", true, kPage},
    {"<error", true, kPage},
    {"{\"error", true, kPage},
    {"entry not found", true, kPage},
    {std::string_view("PK\x03\x04", 4), false, kTorch},
    {"GGUF", false, "it is a file of GGUF, not one of safetensors"},
    {"\x89HDF\r\n\x1a\n", false, "it is a file of HDF5, not one of safetensors"},
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

}  // namespace

std::string told_by_first_bytes(std::span<const std::byte> first_bytes) {
  const std::string_view bytes(reinterpret_cast<const char*>(first_bytes.data()),
                               std::min(first_bytes.size(), kTellingBytes));
  for (const Kind& kind : kKinds) {
    if (begins_with(bytes, kind)) {
      return std::string(kind.words);
    }
  }
  if (is_pickle(bytes)) {
    return std::string(kTorch);
  }
  // Not what it says: the name may be a link to anything.
  return is_text(bytes) ? "a text lies in its place" : "";
}

}  // namespace cairn::formats
