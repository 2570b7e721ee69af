// SPDX-License-Identifier: Apache-2.0
#include "training/part_merge.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "array_store/internal/reader.hpp"
#include "formats/internal/index_merge.hpp"
#include "handlers/internal/packed_tree.hpp"
#include "store/internal/source.hpp"
#include "training/part_contents.hpp"
#include "training/part_notes.hpp"

namespace cairn::training {

void PartMerge::add(store::CommittedDirectory part) {
  const store::Manifest manifest = part.manifest();
  const std::string path = (part.path() / store::kManifestName).string();
  std::set<std::string, std::less<>> merged;
  for (const store::CheckpointableEntry& item : manifest.checkpointables) {
    if (is_tree(item)) {
      std::string file = fmt::format("{}/{}", item.directory, array_store::kIndexFile);
      indexes_[file].push_back(open_index(part, item));
      merged.insert(std::move(file));
    }
    if (item.handler_id == kStateDictId) {
      const std::string file = fmt::format("{}/{}", item.directory, kStateDictCommonFile);
      join_common(commons_.try_emplace(file, Tree::map()).first->second, common_state(part, item), item.name);
      merged.insert(file);
    }
    if (std::find(items_.begin(), items_.end(), item) == items_.end()) {
      items_.push_back(item);
    }
  }
  const std::shared_ptr<const store::Source> source = store::source_of(std::move(part));
  for (const store::FileEntry& file : manifest.files) {
    if (!merged.contains(file.path)) {
      assembly_.link(source, file);
    }
  }
  const auto replace = [](JsonMembers& all, JsonMembers&& later) {
    for (auto& [key, value] : later) {
      all.insert_or_assign(key, std::move(value));
    }
  };
  replace(custom_metadata_, members_of(manifest.custom_metadata, path, Errc::malformed_metadata));
  JsonMembers annotations = members_of(manifest.annotations, path, Errc::malformed_metadata);
  static_cast<void>(take_notes(annotations, path));
  replace(annotations_, std::move(annotations));
}

void PartMerge::publish(store::Manifest manifest) {
  for (const auto& [path, indexes] : indexes_) {
    assembly_.write(path, formats::merge_indexes(indexes).bytes);
  }
  for (const auto& [path, common] : commons_) {
    const std::string text = pack_tree(common);
    assembly_.write(path, std::as_bytes(std::span(text)));
  }
  JsonMembers own = members_of(manifest.annotations, "annotations", Errc::invalid_argument);
  annotations_.merge(own);
  manifest.annotations = object_of(annotations_);
  manifest.custom_metadata = custom_metadata_.empty() ? "null" : object_of(custom_metadata_);
  manifest.checkpointables = std::move(items_);
  assembly_.publish(std::move(manifest));
}

}  // namespace cairn::training
