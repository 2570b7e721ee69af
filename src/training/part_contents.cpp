// SPDX-License-Identifier: Apache-2.0
#include "training/part_contents.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "array_store/internal/reader.hpp"
#include "handlers/internal/packed_tree.hpp"

namespace cairn::training {
namespace {

constexpr std::size_t kBraces = 2;

/// With the comma that may follow.
std::size_t bytes_of_member(const std::string& key, const std::string& value) {
  return object_of({{key, value}}).size() - kBraces + 1;
}

std::string whose(std::string_view leaf, std::uint32_t part, std::string_view alias_of) {
  return fmt::format("{}{} of part {}", formats::shown(leaf),
                     alias_of.empty() ? "" : fmt::format(" (an alias of {})", formats::shown(alias_of)),
                     part);
}

/// Calls `visit(name, first_name)` for each leaf; the first name is that of the array that an alias stands for, else
/// empty.
template <class Visit>
void visit_leaves(const formats::Index& index, Visit visit) {
  const std::vector<std::string_view> first_names =
      index.alias_count() > 0 ? index.first_names() : std::vector<std::string_view>();
  for (std::size_t i = 0; i < index.size(); ++i) {
    const formats::IndexEntry entry = index.entry(i);
    visit(entry.name,
          entry.is_alias ? first_names[static_cast<std::size_t>(entry.value)] : std::string_view());
  }
}

/// Refuses leaves that others have, or that lie above or below one of theirs.
void require_new(const formats::Index& index, const store::CheckpointableEntry& item, std::uint32_t number,
                 const LeafNames& leaves) {
  visit_leaves(index, [&](std::string_view name, std::string_view alias_of) {
    if (const auto found = leaves.find_conflict(name, number)) {
      const std::string_view relation = found->name == name ? "is also" : "lies above or below";
      throw Error(Errc::already_exists,
                  fmt::format("'{}': {} {} {}", item.name, whose(name, number, alias_of), relation,
                              whose(found->name, found->part, found->alias_of)));
    }
  });
}

void join_at(Tree& all, const Tree& more, std::string_view name, const std::string& path) {
  if (all.is_map() && more.is_map()) {
    for (const auto& [key, child] : more.as_map()) {
      const auto [found, is_new] = all.as_map().try_emplace(key, child);
      if (!is_new) {
        std::string below = path;
        formats::append_key(below, key);
        join_at(found->second, child, name, below);
      }
    }
  } else if (all != more) {
    throw Error(Errc::already_exists,
                fmt::format("'{}': another part has another plain value {}", name, formats::shown(path)));
  }
}

}  // namespace

bool is_tree(const store::CheckpointableEntry& item) noexcept {
  return item.handler_id == TreeHandler().id() || item.handler_id == kStateDictId;
}

formats::Index open_index(const store::CommittedDirectory& part, const store::CheckpointableEntry& item) {
  const std::string file = fmt::format("{}/{}", item.directory, array_store::kIndexFile);
  const store::FileEntry* entry = part.find(file);
  if (entry == nullptr) {
    throw Error(Errc::malformed_metadata, fmt::format("{}: '{}' is a tree without {}", part.path().string(),
                                                      item.name, array_store::kIndexFile));
  }
  const auto bytes = std::make_shared<const std::string>(part.read_verified(file, entry->size_bytes));
  formats::Index index =
      formats::Index::open(bytes, std::as_bytes(std::span(*bytes)), (part.path() / file).string());
  index.validate();
  return index;
}

Tree common_state(const store::CommittedDirectory& part, const store::CheckpointableEntry& item) {
  const std::string file = fmt::format("{}/{}", item.directory, kStateDictCommonFile);
  const store::FileEntry* entry = item.handler_id == kStateDictId ? part.find(file) : nullptr;
  if (entry == nullptr) {
    return Tree::map();
  }
  const std::string text = part.read_verified(file, entry->size_bytes);
  return unpack_tree(std::as_bytes(std::span(text)), (part.path() / file).string());
}

void join_common(Tree& all, const Tree& more, const std::string& name) {
  join_at(all, more, name, {});
}

const PartContents::Item* PartContents::find(const store::CheckpointableEntry& item,
                                             std::uint32_t number) const {
  const auto found = items_.find(item.name);
  if (found == items_.end()) {
    return nullptr;
  }
  const Item& other = found->second;
  if (!is_tree(item) || other.handler_id != item.handler_id) {
    throw Error(
        Errc::already_exists,
        fmt::format("'{}' of part {} ({}) is also in part {} ({}); only trees may be in several parts",
                    item.name, number, item.handler_id, other.first_part, other.handler_id));
  }
  return &other;
}

void PartContents::Members::add(const JsonMembers& more) {
  for (const auto& [key, value] : more) {
    std::size_t& bytes = bytes_[key];
    all_bytes_ += bytes_of_member(key, value) - bytes;
    bytes = bytes_of_member(key, value);
  }
}

std::size_t PartContents::Members::size_with(const JsonMembers& more) const {
  std::size_t bytes = all_bytes_;
  for (const auto& [key, value] : more) {
    const auto same = bytes_.find(key);
    bytes += bytes_of_member(key, value) - (same == bytes_.end() ? 0 : same->second);
  }
  return bytes + kBraces;
}

void PartContents::require_room(const JsonMembers& custom_metadata, const JsonMembers& annotations) const {
  const auto require = [](std::size_t bytes, const char* what) {
    if (bytes > store::kMaxCustomMetadataBytes) {
      throw Error(Errc::invalid_argument,
                  fmt::format("the {} of all parts together: {} bytes; at most {} are allowed", what, bytes,
                              store::kMaxCustomMetadataBytes));
    }
  };
  require(custom_metadata_.size_with(custom_metadata), "custom metadata");
  require(annotations_.size_with(annotations), "annotations");
}

void PartContents::add(const store::CommittedDirectory& part, std::uint32_t number) {
  using IndexedTree = std::pair<const store::CheckpointableEntry*, formats::Index>;
  std::vector<IndexedTree> trees;
  std::map<std::string, Tree> commons;
  for (const store::CheckpointableEntry& item : part.manifest().checkpointables) {
    const Item* other = find(item, number);
    if (is_tree(item)) {
      trees.emplace_back(&item, open_index(part, item));
    }
    if (other != nullptr) {
      require_new(trees.back().second, item, number, other->leaves);
    }
    Tree& common = commons.emplace(item.name, other != nullptr ? other->common : Tree::map()).first->second;
    join_common(common, common_state(part, item), item.name);
  }
  const std::string path = (part.path() / store::kManifestName).string();
  const auto members = [&path](const std::string& text) {
    return members_of(text, path, Errc::malformed_metadata);
  };
  const JsonMembers custom_metadata = members(part.manifest().custom_metadata);
  const JsonMembers annotations = members(part.manifest().annotations);
  for (const store::CheckpointableEntry& item : part.manifest().checkpointables) {
    items_.try_emplace(item.name, Item{item.handler_id, number, {}});
  }
  for (auto& [name, common] : commons) {
    items_.at(name).common = std::move(common);
  }
  for (const auto& [item, index] : trees) {
    LeafNames& leaves = items_.at(item->name).leaves;
    visit_leaves(index, [&leaves, number](std::string_view name, std::string_view alias_of) {
      leaves.add(name, number, alias_of);
    });
  }
  custom_metadata_.add(custom_metadata);
  annotations_.add(annotations);
}

}  // namespace cairn::training
