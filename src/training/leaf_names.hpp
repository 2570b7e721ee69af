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
    std::string alias_of;
  };

  /// A leaf of another part that is this one, above it, or below it.
  [[nodiscard]] std::optional<Found> find_conflict(std::string_view name, std::uint32_t part) const;
  /// `alias_of` is the first name of an array that has this one, too; else empty.
  void add(std::string_view name, std::uint32_t part, std::string_view alias_of = {}) {
    leaves_.emplace(name, Leaf{part, std::string(alias_of)});
  }

 private:
  struct Leaf {
    std::uint32_t part = 0;
    std::string alias_of;
  };

  std::map<std::string, Leaf, std::less<>> leaves_;  // By path, in the order of their bytes.
};

}  // namespace cairn::training
