// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace cairn {

/// Where memory is.
struct Device {
  enum class Kind : std::uint8_t { cpu = 1, cuda = 2 };

  Kind kind = Kind::cpu;
  std::int32_t index = 0;  ///< Which one, of those of its kind.

  [[nodiscard]] bool is_host() const noexcept { return kind == Kind::cpu; }

  bool operator==(const Device&) const = default;
};

/// "cpu", "cuda:0": for messages.
[[nodiscard]] std::string to_string(Device device);

}  // namespace cairn
