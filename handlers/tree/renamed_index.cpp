// SPDX-License-Identifier: Apache-2.0
#include "renamed_index.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "containers.hpp"
#include "formats/internal/foreign_index.hpp"

namespace cairn::detail {
namespace {

using formats::EntryKind;
using formats::IndexEntry;

/// What is known of the keys below a path.
struct Children {
  std::string_view last;
  std::size_t count = 0;
  bool are_positions = true;  ///< Each is the number of an element of a list as long as there are keys.
  std::size_t highest = 0;
};

/// Collects the entries of an index under other names, and finds out which containers are lists then.
class RenamedEntries {
 public:
  RenamedEntries(const formats::Index& index, const TreeLoadOptions& options)
      : index_(index), is_divided_(!options.separator.empty()), renames_(options.rename, options.separator) {}

  [[nodiscard]] formats::Index run(std::vector<std::string>& unused) {
    std::vector<std::string> paths;
    std::vector<IndexEntry> leaves;
    std::vector<std::string_view> lists;
    for (std::size_t i = 0; i < index_.size(); ++i) {
      const IndexEntry entry = index_.entry(i);
      if (entry.kind == EntryKind::list && entry.list_size() > 0) {
        lists.push_back(entry.name);
      } else {
        paths.emplace_back(entry.name);
        leaves.push_back(entry);
      }
    }
    const std::vector<std::string> names = renames_.apply(paths);
    unused = renames_.unused();
    for (std::size_t i = 0; i < names.size(); ++i) {
      entries_.push_back({names[i], leaves[i]});
      note_lists(lists, paths[i], names[i]);
    }
    std::sort(entries_.begin(), entries_.end(), by_name);
    add_lists();
    return with_left_out(index_.with_entries(entries_));
  }

 private:
  static bool by_name(const formats::RenamedEntry& a, const formats::RenamedEntry& b) {
    return a.name < b.name;
  }

  /// A list stays one where what lies below it is called there as before. `lists` are sorted, and so are the paths with
  /// which this is called.
  void note_lists(const std::vector<std::string_view>& lists, std::string_view path, std::string_view name) {
    for (std::size_t slash = 0; !lists.empty() && slash != std::string_view::npos;
         slash = path.find('/', slash + 1)) {
      const std::string_view below = path.substr(slash == 0 ? 0 : slash + 1);
      if (std::binary_search(lists.begin(), lists.end(), path.substr(0, slash)) && name.ends_with(below) &&
          (name.size() == below.size() || name[name.size() - below.size() - 1] == '/')) {
        lists_.emplace(name.substr(0, name.size() - std::min(name.size(), below.size() + 1)));
      }
    }
  }

  void add_lists() {
    std::unordered_map<std::string_view, Children> containers;
    for (const auto& [name, entry] : entries_) {
      const std::string_view path = name;
      for (std::size_t begin = 0; begin <= path.size() && !path.empty();) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        Children& children = containers[path.substr(0, begin == 0 ? 0 : begin - 1)];
        const std::string_view key = path.substr(begin, end - begin);
        if (children.count == 0 || children.last != key) {  // Names below one key lie side by side.
          children.last = key;
          ++children.count;
          const std::size_t position = TreeAccess::parse_position(key, entries_.size());
          children.are_positions = children.are_positions && position != TreeAccess::kNoPosition;
          children.highest = std::max(children.highest, position);
        }
        begin = end + 1;
      }
    }
    std::vector<formats::RenamedEntry> lists;
    for (const auto& [path, children] : containers) {
      const bool is_list = children.are_positions && children.highest + 1 == children.count;
      if (is_list && (is_divided_ || lists_.contains(path))) {
        lists.push_back({std::string(path), IndexEntry{{}, EntryKind::list, children.count}});
      }
    }
    entries_.insert(entries_.end(), std::make_move_iterator(lists.begin()),
                    std::make_move_iterator(lists.end()));
    std::sort(entries_.begin(), entries_.end(), by_name);
  }

  /// What has no place in a tree is renamed, too, for messages.
  [[nodiscard]] formats::Index with_left_out(formats::Index index) {
    if (index.foreign() == nullptr || index.foreign()->left_out.empty()) {
      return index;
    }
    auto details = std::make_shared<formats::ForeignDetails>(*index.foreign());
    for (formats::LeftOut& one : details->left_out) {
      one.path = renames_.apply(std::span(&one.path, 1)).front();
    }
    return index.with_foreign(std::move(details));
  }

  const formats::Index& index_;
  const bool is_divided_;
  Renames::Use renames_;
  std::vector<formats::RenamedEntry> entries_;
  std::set<std::string, std::less<>> lists_;
};

}  // namespace

formats::Index renamed_index(formats::Index index, const TreeLoadOptions& options,
                             std::vector<std::string>& unused) {
  return options.rename.empty() && options.separator.empty() ? std::move(index)
                                                             : RenamedEntries(index, options).run(unused);
}

}  // namespace cairn::detail
