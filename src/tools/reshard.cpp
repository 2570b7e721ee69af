// SPDX-License-Identifier: Apache-2.0
#include "tools/internal/reshard.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <set>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/array_store/reader.hpp"
#include "cairn/array_store/writer.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/index_merge.hpp"

#include "io/internal/engine.hpp"
#include "io/internal/syscalls.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/internal/assembly.hpp"
#include "store/internal/source.hpp"
#include "store/internal/staged_directory.hpp"
#include "store/internal/timestamp.hpp"
#include "tools/internal/array_stream.hpp"

namespace cairn::tools {
namespace {

using store::CheckpointableEntry;

/// A region as a file of another checkpoint holds it.
class RegionSource final : public ByteSource {
 public:
  RegionSource(ArrayReader arrays, Region region) : arrays_(std::move(arrays)), region_(std::move(region)) {}

  [[nodiscard]] const Region& region() const { return region_; }

  /// Reads the whole region: an ArrayStream reads many, one after the other.
  void read(std::uint64_t offset_bytes, std::span<std::byte> out) const override {
    const Array all = arrays_.read(region_.path, region_.box);
    std::memcpy(out.data(), all.view().bytes().subspan(offset_bytes, out.size()).data(), out.size());
  }
  [[nodiscard]] std::string describe() const override { return region_.path; }

 private:
  const ArrayReader arrays_;
  const Region region_;
};

/// The region that a piece of a planned file is; null for others, such as its header.
const Region* region_of(const SourcePiece& piece) {
  const auto* source = dynamic_cast<const RegionSource*>(piece.source.get());
  return source == nullptr ? nullptr : &source->region();
}

std::size_t parts_in(const array_store::PlannedFile& file) {
  return static_cast<std::size_t>(std::count_if(file.pieces.begin(), file.pieces.end(), region_of));
}

formats::Index open_index(const store::Source& source, io::Engine& engine, const std::string& file) {
  const auto bytes = std::make_shared<const std::string>(source.read_verified(engine, file));
  formats::Index index =
      formats::Index::open(bytes, std::as_bytes(std::span(*bytes)), (source.root() / file).string());
  index.validate();
  return index;
}

ShardableTensor tensor_of(std::string_view key, const formats::IndexArray& array) {
  ShardableTensor tensor;
  tensor.key = key;
  const std::size_t slash = key.rfind('/');
  tensor.name = key.substr(slash == std::string_view::npos ? 0 : slash + 1);
  tensor.owner = array.name.empty() ? key : key.substr(0, slash);
  tensor.dtype = array.dtype;
  tensor.full = Shape(array.dims);
  tensor.size_bytes = checked_byte_count(array.name, array.dtype, tensor.full);
  return tensor;
}

/// Makes a checkpoint of another, with the same values in other files.
class Resharding {
 public:
  Resharding(std::shared_ptr<const store::Source> source, staging::OwnPlane& own,
             store::NewCheckpoint& target, std::shared_ptr<const ShardingPolicy> policy)
      : source_(std::move(source)),
        engine_(own.plane().engine),
        assembly_(own, target),
        policy_(std::move(policy)) {}

  /// Cuts the arrays of a checkpointable; false, and nothing is done, when it has none.
  bool recut(const CheckpointableEntry& item) {
    const std::string index_file = fmt::format("{}/{}", item.directory, array_store::kIndexFile);
    if (!source_->file_bytes(index_file)) {
      return false;
    }
    const formats::Index index = open_index(*source_, engine_, index_file);
    if (index.array_count() == 0) {
      return false;
    }
    RecutItem done{item.name, {}};
    const ArrayReader arrays(source_->root(), item.name);
    const array_store::PlannedWrite planned = plan(item, index, arrays, done);
    for (std::size_t i = 0; i < planned.files.size(); ++i) {
      write(arrays, item, planned.files[i]);
      done.files[i].name = planned.files[i].name;
      done.files[i].bytes = planned.files[i].size_bytes;
    }
    assembly_.write(index_file, planned.index.make().bytes);
    left_out_.insert(index_file);
    recut_.push_back(std::move(done));
    return true;
  }

  /// Copies all files that do not hold arrays which were cut.
  void copy_others() {
    for (const store::FileEntry& file : source_->manifest()->files) {
      if (!left_out_.contains(file.path)) {
        assembly_.copy(source_, file);
      }
    }
  }

  void publish() {
    store::Manifest manifest = *source_->manifest();
    manifest.generation = 1;
    manifest.world_size = 1;
    manifest.files.clear();
    manifest.started = started_;
    store::set_committed(manifest, std::chrono::system_clock::now());
    assembly_.publish(std::move(manifest));
  }

  [[nodiscard]] const std::vector<RecutItem>& items() const { return recut_; }

 private:
  array_store::PlannedWrite plan(const CheckpointableEntry& item, const formats::Index& index,
                                 const ArrayReader& arrays, RecutItem& done) {
    std::vector<ShardableTensor> tensors;
    std::vector<std::string_view> paths;  // Of those, in the checkpointable.
    std::deque<std::string> keys;         // Of those, which refer to them.
    array_store::Writer writer({});
    const std::vector<std::string_view> first_names = index.first_names();
    for (std::size_t i = 0; i < index.size(); ++i) {
      const formats::IndexEntry entry = index.entry(i);
      if (entry.is_alias) {
        writer.entries().add_alias(entry.name, first_names[static_cast<std::size_t>(entry.value)]);
        continue;
      }
      if (entry.kind != formats::EntryKind::array) {
        formats::copy_value(writer.entries(), index, entry);
        continue;
      }
      const formats::IndexArray array = index.array(entry);
      paths.push_back(array.name);
      tensors.push_back(tensor_of(
          keys.emplace_back(array.name.empty() ? item.name : fmt::format("{}/{}", item.name, array.name)),
          array));
      for (std::uint32_t slice = 0; slice < array.slice_count; ++slice) {
        left_out_.insert(fmt::format("{}/{}", item.directory, index.slice(array, slice).file));
      }
    }
    const std::vector<FilePlan> files = (*policy_)(tensors);
    check_policy_result(*policy_, tensors, files);
    writer.set_policy(policy_->description());
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (i > 0) {
        writer.next_file();
      }
      for (const TensorPart& part : files[i]) {
        const ShardableTensor& tensor = tensors[part.tensor];
        const std::string_view path = paths[part.tensor];
        Region region{std::string(path), tensor.dtype, tensor.full, part.box ? *part.box : tensor.region()};
        const Box box = region.box;
        writer.add_source(path, tensor.full, box, tensor.dtype,
                          std::make_shared<RegionSource>(arrays, std::move(region)));
      }
    }
    array_store::PlannedWrite planned = std::move(writer).lay_out();
    for (const array_store::PlannedFile& file : planned.files) {
      done.files.push_back({file.name, parts_in(file), file.size_bytes});
    }
    return planned;
  }

  /// One batch of the arrays is read while the one before is written.
  void write(const ArrayReader& arrays, const CheckpointableEntry& item,
             const array_store::PlannedFile& planned) {
    std::vector<Region> regions;
    for (const SourcePiece& piece : planned.pieces) {
      if (const Region* region = region_of(piece)) {
        regions.push_back(*region);
      }
    }
    ArrayStream stream(arrays, std::move(regions));
    store::AssembledFile file =
        assembly_.create(fmt::format("{}/{}", item.directory, planned.name), planned.size_bytes);
    for (const SourcePiece& piece : planned.pieces) {
      if (region_of(piece) == nullptr) {
        std::vector<std::byte> bytes(piece.size_bytes);
        gather(std::span(&piece, 1), piece.offset_bytes, bytes);
        file.append(bytes);
        continue;
      }
      for (std::uint64_t left = piece.size_bytes; left > 0;) {
        const std::span<const std::byte> bytes = stream.next().value().bytes;
        file.append(bytes);
        left -= bytes.size();
      }
    }
    file.finish();
  }

  const std::shared_ptr<const store::Source> source_;
  io::Engine& engine_;
  store::Assembly assembly_;
  const std::shared_ptr<const ShardingPolicy> policy_;
  const std::string started_ = store::utc(std::chrono::system_clock::now());
  std::set<std::string, std::less<>> left_out_;  // Files of the source whose arrays are in new ones.
  std::vector<RecutItem> recut_;
};

void require_same(const store::Source& source) {
  const auto now = store::open_committed_source(io::posix_syscalls(), source.path());
  if (now->manifest()->uuid != source.manifest()->uuid ||
      now->manifest()->generation != source.manifest()->generation) {
    throw Error(Errc::cancelled, fmt::format("{} was replaced meanwhile", source.root().string()));
  }
}

[[noreturn]] void throw_not_there(const store::Source& source, const std::string& name) {
  std::vector<std::string_view> names;
  for (const store::SourceItem& item : source.items()) {
    names.push_back(item.name);
  }
  throw Error(Errc::not_found, fmt::format("{} has no checkpointable '{}'; it has: {}",
                                           source.root().string(), name, fmt::join(names, ", ")));
}

}  // namespace

std::vector<RecutItem> reshard(const std::filesystem::path& from, const std::filesystem::path& to,
                               const std::shared_ptr<const ShardingPolicy>& policy, const std::string& name) {
  const auto source = store::open_committed_source(io::posix_syscalls(), from);
  const auto& items = source->manifest()->checkpointables;
  const auto is_named = [&](const CheckpointableEntry& item) { return item.name == name; };
  if (!name.empty() && std::none_of(items.begin(), items.end(), is_named)) {
    throw_not_there(*source, name);
  }
  staging::OwnPlane own(io::posix_syscalls(), std::max<std::size_t>(std::thread::hardware_concurrency(), 1));
  store::StagedDirectory target = store::StagedDirectory::create(own.plane().engine, to);
  Resharding resharding(source, own, target, policy);
  for (const CheckpointableEntry& item : items) {
    if (name.empty() || is_named(item)) {
      resharding.recut(item);
    }
  }
  if (resharding.items().empty()) {
    throw Error(Errc::invalid_argument,
                name.empty() ? "no checkpointable has arrays" : fmt::format("'{}' has no arrays", name));
  }
  resharding.copy_others();
  require_same(*source);
  resharding.publish();
  return resharding.items();
}

}  // namespace cairn::tools
