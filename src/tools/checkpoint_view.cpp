// SPDX-License-Identifier: Apache-2.0
#include "tools/internal/checkpoint_view.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "formats/internal/dcp_metadata.hpp"
#include "handlers/internal/packed_tree.hpp"
#include "io/internal/syscalls.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/internal/source.hpp"
#include "tools/objects.hpp"
#include "tools/source_files.hpp"

namespace cairn::tools {

VerifiedFile::VerifiedFile(const store::CommittedDirectory& checkpoint, const std::string& relative)
    : path_(checkpoint.path() / relative),
      file_(checkpoint.open_file(relative)),
      digest_(checkpoint.digest(relative)) {}

void VerifiedFile::read(std::uint64_t offset_bytes, std::span<std::byte> out) {
  if (offset_bytes > digest_.size_bytes || out.size() > digest_.size_bytes - offset_bytes) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{} ends before byte {}", path_, offset_bytes + out.size()));
  }
  while (!out.empty()) {
    const std::uint64_t begin = offset_bytes / io::kChunkBytes * io::kChunkBytes;
    if (begin_ != begin) {
      begin_.reset();  // Until its bytes are known to be right.
      chunk_.resize(std::min<std::uint64_t>(io::kChunkBytes, digest_.size_bytes - begin));
      io::read_all(file_, chunk_, begin, path_);
      io::verify_chunks(path_, begin, chunk_, digest_);
      begin_ = begin;
    }
    const auto from = std::span<const std::byte>(chunk_).subspan(offset_bytes - begin);
    const std::size_t bytes = std::min(from.size(), out.size());
    std::copy_n(from.begin(), bytes, out.begin());
    offset_bytes += bytes;
    out = out.subspan(bytes);
  }
}

bool is_object(const ItemMetadata& item, const ArrayEntry& array) {
  return item.handler_id == kStateDictId && array.dtype == DType::uint8 &&
         formats::is_name_of_shard(array.name);
}

CheckpointView::CheckpointView(CheckpointMetadata metadata) : metadata_(std::move(metadata)) {
  if (metadata_.uuid.empty()) {
    return;  // Files of other programs.
  }
  try {
    checkpoint_.emplace(store::CommittedDirectory::open(io::posix_syscalls(), path()));
    is_whole_ = true;
  } catch (const Error& error) {
    if (error.code() != Errc::not_committed) {
      throw;
    }
    checkpoint_.emplace(store::CommittedDirectory::open(io::posix_syscalls(), path().parent_path()));
  }
}

ArrayReader CheckpointView::reader(const std::string& name, array_store::FileLayouts layouts) const {
  ArrayReaderOptions options;
  options.layout = is_foreign() ? metadata_.at(name).description().layout : std::string();
  options.layouts = std::move(layouts);
  return ArrayReader(path(), name, options);
}

Description CheckpointView::description(const std::string& name, const array_store::FileLayouts& layouts,
                                        const TakeArray& take) const {
  const ItemMetadata& item = metadata_.at(name);
  Description description = item.description();
  if (is_foreign()) {
    describe_foreign_objects(description, layouts, take);
  } else if (item.handler_id == kStateDictId) {
    describe_state_dict(name, description, take);
  }
  return description;
}

void CheckpointView::describe_foreign_objects(Description& description,
                                              const array_store::FileLayouts& layouts,
                                              const TakeArray& take) const {
  const auto is_object = [](const DescribedValue& value) { return value.kind == "object"; };
  if (std::none_of(description.values.begin(), description.values.end(), is_object)) {
    return;
  }
  staging::OwnPlane own(io::posix_syscalls(), 2);
  const auto source = store::open_source(io::posix_syscalls(), path());
  const auto files = std::make_shared<const SourceFiles>(own.plane(), source, "");
  const auto layout = array_store::find_layout(files->names(), layouts, description.layout);
  if (layout == nullptr) {
    return;  // Then they stay objects.
  }
  const formats::Index index = open_index(own, files, layout);
  std::vector<formats::IndexEntry> objects;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const formats::IndexEntry entry = index.entry(i);
    if (entry.kind == formats::EntryKind::unread && !entry.is_alias) {
      objects.push_back(entry);
    }
  }
  read_objects(
      {own, files, layout, index}, objects,
      [&](const formats::IndexEntry& entry, const Tree& tree, std::span<const formats::LeftOut> left_out) {
        const bool is_lost =
            std::any_of(left_out.begin(), left_out.end(), [](const auto& one) { return one.path.empty(); });
        if (is_lost) {  // An empty map stands for it.
          std::erase_if(description.values, [&](const auto& one) { return one.name == entry.name; });
        } else {
          describe_object(description, entry.name, tree, take);
        }
        for (const formats::LeftOut& one : left_out) {
          description.left_out.push_back({path_in(entry.name, one.path), one.why, {}});
        }
      });
}

void CheckpointView::describe_state_dict(const std::string& name, Description& description,
                                         const TakeArray& take) const {
  const auto own = files(name);
  if (const auto common = own->find(std::string(kStateDictCommonFile)); common != own->end()) {
    const std::string text = read(common->second, static_cast<std::size_t>(common->second.size_bytes));
    describe_object(description, formats::kCommonStatePath,
                    unpack_tree(std::as_bytes(std::span(text)), (path() / common->second.path).string()),
                    take);
  }
  std::vector<std::string> objects;
  for (const ArrayEntry& array : description.arrays) {
    if (is_object(metadata_.at(name), array)) {
      objects.emplace_back(array.name);
    }
  }
  for (const DescribedValue& value : description.values) {
    if (value.kind == "object") {  // So a handler describes them that knows state dicts.
      objects.push_back(value.name);
    }
  }
  std::optional<ArrayReader> arrays;
  for (const std::string& path : objects) {
    const Array bytes = (arrays ? *arrays : arrays.emplace(reader(name))).read(path);
    describe_object(description, path, unpack_tree(bytes.view().bytes(), path), take);
  }
}

std::optional<std::map<std::string, store::FileEntry>> CheckpointView::files(std::string_view name) const {
  if (is_foreign()) {
    return std::nullopt;
  }
  const store::Manifest& manifest = checkpoint_->manifest();
  const auto entry = std::find_if(manifest.checkpointables.begin(), manifest.checkpointables.end(),
                                  [name](const auto& each) { return each.name == name; });
  std::map<std::string, store::FileEntry> files;
  if (entry != manifest.checkpointables.end()) {
    const std::string prefix = entry->directory + "/";
    for (const store::FileEntry& file : manifest.files) {
      if (file.path.starts_with(prefix)) {
        files.emplace(file.path.substr(prefix.size()), file);
      }
    }
  }
  return files;
}

std::optional<store::VerifyProblem> CheckpointView::file_problem(std::string_view name) const {
  for (const auto& [unused, file] : files(name).value_or(std::map<std::string, store::FileEntry>())) {
    const std::optional<io::FileStatus> status = checkpoint_->directory().status(file.path);
    const bool is_regular = status && status->kind == io::FileKind::regular;
    if (is_regular && status->size_bytes == file.size_bytes) {
      continue;
    }
    store::VerifyProblem problem;
    problem.damage = !status      ? store::Damage::missing
                     : is_regular ? store::Damage::wrong_size
                                  : store::Damage::wrong_kind;
    problem.file = file.path;
    problem.text = fmt::format(
        "'{}': {} is {}", name, (checkpoint_->path() / file.path).string(),
        !status       ? "missing"
        : !is_regular ? "not a regular file"
                      : fmt::format("{} bytes long instead of {}", status->size_bytes, file.size_bytes));
    return problem;
  }
  return std::nullopt;
}

std::string CheckpointView::read(const store::FileEntry& file, std::size_t max_bytes) const {
  return checkpoint_->read_verified(file.path, max_bytes);
}

}  // namespace cairn::tools
