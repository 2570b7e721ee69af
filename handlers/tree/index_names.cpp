// SPDX-License-Identifier: Apache-2.0
#include "index_names.hpp"

#include <iterator>
#include <string>

namespace cairn::detail {
namespace {

using formats::EntryKind;

/// The first entry whose name is not less than `name`.
std::size_t lower_bound(const formats::Index& index, std::string_view name) {
  std::size_t begin = 0;
  std::size_t end = index.size();
  while (begin < end) {
    const std::size_t middle = begin + (end - begin) / 2;
    if (index.entry(middle).name < name) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

}  // namespace

TreeKind kind_of(EntryKind kind) noexcept {
  static constexpr TreeKind kKinds[] = {
      TreeKind::null,     TreeKind::array,   TreeKind::integer, TreeKind::integer,
      TreeKind::floating, TreeKind::boolean, TreeKind::string,  TreeKind::bytes,
      TreeKind::null,     TreeKind::map,     TreeKind::list};  // By the numbers of EntryKind, which are stored.
  const auto number = static_cast<std::size_t>(kind);
  return number < std::size(kKinds) ? kKinds[number] : TreeKind::null;
}

Tree scalar_of(const formats::Index& index, const formats::IndexEntry& entry) {
  switch (entry.kind) {
    case EntryKind::integer:
      return entry.as_integer();
    case EntryKind::unsigned_integer:
      return entry.as_unsigned();
    case EntryKind::floating:
      return entry.as_double();
    case EntryKind::boolean:
      return entry.as_bool();
    case EntryKind::string:
      return index.string(entry);
    case EntryKind::empty_map:
      return Tree::map();
    case EntryKind::bytes: {
      const auto bytes = index.bytes(entry);
      return Bytes(bytes.begin(), bytes.end());
    }
    default:
      return nullptr;
  }
}

std::pair<std::size_t, std::size_t> entries_below(const formats::Index& index, std::string_view path) {
  if (path.empty()) {
    return {0, index.size()};
  }
  // Names below "a" begin with "a/", and '0' is what follows '/'.
  const std::string begin = std::string(path) + '/';
  const std::string end = std::string(path) + '0';
  return {lower_bound(index, begin), lower_bound(index, end)};
}

}  // namespace cairn::detail
