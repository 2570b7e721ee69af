// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/array_store/reader.hpp"
#include "cairn/array_store/writer.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/index_merge.hpp"

#include "base/internal/printable.hpp"
#include "cli/commands.hpp"
#include "cli/paths.hpp"
#include "cli/recut_policy.hpp"
#include "cli/stored_regions.hpp"
#include "cli/text.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/syscalls.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/internal/assembly.hpp"
#include "store/internal/source.hpp"
#include "store/internal/staged_directory.hpp"
#include "store/internal/timestamp.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using store::CheckpointableEntry;

constexpr std::uint64_t kBatchBytes = std::uint64_t{64} << 20;

/// A file that was written.
struct WrittenFile {
  std::string name;
  std::size_t parts = 0;
  std::uint64_t bytes = 0;
};

/// A checkpointable whose arrays were cut anew.
struct RecutItem {
  std::string name;
  std::vector<WrittenFile> files;
};

/// Bytes of a planned file that are read at once.
struct Batch {
  struct Run {
    const SourcePiece* piece = nullptr;
    std::uint64_t begin_bytes = 0;  ///< In the piece.
    std::uint64_t bytes = 0;
  };
  std::vector<Run> runs;
  std::uint64_t bytes = 0;
};

/// Only elements that share bytes make a batch larger than the others.
std::vector<Batch> divide(std::span<const SourcePiece> pieces) {
  std::vector<Batch> batches(1);
  for (const SourcePiece& piece : pieces) {
    const auto* source = dynamic_cast<const RegionSource*>(piece.source.get());
    const std::uint64_t unit = source == nullptr                       ? 1
                               : source->region().element_bytes() == 0 ? piece.size_bytes
                                                                       : source->region().element_bytes();
    for (std::uint64_t begin = 0; begin < piece.size_bytes;) {
      std::uint64_t room = kBatchBytes - std::min(kBatchBytes, batches.back().bytes);
      if (room < unit) {
        batches.emplace_back();
        room = std::max(kBatchBytes, unit);
      }
      const std::uint64_t bytes = std::min(piece.size_bytes - begin, room / unit * unit);
      batches.back().runs.push_back({&piece, begin, bytes});
      batches.back().bytes += bytes;
      begin += bytes;
    }
  }
  return batches;
}

/// A batch that is being read.
class BatchReading {
 public:
  BatchReading(const ArrayReader& arrays, const Batch& batch) : memory_(batch.bytes) {
    std::vector<RegionRange> ranges;
    std::span<std::byte> rest(memory_);
    for (const Batch::Run& run : batch.runs) {
      const std::span<std::byte> out = rest.first(run.bytes);
      if (const auto* from = dynamic_cast<const RegionSource*>(run.piece->source.get())) {
        ranges.push_back({&from->region(), run.begin_bytes, out});
      } else if (run.piece->source) {
        run.piece->source->read(run.begin_bytes, out);
      } else {
        std::memcpy(out.data(), run.piece->data + run.begin_bytes, run.bytes);
      }
      rest = rest.subspan(run.bytes);
    }
    if (!ranges.empty()) {
      reading_.emplace(start_ranges(arrays, ranges));
    }
  }

  [[nodiscard]] std::span<const std::byte> wait() {
    if (reading_) {
      reading_->wait();
    }
    return memory_;
  }

 private:
  std::vector<std::byte> memory_;
  std::optional<ArrayReading> reading_;  // Refers to the memory.
};

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
    const auto arrays = std::make_shared<const ArrayReader>(source_->root(), item.name);
    const array_store::PlannedWrite planned = plan(item, index, arrays, done);
    for (std::size_t i = 0; i < planned.files.size(); ++i) {
      write(*arrays, item, planned.files[i]);
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
                                 const std::shared_ptr<const ArrayReader>& arrays, RecutItem& done) {
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

  static std::size_t parts_in(const array_store::PlannedFile& file) {
    return static_cast<std::size_t>(
        std::count_if(file.pieces.begin(), file.pieces.end(), [](const SourcePiece& piece) {
          return dynamic_cast<const RegionSource*>(piece.source.get()) != nullptr;
        }));
  }

  /// One batch is read while the one before is written.
  void write(const ArrayReader& arrays, const CheckpointableEntry& item,
             const array_store::PlannedFile& planned) {
    store::AssembledFile file =
        assembly_.create(fmt::format("{}/{}", item.directory, planned.name), planned.size_bytes);
    std::optional<BatchReading> current;
    for (const Batch& batch : divide(planned.pieces)) {
      BatchReading next(arrays, batch);
      if (current) {
        file.append(current->wait());
      }
      current.emplace(std::move(next));
    }
    file.append(current->wait());
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

void print_answer(Output& out, const Arguments& arguments, const ShardingPolicy& policy,
                  const std::vector<RecutItem>& items) {
  out.print("{}: {}\n", path_text(arguments.other), policy.description());
  const std::array<Column, 3> columns{{{"FILE"}, {"PARTS", true}, {"SIZE", true}}};
  for (const RecutItem& item : items) {
    out.print("'{}':\n", printable(item.name));
    print_table(out, "  ", columns, [&](const RowVisitor& row) {
      for (const WrittenFile& file : item.files) {
        row({printable(file.name), count_text(file.parts), size_text(file.bytes)});
      }
    });
  }
}

void write_answer(JsonWriter json, const Arguments& arguments, const ShardingPolicy& policy,
                  const std::vector<RecutItem>& items) {
  json.begin_object().key("path").value(arguments.other.string()).key("policy").value(policy.description());
  json.key("checkpointables").begin_list();
  for (const RecutItem& item : items) {
    json.begin_object().key("name").value(item.name).key("files").begin_list();
    for (const WrittenFile& file : item.files) {
      json.begin_object(JsonLayout::line).key("name").value(file.name);
      json.key("parts").value(file.parts).key("bytes").value(file.bytes).end();
    }
    json.end().end();
  }
  json.end().end();
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

int reshard(const Arguments& arguments, Output& out) {
  const std::shared_ptr<const ShardingPolicy> policy = policy_of(arguments.recutting);
  const auto source = store::open_committed_source(io::posix_syscalls(), arguments.path);
  const auto& items = source->manifest()->checkpointables;
  const auto is_named = [&](const CheckpointableEntry& item) { return item.name == arguments.name; };
  if (!arguments.name.empty() && std::none_of(items.begin(), items.end(), is_named)) {
    throw_not_there(*source, arguments.name);
  }
  staging::OwnPlane own(io::posix_syscalls(), std::max<std::size_t>(std::thread::hardware_concurrency(), 1));
  store::StagedDirectory target = store::StagedDirectory::create(own.plane().engine, arguments.other);
  Resharding resharding(source, own, target, policy);
  for (const CheckpointableEntry& item : items) {
    if (arguments.name.empty() || is_named(item)) {
      resharding.recut(item);
    }
  }
  if (resharding.items().empty()) {
    throw Error(Errc::invalid_argument, arguments.name.empty()
                                            ? "no checkpointable has arrays"
                                            : fmt::format("'{}' has no arrays", arguments.name));
  }
  resharding.copy_others();
  require_same(*source);
  resharding.publish();
  if (arguments.is_json) {
    write_answer(json_to(out), arguments, *policy, resharding.items());
  } else {
    print_answer(out, arguments, *policy, resharding.items());
  }
  return 0;
}

}  // namespace cairn::cli
