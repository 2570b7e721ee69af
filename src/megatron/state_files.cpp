// SPDX-License-Identifier: Apache-2.0
#include "megatron/state_files.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "cairn/base/error.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "megatron/unique_key.hpp"

namespace cairn::megatron::detail {
namespace {

/// The key under which Megatron-Core saves common state as an object.
constexpr std::string_view kCommonKey = "common_state";

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

StoredDict stored_dict(const formats::Index& index) {
  StoredDict stored;
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
    if (object && !is_own && object->key == kCommonKey) {
      stored.common = std::move(one);
    } else if (object) {
      stored.objects.emplace_hint(stored.objects.end(), std::move(keys[0]), std::move(one));
    } else if (!is_unread) {
      stored.tensors.emplace_hint(stored.tensors.end(), std::move(keys[0]), std::move(one));
    }
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
