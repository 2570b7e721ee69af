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

#include "cairn/array_store/file_layout.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/foreign_catalogue.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "array_store/internal/reader.hpp"
#include "array_store/internal/writer.hpp"
#include "async/internal/start.hpp"
#include "base/internal/json_writer.hpp"
#include "formats/internal/dcp_metadata.hpp"
#include "formats/internal/foreign_index.hpp"
#include "formats/internal/index_merge.hpp"
#include "handlers/internal/packed_tree.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/syscalls.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/internal/assembly.hpp"
#include "store/internal/checkpointable_names.hpp"
#include "store/internal/manifest.hpp"
#include "store/internal/source.hpp"
#include "store/internal/staged_directory.hpp"
#include "store/internal/timestamp.hpp"
#include "store/internal/uuid.hpp"
#include "tools/internal/array_stream.hpp"
#include "tools/objects.hpp"
#include "tools/source_files.hpp"

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

/// A source that is read as a tree: a checkpointable with an index, or files of another program.
struct TreeSource {
  std::string name;       ///< Of the checkpointable.
  std::string directory;  ///< In the target.
  formats::Index index;
  ArrayReader arrays;
  std::shared_ptr<const SourceFiles> files = nullptr;               ///< Of another program, for its objects;
  std::shared_ptr<const array_store::FileLayout> layout = nullptr;  ///< and how they are read.
  bool is_state_dict = false;  ///< It becomes one: common state and objects have the form of those.
};

/// Files of Megatron-Core's have common state, whatever its form is.
bool is_megatrons(const formats::Index& index) {
  for (std::size_t i = 0; i < index.size(); ++i) {
    const formats::IndexEntry entry = index.entry(i);
    if (entry.kind == formats::EntryKind::unread && entry.name == formats::kCommonStatePath) {
      return true;
    }
  }
  return false;
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

/// Makes a checkpoint of another, or of files of another program, with the same values in other files.
class Resharding {
 public:
  Resharding(std::shared_ptr<const store::Source> source, staging::OwnPlane& own,
             store::NewCheckpoint& target, std::shared_ptr<const ShardingPolicy> policy,
             const Progress& progress)
      : source_(std::move(source)),
        own_(own),
        assembly_(own, target),
        policy_(std::move(policy)),
        progress_(progress) {
    if (source_->manifest() != nullptr) {
      for (const store::FileEntry& file : source_->manifest()->files) {
        total_bytes_ += file.size_bytes;
      }
    }
  }

  /// Cuts the arrays of a checkpointable; false, and nothing is done, when it has none.
  bool recut(const CheckpointableEntry& item) {
    const std::string index_file = fmt::format("{}/{}", item.directory, array_store::kIndexFile);
    if (!source_->file_bytes(index_file)) {
      return false;
    }
    formats::Index index = open_index(*source_, own_.plane().engine, index_file);
    return recut({item.name, item.directory, std::move(index), ArrayReader(source_->root(), item.name)});
  }

  /// Cuts the arrays of files of another program.
  bool recut_foreign(const std::string& layout) {
    ArrayReaderOptions options;
    options.layout = layout;
    const auto files = std::make_shared<const SourceFiles>(own_.plane(), source_, "");
    const auto chosen = array_store::find_layout(files->names(), {}, layout);
    formats::Index index = open_index(own_, files, chosen);
    const std::string directory = store::directory_of(store::kStateName);
    const bool is_state_dict = is_megatrons(index);
    manifest_.checkpointables.push_back(
        {store::kStateName, std::string(is_state_dict ? kStateDictId : TreeHandler().id()), directory});
    std::string annotation;
    JsonWriter json(annotation);
    json.begin_object().key("cairn.made_of").begin_object();
    json.key("path").value(source_->path().string()).key("layout").value(index.foreign()->layout).end();
    if (is_state_dict) {
      json.key("cairn.megatron").begin_object().key("backend").value("cairn");
      json.key("version").value(std::uint64_t{1}).end();
    }
    json.end();
    manifest_.annotations = store::normalise_annotations(annotation);
    manifest_.uuid = store::make_uuid(store::system_random);
    return recut({store::kStateName, directory, std::move(index), ArrayReader(source_->path(), "", options),
                  files, chosen, is_state_dict});
  }

  /// Copies all files that do not hold arrays which were cut.
  void copy_others() {
    manifest_ = *source_->manifest();
    for (const store::FileEntry& file : manifest_.files) {
      if (!left_out_.contains(file.path)) {
        assembly_.copy(source_, file);
        add_done(file.size_bytes);
      }
    }
  }

  void publish() {
    add_done(0);
    manifest_.generation = 1;
    manifest_.world_size = 1;
    manifest_.files.clear();
    manifest_.started = started_;
    store::set_committed(manifest_, std::chrono::system_clock::now());
    assembly_.publish(std::move(manifest_));
  }

  [[nodiscard]] const std::vector<RecutItem>& items() const { return recut_; }

 private:
  bool recut(const TreeSource& tree) {
    if (tree.index.array_count() == 0) {
      return false;
    }
    RecutItem done;
    done.name = tree.name;
    if (tree.index.foreign() != nullptr) {
      done.notes = tree.index.foreign()->problems;
    }
    const array_store::PlannedWrite planned = plan(tree, done);
    for (const array_store::PlannedFile& file : planned.files) {
      total_bytes_ += source_->manifest() == nullptr ? file.size_bytes : 0;
    }
    for (std::size_t i = 0; i < planned.files.size(); ++i) {
      write(tree, planned.files[i]);
      done.files[i].name = planned.files[i].name;
      done.files[i].bytes = planned.files[i].size_bytes;
    }
    const std::string index_file = fmt::format("{}/{}", tree.directory, array_store::kIndexFile);
    assembly_.write(index_file, planned.index.make().bytes);
    left_out_.insert(index_file);
    recut_.push_back(std::move(done));
    return true;
  }

  /// Adds what an object of another program is made of, which is held in memory.
  void add_object(array_store::Writer& writer, const TreeSource& tree, const formats::IndexEntry& entry,
                  RecutItem& done) const {
    const std::vector<array_store::WantedArray> bytes_of = {{entry, nullptr, nullptr}};
    array_store::ReadPlan plan = array_store::plan_read(tree.index, bytes_of, {}, *tree.files);
    Awaitable<> reading = array_store::read(tree.files, std::move(plan.pieces));
    async::start(own_.strand(), std::move(reading)).get();
    const array_store::StoredObject object(*tree.layout, tree.index, entry, plan.arrays[0].view().bytes());
    const formats::Index& inner = object.index();
    const std::vector<std::string_view> first_names = inner.first_names();
    for (std::size_t i = 0; i < inner.size(); ++i) {
      formats::IndexEntry part = inner.entry(i);
      const std::string path = path_in(entry.name, part.name);
      if (part.is_alias) {
        writer.entries().add_alias(path,
                                   path_in(entry.name, first_names[static_cast<std::size_t>(part.value)]));
      } else if (part.kind == formats::EntryKind::array) {
        const std::vector<array_store::WantedArray> wanted = {{part, nullptr, nullptr}};
        writer.add(path, object.read(wanted).front());
      } else {
        part.name = path;
        formats::copy_value(writer.entries(), inner, part);
      }
    }
    note_left_out(inner, entry.name, done);
  }

  /// Adds objects in the form of state dicts: as bytes of packed trees, under their names. Common state gets its file.
  void add_state_objects(array_store::Writer& writer, const TreeSource& tree,
                         std::span<const formats::IndexEntry> objects, RecutItem& done) {
    const TakeObject take = [&](const formats::IndexEntry& entry, const Tree& object,
                                std::span<const formats::LeftOut> left_out) {
      for (const formats::LeftOut& one : left_out) {
        done.left_out.push_back(
            fmt::format("{}: {}", formats::shown(path_in(entry.name, one.path)), one.why));
      }
      const bool is_common = entry.name == formats::kCommonStatePath;
      if (is_common && !object.is_map()) {
        throw Error(Errc::malformed_metadata,
                    fmt::format("{}: common state is not a dict", tree.files->directory().string()));
      }
      if (is_common) {
        const std::string packed = pack_tree(object);
        assembly_.write(fmt::format("{}/{}", tree.directory, kStateDictCommonFile),
                        std::as_bytes(std::span(packed)));
      } else if (formats::is_name_of_shard(entry.name)) {
        const std::string packed = pack_tree(object);
        std::vector<std::uint8_t> bytes(packed.begin(), packed.end());
        writer.add(entry.name, Array::adopt(std::move(bytes)));
      } else {
        done.left_out.push_back(fmt::format(
            "{}: an object whose name does not end in '/shard_<offset>_<shape>' has no place in a "
            "state dict",
            formats::shown(entry.name)));
      }
    };
    if (!objects.empty()) {
      read_objects({own_, tree.files, tree.layout, tree.index}, objects, take);
    }
  }

  static void note_left_out(const formats::Index& index, std::string_view below, RecutItem& done) {
    if (index.foreign() != nullptr) {
      for (const formats::LeftOut& one : index.foreign()->left_out) {
        done.left_out.push_back(fmt::format("{}: {}", formats::shown(path_in(below, one.path)), one.why));
      }
    }
  }

  array_store::PlannedWrite plan(const TreeSource& tree, RecutItem& done) {
    const formats::Index& index = tree.index;
    std::vector<ShardableTensor> tensors;
    std::vector<std::string_view> paths;  // Of those, in the checkpointable.
    std::deque<std::string> keys;         // Of those, which refer to them.
    std::vector<formats::IndexEntry> objects;
    array_store::Writer writer({});
    writer.keep_values(true);  // Arrays of objects are nobody else's.
    const std::vector<std::string_view> first_names = index.first_names();
    for (std::size_t i = 0; i < index.size(); ++i) {
      const formats::IndexEntry entry = index.entry(i);
      if (entry.is_alias) {
        writer.entries().add_alias(entry.name, first_names[static_cast<std::size_t>(entry.value)]);
        continue;
      }
      if (entry.kind == formats::EntryKind::unread && tree.is_state_dict) {
        objects.push_back(entry);
        continue;
      }
      if (entry.kind == formats::EntryKind::unread) {
        add_object(writer, tree, entry, done);
        continue;
      }
      if (entry.kind != formats::EntryKind::array) {
        formats::copy_value(writer.entries(), index, entry);
        continue;
      }
      const formats::IndexArray array = index.array(entry);
      paths.push_back(array.name);
      tensors.push_back(tensor_of(
          keys.emplace_back(array.name.empty() ? tree.name : fmt::format("{}/{}", tree.name, array.name)),
          array));
      for (std::uint32_t slice = 0; slice < array.slice_count; ++slice) {
        left_out_.insert(fmt::format("{}/{}", tree.directory, index.slice(array, slice).file));
      }
    }
    add_state_objects(writer, tree, objects, done);
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
                          std::make_shared<RegionSource>(tree.arrays, std::move(region)));
      }
    }
    note_left_out(index, "", done);
    array_store::PlannedWrite planned = std::move(writer).lay_out();
    for (const array_store::PlannedFile& file : planned.files) {
      done.files.push_back({file.name, parts_in(file), file.size_bytes});
    }
    return planned;
  }

  void add_done(std::uint64_t bytes) {
    done_bytes_ += bytes;
    if (progress_) {
      progress_(done_bytes_, total_bytes_);
    }
  }

  /// One batch of the arrays is read while the one before is written.
  void write(const TreeSource& tree, const array_store::PlannedFile& planned) {
    std::vector<Region> regions;
    for (const SourcePiece& piece : planned.pieces) {
      if (const Region* region = region_of(piece)) {
        regions.push_back(*region);
      }
    }
    ArrayStream stream(tree.arrays, std::move(regions));
    store::AssembledFile file =
        assembly_.create(fmt::format("{}/{}", tree.directory, planned.name), planned.size_bytes);
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
        add_done(bytes.size());
        left -= bytes.size();
      }
    }
    file.finish();
  }

  const std::shared_ptr<const store::Source> source_;
  staging::OwnPlane& own_;
  store::Assembly assembly_;
  const std::shared_ptr<const ShardingPolicy> policy_;
  const Progress& progress_;
  std::uint64_t done_bytes_ = 0;
  std::uint64_t total_bytes_ =
      0;  // Of the source's files; what other programs wrote is counted as it is planned.
  const std::string started_ = store::utc(std::chrono::system_clock::now());
  std::set<std::string, std::less<>> left_out_;  // Files of the source whose arrays are in new ones.
  std::vector<RecutItem> recut_;
  store::Manifest manifest_;  // Of the target.
};

void require_same(const store::Source& source) {
  const auto now = store::open_committed_source(io::posix_syscalls(), source.path());
  if (now->manifest()->uuid != source.manifest()->uuid ||
      now->manifest()->generation != source.manifest()->generation) {
    throw Error(Errc::cancelled, fmt::format("{} was replaced meanwhile", source.root().string()));
  }
}

/// Opens a checkpoint, or files of another program.
std::shared_ptr<const store::Source> open_to_cut(const std::filesystem::path& path) {
  try {
    return store::open_committed_source(io::posix_syscalls(), path);
  } catch (const Error& error) {
    if (error.code() != Errc::not_committed) {
      throw;
    }
    std::shared_ptr<const store::Source> source = store::open_source(io::posix_syscalls(), path);
    if (source->manifest() != nullptr) {  // A part of a checkpoint.
      throw;
    }
    return source;
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
                               const std::shared_ptr<const ShardingPolicy>& policy, const std::string& name,
                               const std::string& layout, const Progress& progress) {
  const std::shared_ptr<const store::Source> source = open_to_cut(from);
  const auto& items = source->items();
  if (!name.empty() && std::none_of(items.begin(), items.end(),
                                    [&](const store::SourceItem& item) { return item.name == name; })) {
    throw_not_there(*source, name);
  }
  const bool is_foreign = source->manifest() == nullptr;
  staging::OwnPlane own(io::posix_syscalls(), std::max<std::size_t>(std::thread::hardware_concurrency(), 1));
  store::StagedDirectory target = store::StagedDirectory::create(own.plane().engine, to);
  Resharding resharding(source, own, target, policy, progress);
  if (is_foreign) {
    resharding.recut_foreign(layout);
  } else {
    for (const CheckpointableEntry& item : source->manifest()->checkpointables) {
      if (name.empty() || item.name == name) {
        resharding.recut(item);
      }
    }
  }
  if (resharding.items().empty()) {
    throw Error(Errc::invalid_argument,
                name.empty() ? "no checkpointable has arrays" : fmt::format("'{}' has no arrays", name));
  }
  if (!is_foreign) {
    resharding.copy_others();
    require_same(*source);
  }
  resharding.publish();
  return resharding.items();
}

}  // namespace cairn::tools
