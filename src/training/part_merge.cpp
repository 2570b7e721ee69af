// SPDX-License-Identifier: Apache-2.0
#include "training/part_merge.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/array_store/reader.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/index_merge.hpp"

#include "io/internal/check.hpp"
#include "io/internal/links.hpp"
#include "training/part_contents.hpp"
#include "training/part_notes.hpp"

namespace cairn::training {
namespace {

/// "state/data.safetensors": "state" and "data.safetensors".
struct SplitPath {
  std::string directory;
  std::string name;
};

SplitPath split(const std::string& relative) {
  const std::size_t slash = relative.rfind('/');
  if (slash == std::string::npos) {
    throw Error(Errc::malformed_metadata,
                fmt::format("'{}' lies in no checkpointable's directory", relative));
  }
  return {relative.substr(0, slash), relative.substr(slash + 1)};
}

io::FileDigest digest_of(std::span<const std::byte> bytes, const std::string& path) {
  io::ChunkHasher hasher;
  hasher.update(bytes);
  return hasher.finish(path);
}

/// Where nothing can be linked. `from` must hold what its digest says.
void copy_file(const io::FileHandle& from, const io::FileDigest& digest,
               const std::filesystem::path& from_path, const io::Directory& to, const std::string& name) {
  const std::filesystem::path path = to.path() / name;
  io::FileHandle copy = to.create_file(name);
  std::vector<std::byte> chunk(io::kChunkBytes);
  for (std::uint64_t at = 0; at < digest.size_bytes; at += chunk.size()) {
    const std::uint64_t left = digest.size_bytes - at;
    const auto bytes =
        std::span(chunk).first(static_cast<std::size_t>(std::min<std::uint64_t>(chunk.size(), left)));
    io::read_all(from, bytes, at, from_path);
    io::verify_chunks(from_path.string(), at, bytes, digest);
    io::write_all(copy, bytes, at, path);
  }
  io::require(copy.syscalls().sync_data(copy.fd()), "fdatasync", path);
  io::require(copy.close(), "close", path);
}

}  // namespace

void PartMerge::add(const store::CommittedDirectory& part) {
  const store::Manifest& manifest = part.manifest();
  std::set<std::string, std::less<>> merged;
  for (const store::CheckpointableEntry& item : manifest.checkpointables) {
    if (is_tree(item)) {
      std::string file = fmt::format("{}/{}", item.directory, array_store::kIndexFile);
      indexes_[file].push_back(open_index(part, item));
      merged.insert(std::move(file));
    }
    if (std::find(items_.begin(), items_.end(), item) == items_.end()) {
      items_.push_back(item);
    }
  }
  for (const store::FileEntry& file : manifest.files) {
    if (merged.count(file.path) == 0) {
      add_file(part, file);
    }
  }
  const auto replace = [](JsonMembers& all, JsonMembers&& later) {
    for (auto& [key, value] : later) {
      all.insert_or_assign(key, std::move(value));
    }
  };
  const std::string path = (part.path() / store::kManifestName).string();
  replace(custom_metadata_, members_of(manifest.custom_metadata, path, Errc::malformed_metadata));
  JsonMembers annotations = members_of(manifest.annotations, path, Errc::malformed_metadata);
  static_cast<void>(take_notes(annotations, path));
  replace(annotations_, std::move(annotations));
}

void PartMerge::add_file(const store::CommittedDirectory& part, const store::FileEntry& file) {
  const io::FileHandle file_of_part =
      part.open_file(file.path);  // Its kind and size are those that were written.
  const SplitPath at = split(file.path);
  make_directories(at.directory);
  const io::Directory from = part.directory().open_directory(at.directory);
  const io::Directory to = staged_.directory()->open_directory(at.directory);
  const int linked = from.syscalls().link_at(from.fd(), at.name.c_str(), to.fd(), at.name.c_str());
  io::FileDigest digest = part.digest(file.path);
  if (io::has_no_links(linked)) {
    copy_file(file_of_part, digest, part.path() / file.path, to, at.name);
  } else {
    io::require(linked, fmt::format("link {} to", (part.path() / file.path).string()), to.path() / at.name);
  }
  digests_.push_back(std::move(digest));
}

void PartMerge::make_directories(const std::string& relative) {
  for (std::size_t end = relative.find('/');; end = relative.find('/', end + 1)) {
    const std::string path = relative.substr(0, end);
    if (directories_.insert(path).second) {
      const std::filesystem::path parts(path);
      const io::Directory& top = *staged_.directory();
      static_cast<void>(
          parts.has_parent_path()
              ? top.open_directory(parts.parent_path().native()).make_directory(parts.filename().native())
              : top.make_directory(path));
    }
    if (end == std::string::npos) {
      return;
    }
  }
}

void PartMerge::write_indexes() {
  for (const auto& [path, indexes] : indexes_) {
    make_directories(split(path).directory);
    const formats::IndexBytes merged = formats::merge_indexes(indexes);
    const std::string_view text(reinterpret_cast<const char*>(merged.bytes.data()), merged.bytes.size());
    io::write_small_file(*staged_.directory(), path, text);
    digests_.push_back(digest_of(merged.bytes, path));
  }
}

void PartMerge::publish(store::Manifest manifest) {
  write_indexes();
  JsonMembers own = members_of(manifest.annotations, "annotations", Errc::invalid_argument);
  annotations_.merge(own);
  manifest.annotations = object_of(annotations_);
  manifest.custom_metadata = custom_metadata_.empty() ? "null" : object_of(custom_metadata_);
  manifest.checkpointables = std::move(items_);
  const auto by_path = [](const io::FileDigest& a, const io::FileDigest& b) { return a.path < b.path; };
  std::sort(digests_.begin(), digests_.end(), by_path);
  staged_.publish(std::move(manifest), digests_);
}

}  // namespace cairn::training
