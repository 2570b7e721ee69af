// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/handlers/tree_handler.hpp"
#include "cairn/megatron/dist_checkpointing.hpp"

#include "formats/internal/index_builder.hpp"
#include "formats/internal/index_merge.hpp"
#include "io/internal/syscalls.hpp"
#include "megatron/state_files.hpp"
#include "megatron/unique_key.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/internal/assembly.hpp"
#include "store/internal/source.hpp"
#include "store/internal/staged_directory.hpp"
#include "store/internal/timestamp.hpp"

namespace cairn::megatron {
namespace {

/// An index without some of its arrays.
class ThinnedIndex {
 public:
  ThinnedIndex(const formats::Index& from, std::string_view key_prefix) {
    std::vector<formats::IndexArray> left_out;
    const std::vector<std::string_view> first_names = from.first_names();
    for (std::size_t i = 0; i < from.size(); ++i) {
      const formats::IndexEntry entry = from.entry(i);
      if (entry.kind != formats::EntryKind::array) {
        formats::copy_value(builder_, from, entry);
        continue;
      }
      const std::vector<std::string> keys = formats::split_path(entry.name);
      const bool is_object = keys.size() != 1 || detail::parse_unique_key(keys.front()).has_value();
      if (!is_object && keys.front().starts_with(key_prefix)) {
        removed.keys.push_back(keys.front());
        left_out.push_back(from.array(entry));
      } else if (entry.is_alias) {
        builder_.add_alias(entry.name, first_names[static_cast<std::size_t>(entry.value)]);
      } else {
        copy_array(from, entry);
      }
    }
    for (const formats::IndexArray& array : left_out) {
      for (std::uint32_t i = 0; i < array.slice_count; ++i) {
        const formats::IndexSlice slice = from.slice(array, i);
        if (files_.contains(slice.file)) {
          removed.bytes_left += slice.size;
        } else {
          unused_files.emplace(slice.file);
        }
      }
    }
  }

  [[nodiscard]] formats::IndexBytes bytes() { return builder_.finish(); }

  RemovedTensors removed;
  std::set<std::string, std::less<>> unused_files;

 private:
  void copy_array(const formats::Index& from, const formats::IndexEntry& entry) {
    const formats::IndexArray array = from.array(entry);
    builder_.add_array(array.name, array.dtype, array.dims);
    if (const std::string_view layout = from.layout(entry); !layout.empty()) {
      const auto found = layouts_.find(layout);
      builder_.set_layout(found != layouts_.end()
                              ? found->second
                              : layouts_.emplace(layout, builder_.add_layout(layout)).first->second);
    }
    for (std::uint32_t i = 0; i < array.slice_count; ++i) {
      const formats::IndexSlice slice = from.slice(array, i);
      const std::uint32_t file = file_number(from, slice);
      if (slice.is_whole) {
        builder_.add_whole(file, slice.offset);
      } else {
        builder_.add_slice(file, slice.offset, slice.offsets, slice.extents);
      }
    }
  }

  std::uint32_t file_number(const formats::Index& from, const formats::IndexSlice& slice) {
    const auto found = files_.find(slice.file);
    if (found != files_.end()) {
      return found->second;
    }
    const std::string_view policy = from.policy_of_file(slice.file_number);
    const std::uint32_t number =
        builder_.add_file(slice.file, policy.empty() ? 0 : builder_.add_policy(policy));
    files_.emplace(slice.file, number);
    return number;
  }

  formats::IndexBuilder builder_;
  std::map<std::string, std::uint32_t, std::less<>> files_;  // Of arrays that stay.
  std::map<std::string, std::uint32_t, std::less<>> layouts_;
};

/// Refuses to replace another checkpoint than the one that was read.
void require_still(const store::Source& source) {
  const auto now = store::open_committed_source(io::posix_syscalls(), source.path());
  if (now->manifest()->uuid != source.manifest()->uuid) {
    throw Error(Errc::cancelled, fmt::format("{} was replaced meanwhile", source.root().string()));
  }
}

void require_own(const std::filesystem::path& path) {
  const std::shared_ptr<const store::Source> source = store::open_source(io::posix_syscalls(), path);
  if (source->manifest() == nullptr) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} is of another program, whose files are not changed: load it, and save it",
                            path.string()));
  }
}

}  // namespace

RemovedTensors remove_sharded_tensors(const std::filesystem::path& path, std::string_view key_prefix) {
  require_own(path);
  const std::shared_ptr<const store::Source> source =
      store::open_committed_source(io::posix_syscalls(), path);
  staging::OwnPlane own(io::posix_syscalls(), 1);
  store::StagedOptions options;
  options.overwrite = true;
  options.before_replacing = [&source] { require_still(*source); };
  store::StagedDirectory target =
      store::StagedDirectory::create(own.plane().engine, source->path(), std::move(options));
  store::Assembly assembly(own, target);
  store::Manifest manifest = *source->manifest();
  RemovedTensors removed;
  std::set<std::string, std::less<>> left_out;
  for (const store::CheckpointableEntry& item : manifest.checkpointables) {
    const std::string index_file = fmt::format("{}/{}", item.directory, array_store::kIndexFile);
    if (item.handler_id != kStateDictId || !source->file_bytes(index_file)) {
      continue;
    }
    const auto bytes =
        std::make_shared<const std::string>(source->read_verified(own.plane().engine, index_file));
    const formats::Index index =
        formats::Index::open(bytes, std::as_bytes(std::span(*bytes)), (source->root() / index_file).string());
    index.validate();
    ThinnedIndex thinned(index, key_prefix);
    if (thinned.removed.keys.empty()) {
      continue;
    }
    assembly.write(index_file, thinned.bytes().bytes);
    left_out.insert(index_file);
    for (const std::string& file : thinned.unused_files) {
      left_out.insert(fmt::format("{}/{}", item.directory, file));
    }
    removed.keys.insert(removed.keys.end(), thinned.removed.keys.begin(), thinned.removed.keys.end());
    removed.bytes_left += thinned.removed.bytes_left;
  }
  if (removed.keys.empty()) {
    return removed;
  }
  for (const store::FileEntry& file : manifest.files) {
    if (!left_out.contains(file.path)) {
      assembly.link(source, file);
    }
  }
  manifest.started = store::utc(std::chrono::system_clock::now());
  store::set_committed(manifest, std::chrono::system_clock::now());
  assembly.publish(std::move(manifest));
  return removed;
}

}  // namespace cairn::megatron
