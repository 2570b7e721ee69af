// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/index_merge.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/base/error.hpp"

namespace cairn::formats {
namespace {

/// Goes through the entries of all indexes in the order of their names.
class IndexMerge {
 public:
  explicit IndexMerge(std::span<const Index> indexes) : indexes_(indexes), files_(indexes.size()) {}

  IndexBytes run() {
    for (std::size_t i = 0; i < indexes_.size(); ++i) {
      push(i, 0);
      for (std::size_t policy = 0; policy < indexes_[i].policy_count(); ++policy) {
        builder_.add_policy(indexes_[i].policy(policy));  // Also of ranks that write nothing.
      }
      first_names_.push_back(indexes_[i].alias_count() > 0 ? indexes_[i].first_names()
                                                           : std::vector<std::string_view>());
    }
    std::vector<Place> same;
    while (!next_.empty()) {
      same.clear();
      const std::string_view name = next_.top().entry.name;
      while (!next_.empty() && next_.top().entry.name == name) {
        same.push_back(next_.top());
        next_.pop();
      }
      add(same);
      for (const Place& place : same) {
        push(place.index, place.number + 1);
      }
    }
    return builder_.finish();
  }

 private:
  struct Place {
    IndexEntry entry;
    std::size_t index = 0;
    std::size_t number = 0;

    /// Of one name, the first index comes first.
    [[nodiscard]] bool operator>(const Place& other) const noexcept {
      const int order = entry.name.compare(other.entry.name);
      return order != 0 ? order > 0 : index > other.index;
    }
  };

  /// A slice, and where in its array it begins.
  struct Part {
    IndexSlice slice;
    std::size_t index = 0;
  };

  void push(std::size_t index, std::size_t number) {
    if (number < indexes_[index].size()) {
      next_.push({indexes_[index].entry(number), index, number});
    }
  }

  void add(const std::vector<Place>& same) {
    const IndexEntry& entry = same[0].entry;
    const Index& index = indexes_[same[0].index];
    for (const Place& place : same) {
      if ((place.entry.kind == EntryKind::array) != (entry.kind == EntryKind::array)) {
        refuse(Errc::type_mismatch, place,
               fmt::format("is of kind {}, of another rank of kind {}", formats::name(place.entry.kind),
                           formats::name(entry.kind)));
      }
      if (place.entry.is_alias != entry.is_alias || alias_of(place) != alias_of(same[0])) {
        refuse(Errc::type_mismatch, place,
               fmt::format("is {}, of another rank {}", role_of(place), role_of(same[0])));
      }
    }
    if (entry.is_alias) {
      return builder_.add_alias(entry.name, alias_of(same[0]));
    }
    if (entry.kind == EntryKind::array) {
      return add_array(same);
    }
    copy_value(builder_, index, entry);
  }

  /// The first name of the array that an entry is an alias of; empty for all others.
  [[nodiscard]] std::string_view alias_of(const Place& place) const {
    const IndexEntry& entry = place.entry;
    return entry.is_alias ? first_names_[place.index][static_cast<std::size_t>(entry.value)]
                          : std::string_view();
  }

  [[nodiscard]] std::string role_of(const Place& place) const {
    return place.entry.is_alias ? fmt::format("an alias of {}", shown(alias_of(place)))
                                : fmt::format("of kind {}", formats::name(place.entry.kind));
  }

  [[noreturn]] void refuse(Errc code, const Place& other, const std::string& why) const {
    throw Error(code, fmt::format("{}: {}: {}", indexes_[other.index].path(), shown(other.entry.name), why));
  }

  void add_array(const std::vector<Place>& same) {
    const IndexArray first = indexes_[same[0].index].array(same[0].entry);
    builder_.add_array(first.name, first.dtype, first.dims);
    std::vector<Part> parts;
    std::string_view layout;
    for (const Place& place : same) {
      const Index& index = indexes_[place.index];
      const IndexArray array = index.array(place.entry);
      if (array.dtype != first.dtype) {
        refuse(Errc::dtype_mismatch, place,
               fmt::format("is of {}, of another rank of {}", array.dtype, first.dtype));
      }
      if (!std::equal(array.dims.begin(), array.dims.end(), first.dims.begin(), first.dims.end())) {
        refuse(Errc::shape_mismatch, place,
               fmt::format("has shape {}, of another rank {}", Shape(array.dims), Shape(first.dims)));
      }
      for (std::uint32_t i = 0; i < array.slice_count; ++i) {
        parts.push_back({index.slice(array, i), place.index});
      }
      layout = layout.empty() ? index.layout(place.entry) : layout;
    }
    add_parts(parts);
    if (!layout.empty()) {
      builder_.set_layout(number_of(layout));
    }
  }

  void add_parts(std::vector<Part>& parts) {
    const auto is_before = [](const Part& a, const Part& b) {
      return std::lexicographical_compare(a.slice.offsets.begin(), a.slice.offsets.end(),
                                          b.slice.offsets.begin(), b.slice.offsets.end());
    };
    if (!std::is_sorted(parts.begin(), parts.end(), is_before)) {
      std::stable_sort(parts.begin(), parts.end(), is_before);
    }
    for (const Part& part : parts) {
      const std::uint32_t file = file_of(part);
      if (part.slice.is_whole) {
        builder_.add_whole(file, part.slice.offset);
      } else {
        builder_.add_slice(file, part.slice.offset, part.slice.offsets, part.slice.extents);
      }
    }
  }

  /// The number of a slice's file. Mostly the last one of its index is meant again.
  std::uint32_t file_of(const Part& part) {
    auto& [name, number] = files_[part.index];
    if (name != part.slice.file || name.empty()) {
      name = part.slice.file;
      const auto known = file_numbers_.find(name);
      number = known != file_numbers_.end() ? known->second : add_file(part);
    }
    return number;
  }

  std::uint32_t add_file(const Part& part) {
    const std::string_view policy = indexes_[part.index].policy_of_file(part.slice.file_number);
    const std::uint32_t number = builder_.add_file(part.slice.file, builder_.add_policy(policy));
    file_numbers_.emplace(std::string(part.slice.file), number);
    return number;
  }

  std::uint32_t number_of(std::string_view layout) {
    const auto known = layouts_.find(layout);
    return known != layouts_.end()
               ? known->second
               : layouts_.emplace(std::string(layout), builder_.add_layout(layout)).first->second;
  }

  std::span<const Index> indexes_;
  std::vector<std::vector<std::string_view>> first_names_;  // Of the arrays of each index that has aliases.
  std::vector<std::pair<std::string_view, std::uint32_t>> files_;  // The last one of each index.
  std::map<std::string, std::uint32_t, std::less<>> file_numbers_;
  std::map<std::string, std::uint32_t, std::less<>> layouts_;
  std::priority_queue<Place, std::vector<Place>, std::greater<>> next_;
  IndexBuilder builder_;
};

}  // namespace

void copy_value(IndexBuilder& to, const Index& from, const IndexEntry& entry) {
  switch (entry.kind) {
    case EntryKind::array:
    case EntryKind::unread:
      throw Error(Errc::invalid_argument, fmt::format("{}: {} is an array", from.path(), shown(entry.name)));
    case EntryKind::integer:
      return to.add_integer(entry.name, entry.as_integer());
    case EntryKind::unsigned_integer:
      return to.add_unsigned(entry.name, entry.as_unsigned());
    case EntryKind::floating:
      return to.add_double(entry.name, entry.as_double());
    case EntryKind::boolean:
      return to.add_bool(entry.name, entry.as_bool());
    case EntryKind::string:
      return to.add_string(entry.name, from.string(entry));
    case EntryKind::bytes:
      return to.add_bytes(entry.name, from.bytes(entry));
    case EntryKind::null:
      return to.add_null(entry.name);
    case EntryKind::empty_map:
      return to.add_empty_map(entry.name);
    case EntryKind::list:
      return to.add_list(entry.name, entry.list_size());
  }
}

IndexBytes merge_indexes(std::span<const Index> indexes) {
  return IndexMerge(indexes).run();
}

}  // namespace cairn::formats
