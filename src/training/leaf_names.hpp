// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::training {

/// Which leaves of trees there are already, and in which part.
class LeafNames {
 public:
  struct Found {
    std::string name;
    std::uint32_t part = 0;
  };

  /// A leaf of another part that is this one, above it, or below it.
  [[nodiscard]] std::optional<Found> find_conflict(std::string_view name, std::uint32_t part) const;
  void add(std::string_view name, std::uint32_t part) { parts_.emplace(name, part); }

 private:
  std::map<std::string, std::uint32_t, std::less<>> parts_;  // Paths, in the order of their bytes.
};

}  // namespace cairn::training
