// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/internal/uuid.hpp"

namespace cairn::store {

/// The process that writes a temporary directory, as its `.owner` says.
struct Owner {
  Uuid uuid;  ///< Of the attempt, as in the directory's name.
  std::string host;
  std::string boot_id;
  std::uint64_t pid = 0;
  std::uint64_t start_time = 0;  ///< Clock ticks after boot: tells two processes of one pid apart.
  friend bool operator==(const Owner&, const Owner&) = default;
};

[[nodiscard]] Owner this_process(const Uuid& uuid);
[[nodiscard]] std::string encode_owner(const Owner& owner);
/// Nothing for any text that `encode_owner` does not write.
[[nodiscard]] std::optional<Owner> parse_owner(std::string_view text);

/// Returns whether the process that `owner` names is known to be gone: another boot of this host, or no such
/// process. A process of another host is never known to be gone.
[[nodiscard]] bool is_gone(const Owner& owner);

}  // namespace cairn::store
