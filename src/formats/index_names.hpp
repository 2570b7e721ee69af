// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace cairn::formats {

/// Two entries of an index that cannot both be: `first` stands before `second`.
struct NameClash {
  enum class Kind { duplicate, unsorted, below_leaf };
  Kind kind{};
  std::size_t first = 0;
  std::size_t second = 0;
};

/// The first clash among names that should be sorted bytewise, unique, and without a leaf that has others below it.
///
/// `name_of(i)` gives a name that stays valid, `can_have_children(i)` tells whether entry i is a container.
/// Time: linear in the bytes of all names.
template <class NameOf, class CanHaveChildren>
[[nodiscard]] std::optional<NameClash> find_clash(std::size_t count, NameOf name_of,
                                                  CanHaveChildren can_have_children) {
  // Leaves whose names begin the current name. Names between a leaf and what lies below it are possible:
  // "a", "a-b", "a/b" is sorted. Only the last one can be new: the character behind a shorter one was looked at
  // when the previous name came, which began in the same way.
  std::vector<std::size_t> leaves;
  std::string_view previous;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view name = name_of(i);
    if (i > 0 && name <= previous) {
      return NameClash{name == previous ? NameClash::Kind::duplicate : NameClash::Kind::unsorted, i - 1, i};
    }
    while (!leaves.empty() && !name.starts_with(name_of(leaves.back()))) {
      leaves.pop_back();
    }
    if (!leaves.empty()) {
      const std::size_t leaf_bytes = name_of(leaves.back()).size();
      if (leaf_bytes == 0 || name[leaf_bytes] == '/') {
        return NameClash{NameClash::Kind::below_leaf, leaves.back(), i};
      }
    }
    if (!can_have_children(i)) {
      leaves.push_back(i);
    }
    previous = name;
  }
  return std::nullopt;
}

}  // namespace cairn::formats
