// SPDX-License-Identifier: Apache-2.0
#include "training/leaf_names.hpp"

#include <cstddef>

namespace cairn::training {

std::optional<LeafNames::Found> LeafNames::find_conflict(std::string_view name, std::uint32_t part) const {
  const auto conflict_of = [&](auto at) {
    return at != leaves_.end() && at->second.part != part
               ? std::optional(Found{at->first, at->second.part, at->second.alias_of})
               : std::nullopt;
  };
  if (auto root = conflict_of(leaves_.find(std::string_view()))) {
    return root;
  }
  for (std::size_t slash = name.find('/'); slash != std::string_view::npos;
       slash = name.find('/', slash + 1)) {
    if (auto above = conflict_of(leaves_.find(name.substr(0, slash)))) {
      return above;
    }
  }
  if (auto same = conflict_of(leaves_.find(name))) {
    return same;
  }
  const std::string below = name.empty() ? "" : std::string(name) + "/";
  for (auto at = leaves_.lower_bound(below); at != leaves_.end() && at->first.starts_with(below); ++at) {
    if (auto found = conflict_of(at)) {
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace cairn::training
