// SPDX-License-Identifier: Apache-2.0
#include "megatron/state_files.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "cairn/base/error.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "formats/internal/foreign_index.hpp"
#include "megatron/unique_key.hpp"

namespace cairn::megatron::detail {
namespace {

/// The objects of one key: how many there are at least along each axis.
using Extents = std::vector<std::uint64_t>;

/// Objects of another program, by name, before all of them are known.
class ForeignObjects {
 public:
  void add(std::string name, StoredEntry entry) {
    const UniqueKey parts = *parse_unique_key(name);
    Extents& extents = extents_[std::string(parts.key)];
    extents.resize(std::max<std::size_t>(extents.size(), parts.offset.size()));
    for (std::size_t axis = 0; axis < parts.offset.size(); ++axis) {
      const std::uint64_t behind = std::max(parts.offset[axis], parts.offset[axis] + 1);  // Not beyond 2^64.
      extents[axis] = std::max(extents[axis], behind);
    }
    objects_.emplace_back(std::move(name), std::move(entry));
  }

  /// Enters the objects by their unique keys. An older name lacks the last extents of its grid: it gets those of the
  /// objects of its key.
  void enter(StoredDict& stored) && {
    for (auto& [name, entry] : objects_) {
      const UniqueKey parts = *parse_unique_key(name);
      ShardedObject object{std::string(parts.key), std::nullopt, parts.shape, parts.offset};
      if (parts.shape.size() < parts.offset.size()) {
        Extents shape(parts.shape.begin(), parts.shape.end());
        const Extents& all = extents_.at(object.key);
        shape.insert(shape.end(), all.begin() + static_cast<std::ptrdiff_t>(shape.size()),
                     all.begin() + static_cast<std::ptrdiff_t>(parts.offset.size()));
        object.global_shape = Shape(std::span<const std::uint64_t>(shape));
      }
      try {
        object.validate();
      } catch (const Error&) {
        stored.left_out.push_back({name, "an object whose name puts it outside of its grid", false});
        continue;
      }
      if (!stored.objects.try_emplace(object.unique_key(), std::move(entry)).second) {
        stored.left_out.push_back({name, "a second object of that place in the grid", false});
      }
    }
  }

 private:
  std::vector<std::pair<std::string, StoredEntry>> objects_;
  std::map<std::string, Extents, std::less<>> extents_;  // By key.
};

/// Takes what the description of the files has left out: tensors of dtypes that no array has.
void take_left_out(const formats::ForeignDetails& foreign, StoredDict& stored) {
  for (const formats::LeftOut& one : foreign.left_out) {
    std::vector<std::string> keys = formats::split_path(one.path);
    std::string key = keys.size() == 1 ? std::move(keys[0]) : one.path;
    const bool is_tensor = key != kCommonUniqueKey;
    stored.left_out.push_back({std::move(key), one.why, is_tensor});
  }
}

}  // namespace

std::string path_of(std::string_view key) {
  std::string path;
  formats::append_key(path, key);
  return path;
}

StateDict StoredDict::dict() const {
  StateDict dict;
  for (const auto& [key, stored] : tensors) {
    ShardedTensor tensor;
    tensor.key = key;
    tensor.dtype = stored.dtype;
    tensor.local_shape = stored.shape;
    tensor.global_shape = stored.shape;
    tensor.global_offset = Shape(stored.shape.size(), 0);
    tensor.axis_fragmentations = Shape(stored.shape.size(), 1);
    dict[key] = std::move(tensor);
  }
  for (const auto& [unique_key, stored] : objects) {
    dict[unique_key] = ShardedObject::empty_from_unique_key(unique_key);
  }
  return dict;
}

const LeftOutKey* StoredDict::find_left_out(std::string_view key) const {
  const auto found =
      std::lower_bound(left_out.begin(), left_out.end(), key,
                       [](const LeftOutKey& one, std::string_view of) { return one.key < of; });
  return found == left_out.end() || found->key != key ? nullptr : &*found;
}

StoredDict stored_dict(const formats::Index& index) {
  StoredDict stored;
  ForeignObjects foreign;
  const bool is_own = index.foreign() == nullptr;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const formats::IndexEntry entry = index.entry(i);
    const bool is_unread = entry.kind == formats::EntryKind::unread;
    std::vector<std::string> keys;
    if (is_unread || entry.kind == formats::EntryKind::array) {
      keys = formats::split_path(entry.name);
    }
    if (keys.size() != 1) {
      continue;  // Nothing that a state dict asks for.
    }
    const formats::IndexArray array = index.array(entry);
    StoredEntry one{entry, Shape(array.dims), array.dtype};
    const auto object = is_own || is_unread ? parse_unique_key(keys[0]) : std::nullopt;
    if (object && !is_own && keys[0] == kCommonUniqueKey) {
      stored.common = std::move(one);
    } else if (object && is_own) {
      stored.objects.emplace_hint(stored.objects.end(), std::move(keys[0]), std::move(one));
    } else if (object) {
      foreign.add(std::move(keys[0]), std::move(one));
    } else if (is_unread) {
      stored.left_out.push_back(
          {std::move(keys[0]), "an object whose name does not end in '/shard_<offset>_<shape>'", false});
    } else {
      stored.tensors.emplace_hint(stored.tensors.end(), std::move(keys[0]), std::move(one));
    }
  }
  if (!is_own) {
    std::move(foreign).enter(stored);
    take_left_out(*index.foreign(), stored);
    std::sort(stored.left_out.begin(), stored.left_out.end(),
              [](const LeftOutKey& a, const LeftOutKey& b) { return a.key < b.key; });
  }
  return stored;
}

std::shared_ptr<const array_store::FileLayout> layout_of(const LoadContext& context) {
  const auto* options = context.option<TreeLoadOptions>();
  if (options != nullptr && !(options->rename.empty() && options->separator.empty())) {
    throw Error(Errc::invalid_argument,
                "TreeLoadOptions::rename and separator are for trees: a state dict is loaded by the keys of "
                "its tensors");
  }
  if (context.file_bytes(array_store::kIndexFile)) {
    return nullptr;
  }
  const std::vector<std::string> files = context.files();
  return array_store::find_layout(files, {}, options != nullptr ? options->layout : std::string());
}

}  // namespace cairn::megatron::detail
