// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/renames.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"
#include "cairn/formats/foreign_catalogue.hpp"

#include "containers.hpp"
#include "formats/internal/foreign_index.hpp"
#include "formats/internal/index.hpp"
#include "handlers/internal/path_pattern.hpp"
#include "selection.hpp"

namespace cairn {
namespace {

using detail::PathPattern;
using formats::shown;

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Errc::invalid_argument, why);
}

/// A path whose keys are divided where they have the separator.
std::string divided(std::string_view path, std::string_view separator) {
  std::string made;
  for (const std::string& key : formats::split_path(path)) {
    std::size_t begin = 0;
    for (std::size_t end = 0; end != std::string::npos; begin = end + separator.size()) {
      end = separator.empty() ? std::string::npos : key.find(separator, begin);
      formats::append_key(made,
                          std::string_view(key).substr(begin, end == std::string::npos ? end : end - begin));
    }
  }
  return made;
}

/// A rename whose patterns have been read.
struct ReadRename {
  PathPattern from;
  PathPattern to;
  std::string words;  ///< "'a=b'".
  bool is_used = false;
  std::size_t likeness = 0;  ///< Of the path that is most like it, until one matches.
  std::string nearest = {};  ///< Empty where none is like it.
};

}  // namespace

struct Renames::Use::State {
  State(const Renames& renames, std::string keys_separator)
      : function(renames.function_), separator(std::move(keys_separator)) {
    if (separator.find('*') != std::string::npos) {
      refuse(fmt::format("the separator '{}' has a '*', which is a wildcard of patterns", separator));
    }
    for (const Rename& rename : renames.patterns_) {
      ReadRename made{read(rename.pattern), read(rename.becomes),
                      fmt::format("'{}={}'", rename.pattern, rename.becomes)};
      if (!made.from.can_become(made.to)) {
        refuse(fmt::format("the rename {} becomes what has more wildcards than its pattern", made.words));
      }
      patterns.push_back(std::move(made));
    }
  }

  [[nodiscard]] PathPattern read(std::string text) const {
    std::size_t at = 0;
    while (!separator.empty() && (at = text.find(separator, at)) != std::string::npos) {
      text.replace(at++, separator.size(), "/");
    }
    return PathPattern(std::move(text), "a rename", detail::KeyJoiners::slash_or_point);
  }

  /// What the first pattern makes of a path that it matches; nothing where none does.
  std::optional<std::string> renamed(std::string_view path, bool is_stored) {
    for (ReadRename& rename : patterns) {
      if (std::optional<std::string> made = rename.from.replaced(path, rename.to)) {
        rename.is_used = rename.is_used || is_stored;
        return made;
      }
      const bool may_be_meant = is_stored && !rename.is_used;
      const std::size_t alike = may_be_meant ? detail::likeness(rename.from.text(), path) : 0;
      if (alike > rename.likeness) {
        rename.likeness = alike;
        rename.nearest = path;
      }
    }
    return std::nullopt;
  }

  /// Refuses patterns by which what became of a path would become that path again.
  void check_cycle(const std::string& path, const std::string& made) {
    std::optional<std::string> next = made;
    for (std::size_t i = 0; next && made != path && i < patterns.size(); ++i) {
      next = renamed(*next, false);
      if (next == path) {
        refuse(fmt::format(
            "the renames make {} of {}, and {} again of that: a path is renamed once; names are exchanged "
            "by a function of the path",
            shown(made), shown(path), shown(path)));
      }
    }
  }

  Function function;
  std::string separator;
  std::vector<ReadRename> patterns;
};

Renames::Use::Use(const Renames& renames, std::string separator)
    : state_(std::make_shared<State>(renames, std::move(separator))) {}

std::vector<std::string> Renames::Use::apply(std::span<const std::string> paths) {
  std::vector<std::string> made;
  made.reserve(paths.size());  // What is known refers to its elements.
  std::unordered_map<std::string_view, std::size_t> known;
  for (const std::string& path : paths) {
    const std::string from = state_->separator.empty() ? path : divided(path, state_->separator);
    made.push_back(state_->function ? state_->function(from) : state_->renamed(from, true).value_or(from));
    if (!formats::is_entry_path(made.back())) {
      refuse(fmt::format("the renames make '{}' of {}, which is not a path", made.back(), shown(from)));
    }
    state_->check_cycle(from, made.back());
    const auto [other, is_new] = known.emplace(made.back(), made.size() - 1);
    if (!is_new) {
      refuse(fmt::format("{} and {} would both become {}", shown(paths[other->second]), shown(path),
                         shown(made.back())));
    }
  }
  return made;
}

std::vector<std::string> Renames::Use::unused() const {
  std::vector<std::string> sentences;
  for (const ReadRename& rename : state_->patterns) {
    if (!rename.is_used) {
      sentences.push_back(fmt::format("the rename {} matches no path that is stored", rename.words));
      sentences.back() += rename.nearest.empty() ? "" : fmt::format("; the nearest: '{}'", rename.nearest);
    }
  }
  return sentences;
}

void Renames::Use::require_used() const {
  if (const std::vector<std::string> sentences = unused(); !sentences.empty()) {
    refuse(fmt::format("{}", fmt::join(sentences, "; ")));
  }
}

namespace detail {
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

}  // namespace detail
}  // namespace cairn
