// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "formats/index_names.hpp"
#include "formats/internal/foreign_index.hpp"
#include "formats/internal/index.hpp"

namespace cairn::formats {
namespace {

/// The columns of names that an index has instead of its own.
struct OwnNames {
  std::shared_ptr<const void> others;  ///< The columns that it still has.
  std::vector<std::uint8_t> names;
  std::vector<std::uint32_t> name_ends;
  std::vector<std::uint8_t> kinds;
  std::vector<std::uint64_t> values;
  std::vector<std::uint8_t> aliases;
  std::vector<std::uint32_t> alias_ends;
};

std::uint32_t append(std::vector<std::uint8_t>& names, const std::string& name) {
  names.insert(names.end(), name.begin(), name.end());
  if (names.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(Errc::invalid_argument, fmt::format("'{}': the names have more than 4 GiB", name));
  }
  return static_cast<std::uint32_t>(names.size());
}

}  // namespace

Index Index::with_entries(const std::vector<RenamedEntry>& entries) const {
  const auto clash = find_clash(
      entries.size(), [&](std::size_t i) -> std::string_view { return entries[i].name; },
      [&](std::size_t i) { return entries[i].entry.kind == EntryKind::list; });
  if (clash) {
    const auto& [name, entry] = entries[clash->first];
    const auto& [other, other_entry] = entries[clash->second];
    throw Error(
        Errc::invalid_argument,
        fmt::format(
            "{}: {} was to be called {}, and {} {}: one path cannot be both a leaf and a map; rename one, "
            "or choose another separator",
            path_, shown(entry.name), shown(name), shown(other_entry.name), shown(other)));
  }
  const auto own = std::make_shared<OwnNames>();
  own->others = owner_;
  const auto details = foreign_ == nullptr ? nullptr : std::make_shared<ForeignDetails>(*foreign_);
  if (details != nullptr) {
    details->stored_paths.resize(array_count());
  }
  for (const auto& [name, entry] : entries) {
    if (entry.is_alias) {
      own->alias_ends.push_back(append(own->aliases, name));
      own->alias_ends.push_back(static_cast<std::uint32_t>(entry.value));
      continue;
    }
    own->name_ends.push_back(append(own->names, name));
    own->kinds.push_back(static_cast<std::uint8_t>(entry.kind));
    own->values.push_back(entry.value);
    if (details != nullptr && (entry.kind == EntryKind::array || entry.kind == EntryKind::unread)) {
      details->stored_paths.at(static_cast<std::size_t>(entry.value)) = entry.name;
    }
  }
  Index index = *this;
  index.names_ = own->names;
  index.name_ends_ = own->name_ends;
  index.kinds_ = own->kinds;
  index.values_ = own->values;
  index.aliases_ = own->aliases;
  index.alias_ends_ = own->alias_ends;
  index.foreign_ = details;
  index.alias_places_ = nullptr;
  index.owner_ = own;
  index.place_aliases();
  return index;
}

std::string stored_path(const Index& index, const IndexArray& array) {
  const ForeignDetails* details = index.foreign();
  return details == nullptr || details->stored_paths.empty()
             ? std::string(array.name)
             : details->stored_paths[static_cast<std::size_t>(array.number)];
}

}  // namespace cairn::formats
