// SPDX-License-Identifier: Apache-2.0
#include "store/internal/checkpointable_names.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/utf8.hpp"

namespace cairn::store {
namespace {

bool stands_for_itself(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

std::string percent(char c) {
  return fmt::format("%{:02x}", static_cast<unsigned char>(c));
}

}  // namespace

std::string directory_of(std::string_view name) {
  // These would collide with the checkpoint's own files; their dots are written as bytes.
  constexpr std::array<std::string_view, 2> kReserved = {"checkpoint.json", "chunks.xxh3"};
  const bool is_reserved = std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
  std::string directory;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool is_awkward_dot = name[i] == '.' && (i == 0 || i + 1 == name.size() || is_reserved);
    if (stands_for_itself(name[i]) && !is_awkward_dot) {
      directory += name[i];
    } else {
      directory += percent(name[i]);
    }
  }
  return directory;
}

void validate_name(std::string_view name) {
  if (name.empty()) {
    throw Error(Errc::invalid_argument, "the name of a checkpointable is empty");
  }
  if (name.find('\0') != std::string_view::npos) {
    throw Error(Errc::invalid_argument, fmt::format("the name '{}' of a checkpointable holds a NUL",
                                                    name.substr(0, name.find('\0'))));
  }
  if (!is_valid_utf8(name)) {
    throw Error(Errc::invalid_argument, "the name of a checkpointable is not valid UTF-8");
  }
  if (const std::string directory = directory_of(name); directory.size() > kMaxDirectoryBytes) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("the name '{}…' of a checkpointable needs a directory name of {} bytes; {} are allowed",
                    directory.substr(0, 40), directory.size(), kMaxDirectoryBytes));
  }
}

}  // namespace cairn::store
