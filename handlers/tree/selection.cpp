// SPDX-License-Identifier: Apache-2.0
#include "selection.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/foreign_catalogue.hpp"
#include "cairn/handlers/each_rank.hpp"

#include "containers.hpp"
#include "formats/internal/foreign_index.hpp"
#include "index_names.hpp"
#include "numbers.hpp"

namespace cairn::detail {
namespace {

using formats::EntryKind;
using formats::Index;
using formats::IndexEntry;

struct WantedLeaf {
  std::string_view path;
  const AbstractTree* node = nullptr;
};

bool by_path(const WantedLeaf& a, const WantedLeaf& b) {
  return a.path < b.path;
}

/// Returns the leaves of a tree in the order of their paths, which `paths` keeps.
std::vector<WantedLeaf> sorted_leaves(const AbstractTree& wanted, std::deque<std::string>& paths) {
  std::vector<WantedLeaf> leaves;
  std::string path;
  const auto add = [&](std::string_view leaf_path, const AbstractTree& node) {
    if (node.target() != nullptr) {
      throw Error(Errc::invalid_argument,
                  fmt::format("{}: an object to load into stands for a whole tree, not for a part of one",
                              shown(leaf_path)));
    }
    leaves.push_back({paths.emplace_back(leaf_path), &node});
  };
  TreeAccess::visit(wanted, path, 0, add);
  std::sort(leaves.begin(), leaves.end(), by_path);
  return leaves;
}

/// Paths that are to be listed in one error, of which there may be a hundred thousand.
class PathList {
 public:
  void add(std::string_view path) {
    constexpr std::size_t kMostShown = 20;
    if (++count_ <= kMostShown) {
      text_ += (count_ == 1 ? "" : ", ") + shown(path);
    }
    hidden_ = count_ > kMostShown ? count_ - kMostShown : 0;
  }

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::string describe(std::string_view what) const {
    const std::string more = hidden_ > 0 ? fmt::format(" and {} more", hidden_) : "";
    return fmt::format("{} {}: {}{}", count_, what, text_, more);
  }

 private:
  std::size_t count_ = 0;
  std::size_t hidden_ = 0;
  std::string text_;
};

/// Paths of nodes that stand for all that is stored below them.
class Stands {
 public:
  /// Shape: paths come sorted. They must outlive this.
  void add(std::string_view path) { paths_.push_back(path); }

  /// Returns whether one of them is that path, or a container that it lies in.
  [[nodiscard]] bool cover(std::string_view path) const { return has(path) || hold(path); }

  /// Returns whether one of them is a container that `path` lies in.
  [[nodiscard]] bool hold(std::string_view path) const {
    if (paths_.empty()) {
      return false;
    }
    for (std::size_t slash = path.find('/'); slash != std::string_view::npos;
         slash = path.find('/', slash + 1)) {
      if (has(path.substr(0, slash))) {
        return true;
      }
    }
    return has("");
  }

 private:
  [[nodiscard]] bool has(std::string_view path) const {
    return std::binary_search(paths_.begin(), paths_.end(), path);
  }

  std::vector<std::string_view> paths_;
};

[[noreturn]] void refuse_left_out(const Index& index, std::string_view path, std::string_view why,
                                  std::size_t count, bool is_named) {
  const std::string more = count > 1 ? fmt::format(", and so has {} more", count - 1) : "";
  throw Error(Errc::structure_mismatch,
              fmt::format("{}: {}: {} has no place in a tree{}; {}", index.path(), shown(path), why, more,
                          is_named ? "it cannot be loaded: ask for others, and not for it by its name"
                                   : "set TreeLoadOptions::leave_out, or ask for others by their names"));
}

/// Throws unless some stored leaf is none that differences leave out.
void require_taken(const std::vector<std::string>& leaves, const MemberDifferences& differences,
                   std::string_view source) {
  std::vector<std::string_view> left_out(differences.unexpected.begin(), differences.unexpected.end());
  std::sort(left_out.begin(), left_out.end());
  Stands stands;
  std::for_each(left_out.begin(), left_out.end(), [&stands](std::string_view path) { stands.add(path); });
  if (!std::all_of(leaves.begin(), leaves.end(),
                   [&stands](const auto& leaf) { return stands.cover(leaf); })) {
    return;
  }
  PathList missing;
  PathList unexpected;
  std::for_each(differences.missing.begin(), differences.missing.end(),
                [&](const auto& path) { missing.add(path); });
  std::for_each(left_out.begin(), left_out.end(), [&](std::string_view path) { unexpected.add(path); });
  throw Error(
      Errc::structure_mismatch,
      fmt::format(
          "{}nothing that is stored fits, though members may differ: {}; {}; for names that differ set "
          "TreeLoadOptions::rename",
          source, missing.describe("wanted but not stored"), unexpected.describe("stored but not wanted")));
}

class Selector {
 public:
  /// Leaves come sorted; their paths must outlive this.
  Selector(const Index& index, std::vector<WantedLeaf> wanted, const TreeLoadOptions& options)
      : index_(index),
        options_(options),
        wanted_(std::move(wanted)),
        elsewhere_(names_elsewhere(index, options.aliases)) {
    for (const WantedLeaf& leaf : wanted_) {
      if (const auto other = elsewhere_.find(leaf.path); other != elsewhere_.end()) {
        taken_.insert(other->second);
      }
      if (leaf.node->is_placeholder()) {
        placeholders_.add(leaf.path);
      } else if (leaf.node->is_as_saved()) {
        as_saved_.add(leaf.path);
      }
    }
  }

  /// Walks stored and wanted paths, both sorted, side by side.
  Selection run() {
    check_wanted_places();
    auto leaf = wanted_.begin();
    for (std::size_t i = 0; i < index_.size(); ++i) {
      const IndexEntry entry = index_.entry(i);
      for (; leaf != wanted_.end() && leaf->path < entry.name; ++leaf) {
        add_unmatched(*leaf);
      }
      if (leaf != wanted_.end() && leaf->path == entry.name) {
        add_matched(entry, *leaf->node);
        ++leaf;
      } else if (as_saved_.hold(entry.name)) {
        note_wanted(entry);
        selected_.entries.push_back({entry, nullptr});
      } else if (placeholders_.hold(entry.name) || taken_.contains(entry.name)) {
        note_wanted(entry);
      } else if (!options_.partial) {
        add_unexpected(entry);
      }
    }
    for (; leaf != wanted_.end(); ++leaf) {
      add_unmatched(*leaf);
    }
    for (const IndexEntry& entry : unwanted_names_) {
      if (!wanted_arrays_.contains(entry.value)) {
        unexpected_.add(entry.name);
      }
    }
    refuse_differences();
    return std::move(selected_);
  }

 private:
  /// Refuses to load what has no place in a tree where it is wanted, by its name or with all that is there.
  void check_wanted_places() const {
    if (index_.foreign() == nullptr) {
      return;
    }
    for (const formats::LeftOut& one : index_.foreign()->left_out) {
      const auto leaf =
          std::lower_bound(wanted_.begin(), wanted_.end(), one.path,
                           [](const WantedLeaf& a, std::string_view path) { return a.path < path; });
      const bool is_named = leaf != wanted_.end() && leaf->path == one.path && !leaf->node->is_placeholder();
      if (is_named || (as_saved_.hold(one.path) && !options_.leave_out)) {
        refuse_left_out(index_, one.path, one.why, 1, is_named);
      }
    }
  }

  /// Returns whether this is a tree to which nothing was added: who wants nothing of a map says so.
  static bool has_no_keys_yet(std::string_view path, const AbstractTree& node) {
    return path.empty() && node.kind() == TreeKind::null;
  }

  void note_wanted(const IndexEntry& entry) {
    if (entry.kind == EntryKind::array && index_.alias_count() > 0) {
      wanted_arrays_.insert(entry.value);
    }
  }

  /// An array with several names is asked for when one of them is.
  void add_unexpected(const IndexEntry& entry) {
    if (entry.kind == EntryKind::array && index_.alias_count() > 0) {
      unwanted_names_.push_back(entry);
    } else {
      unexpected_.add(entry.name);
    }
  }

  /// Something is wanted under a path that no entry has.
  void add_unmatched(const WantedLeaf& leaf) {
    if (const auto other = elsewhere_.find(leaf.path); other != elsewhere_.end()) {
      IndexEntry entry = index_.entry(*index_.find(other->second));
      entry.name = selected_.paths.emplace_back(leaf.path);  // The leaves do not outlive this.
      return add_matched(entry, *leaf.node);
    }
    const auto [begin, end] = entries_below(index_, leaf.path);
    const bool has_below = begin != end;
    if (has_below && (leaf.node->is_placeholder() || leaf.node->is_as_saved())) {
      return;
    }
    if (has_below && (leaf.node->kind() == TreeKind::map || has_no_keys_yet(leaf.path, *leaf.node))) {
      // An empty map is wanted where one with keys is stored: unless that is fine, each key is listed as unexpected.
      const std::string& path = selected_.paths.emplace_back(leaf.path);
      selected_.entries.push_back({IndexEntry{path, EntryKind::empty_map, 0}, leaf.node});
      return;
    }
    missing_.add(leaf.path);
  }

  void add_matched(const IndexEntry& entry, const AbstractTree& node) {
    note_wanted(entry);
    if (node.is_placeholder()) {
      return;
    }
    if (node.is_as_saved()) {
      selected_.entries.push_back({entry, nullptr, false, true});
      return;
    }
    if (entry.kind == EntryKind::unread) {
      throw Error(Errc::type_mismatch,
                  fmt::format("{}: {}: what it is is not known before it is read: ask for it `as_saved`",
                              index_.path(), shown(entry.name)));
    }
    const TreeKind stored = kind_of(entry.kind);
    const bool is_map = stored == TreeKind::map && has_no_keys_yet(entry.name, node);
    const TreeKind kind = is_map ? TreeKind::map : node.kind();
    const bool is_sharded = stored == TreeKind::array && kind == TreeKind::sharded_array;
    if (stored != kind && are_numbers(stored, kind)) {
      check_number(entry, node);
    } else if (stored != kind && !is_sharded) {
      throw Error(Errc::type_mismatch,
                  fmt::format("{}: {}: stored is a node of kind {}, wanted one of kind {}", index_.path(),
                              shown(entry.name), name(stored), name(kind)));
    }
    if (stored == TreeKind::array) {
      const Shape shape(index_.array(entry).dims);
      const Shape& wanted = is_sharded ? node.as_sharded_array().shape : node.as_array().shape;
      const ShapeMismatch own =
          is_sharded ? node.as_sharded_array().on_mismatch : node.as_array().on_mismatch;
      const bool may_differ =
          own == ShapeMismatch::pad_and_crop || options_.on_mismatch == ShapeMismatch::pad_and_crop;
      if (shape != wanted && !(may_differ && shape.size() == wanted.size())) {
        if (is_sharded) {
          check_ranks(entry, shape, node.as_sharded_array());
        }
        throw Error(Errc::shape_mismatch, fmt::format("{}: {}: stored shape {}, wanted {}", index_.path(),
                                                      shown(entry.name), shape, wanted));
      }
    }
    selected_.entries.push_back({entry, &node});
  }

  /// Refuses the values of each rank (of_each_rank) of a job that has as many ranks as others have saved it.
  void check_ranks(const IndexEntry& entry, const Shape& stored, const AbstractShardedArray& wanted) const {
    const std::uint64_t ranks = wanted.layout != nullptr ? wanted.layout->ranks() : 0;
    if (ranks == 0 || stored.empty() || wanted.shape.empty() || wanted.shape[0] != ranks ||
        stored[0] == ranks || wanted.layout->hash() != layout_of_each_rank(wanted.layout->ranks())->hash()) {
      return;
    }
    throw Error(
        Errc::shape_mismatch,
        fmt::format(
            "{}: {}: each rank's own value, saved by {} rank{}, loaded by {}: ask for that of one with "
            "of_rank (cairn/handlers/each_rank.hpp), or for all as they are stored",
            index_.path(), shown(entry.name), stored[0], stored[0] == 1 ? "" : "s", ranks));
  }

  /// Refuses a cast before anything is read; the tree is made later.
  void check_number(const IndexEntry& entry, const AbstractTree& node) const {
    const Narrowing narrowing = options_.allow_narrowing ? Narrowing::allowed : node.narrowing();
    try {
      static_cast<void>(cast_number(scalar_of(index_, entry), node.kind(), entry.name, narrowing));
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}: {}", index_.path(), error.detail()));
    }
  }

  void refuse_differences() const {
    if (missing_.empty() && unexpected_.empty()) {
      return;
    }
    std::string text = index_.path() + ": ";
    if (!missing_.empty()) {
      text += missing_.describe("wanted but not stored");
    }
    if (!unexpected_.empty()) {
      text += (missing_.empty() ? "" : "; ") + unexpected_.describe("stored but not wanted");
    }
    throw Error(Errc::structure_mismatch, text);
  }

  const Index& index_;
  const TreeLoadOptions& options_;
  std::vector<WantedLeaf> wanted_;
  const std::map<std::string, std::string, std::less<>> elsewhere_;
  std::set<std::string_view> taken_;       // Names of entries that are asked for by other names.
  std::set<std::uint64_t> wanted_arrays_;  // By number; where arrays have several names.
  std::vector<IndexEntry> unwanted_names_;
  Stands placeholders_;
  Stands as_saved_;
  Selection selected_;
  PathList missing_;
  PathList unexpected_;
};

}  // namespace

std::map<std::string, std::string, std::less<>> names_elsewhere(
    const Index& index, const std::map<std::string, std::string>& aliases) {
  std::map<std::string, std::vector<std::string>, std::less<>>
      names;  // Each with those that were said to be of the same array.
  for (const auto& [one, other] : aliases) {
    const std::string path = entry_path(one);
    const std::string other_path = entry_path(other);
    names[path].push_back(other_path);
    names[other_path].push_back(path);
  }
  // From the names that are stored to their neighbours, and on: there may be thousands.
  std::map<std::string, std::string, std::less<>> nearest;
  std::vector<std::string> found;
  for (const auto& [name, unused] : names) {
    if (index.find(name)) {
      nearest.emplace(name, name);
      found.push_back(name);
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string stored = nearest.at(found[i]);
    for (const std::string& name : names.at(found[i])) {
      if (nearest.emplace(name, stored).second) {
        found.push_back(name);
      }
    }
  }
  std::erase_if(nearest, [](const auto& name) { return name.first == name.second; });
  return nearest;
}

void require_some_taken(const Index& stored, const MemberDifferences& differences) {
  if (differences.missing.empty() || differences.unexpected.empty()) {
    return;
  }
  std::vector<std::string> leaves;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const IndexEntry entry = stored.entry(i);
    if (entry.kind != EntryKind::list || entry.list_size() == 0) {
      leaves.emplace_back(entry.name);
    }
  }
  require_taken(leaves, differences, stored.path() + ": ");
}

void require_some_taken(const Tree& stored, const MemberDifferences& differences) {
  if (differences.missing.empty() || differences.unexpected.empty()) {
    return;
  }
  std::vector<std::string> leaves;
  visit_leaves(stored, [&leaves](std::string_view path, const Tree& leaf) {
    if (!leaf.is_list() || leaf.size() == 0) {
      leaves.emplace_back(path);
    }
  });
  require_taken(leaves, differences, "");
}

std::vector<std::string> wanted_paths(const AbstractTree& wanted) {
  std::vector<std::string> paths;
  std::string path;
  const auto add = [&paths](std::string_view leaf, const AbstractTree& /*node*/) {
    paths.emplace_back(leaf);
  };
  TreeAccess::visit(wanted, path, 0, add);
  return paths;
}

void check_left_out(const Index& index, std::string_view path, const TreeLoadOptions& options,
                    bool is_named) {
  const bool may_lack = !is_named && (options.leave_out || options.partial);
  if (index.foreign() == nullptr || index.foreign()->left_out.empty() || may_lack) {
    return;
  }
  const std::vector<formats::LeftOut>& left_out = index.foreign()->left_out;
  const std::string& first = left_out.front().path;
  refuse_left_out(index, fmt::format("{}{}{}", path, path.empty() || first.empty() ? "" : "/", first),
                  left_out.front().why, left_out.size(), is_named);
}

Selection select_all(const Index& index, const TreeLoadOptions& options) {
  check_left_out(index, {}, options);
  Selection selection;
  selection.entries.resize(index.size());
  for (std::size_t i = 0; i < index.size(); ++i) {
    selection.entries[i].entry = index.entry(i);
  }
  return selection;
}

Selection select(const Index& index, const AbstractTree& wanted, const TreeLoadOptions& options) {
  std::deque<std::string> paths;
  std::vector<WantedLeaf> leaves = sorted_leaves(wanted, paths);
  return Selector(index, std::move(leaves), options).run();
}

Selection select_parts(const Index& index, const std::vector<WantedPart>& parts, TreeLoadOptions options) {
  std::vector<WantedLeaf> leaves;
  leaves.reserve(parts.size());
  for (const WantedPart& part : parts) {
    leaves.push_back({part.path, &part.form});
  }
  std::sort(leaves.begin(), leaves.end(), by_path);
  options.partial = true;
  Selection selection = Selector(index, std::move(leaves), options).run();
  for (Selected& one : selection.entries) {
    one.is_placed = one.wanted != nullptr;
  }
  return selection;
}

}  // namespace cairn::detail
