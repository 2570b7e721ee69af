// SPDX-License-Identifier: Apache-2.0
#include "cairn/tools/torch_export.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "cairn/api/load.hpp"
#include "cairn/base/error.hpp"
#include "cairn/handlers/tree_handler.hpp"
#include "cairn/handlers/tree_leaf.hpp"

#include "base/internal/checked.hpp"
#include "formats/internal/dcp_metadata.hpp"
#include "formats/internal/index.hpp"
#include "formats/internal/pickle.hpp"
#include "formats/internal/pickle_writer.hpp"
#include "formats/internal/torch_archive.hpp"
#include "formats/internal/torch_writer.hpp"
#include "io/internal/file.hpp"
#include "tools/export_target.hpp"
#include "tools/internal/array_stream.hpp"
#include "tools/internal/checkpoint_view.hpp"
#include "tools/state_dict.hpp"

namespace cairn {
namespace {

using formats::PickleWriter;
using tools::StateNode;

constexpr std::string_view kDcpMetadata = "torch.distributed.checkpoint.metadata";
constexpr std::string_view kDcpFiles = "torch.distributed.checkpoint.filesystem";
constexpr std::string_view kMetadataFile = ".metadata";
constexpr std::string_view kDistributedLayout = "torch.distributed";

// Of Megatron-Core's folders: docs/megatron.md.
constexpr std::string_view kCommonKey = "common_state/shard_0_1";
constexpr std::string_view kCommonFile = "common.pt";
constexpr std::string_view kConfigFile = "metadata.json";

[[noreturn]] void refuse(std::string_view path, std::string_view why) {
  throw Error(Errc::invalid_argument, fmt::format("'{}': {}", path, why));
}

/// The arrays and values of an export, whatever form they get.
struct TorchPlan {
  TorchPlan(const CheckpointMetadata& metadata, const ExportOptions& options) : chosen(options.only) {
    description = tools::plan_arrays(plan, metadata, options, chosen, &held);
    root = tools::state_dict(plan, description, held, options, chosen);
    std::optional<std::uint64_t> sum = 0;
    for (const ExportedArray& array : plan.arrays) {
      sum = checked_add(*sum, array.bytes);
      if (!sum || *sum > formats::kMaxArchiveBytes) {
        refuse(array.path,
               fmt::format("with its {} bytes the arrays exceed the {} that files of torch can have",
                           array.bytes, formats::kMaxArchiveBytes));
      }
    }
  }

  ExportPlan plan;
  tools::ChosenPaths chosen;
  Description description;  // The nodes refer to its values.
  tools::HeldArrays held;
  StateNode root;
};

/// An archive of torch.save in a file.
struct PlacedArchive {
  formats::TorchArchiveWriter archive;
  std::uint64_t begin = 0;
  std::vector<std::size_t> arrays;  ///< Of the plan, one for each storage.
};

/// Opens the arrays, where some are not in memory.
std::optional<ArrayReader> open_reader(const CheckpointMetadata& from, const TorchPlan& torch,
                                       const ExportOptions& options) {
  const bool are_held =
      std::all_of(torch.plan.arrays.begin(), torch.plan.arrays.end(),
                  [&](const ExportedArray& array) { return torch.held.contains(array.path); });
  return are_held
             ? std::nullopt
             : std::optional(tools::CheckpointView(from).reader(torch.plan.checkpointable, options.layouts));
}

/// Writes the elements of the arrays that lie in some archives, and sums them up.
void write_storages(const std::optional<ArrayReader>& reader, const TorchPlan& torch,
                    std::span<PlacedArchive> archives, const io::FileHandle& out,
                    const std::filesystem::path& path, tools::Tally& tally) {
  const auto write = [&](PlacedArchive& to, std::size_t storage, std::uint64_t offset_bytes,
                         std::span<const std::byte> bytes) {
    to.archive.add_to_sum(storage, bytes);
    io::write_all(out, bytes, to.begin + to.archive.begin_of(storage) + offset_bytes, path);
    tally.add(bytes.size());
  };
  std::vector<tools::Region> regions;
  std::vector<std::pair<PlacedArchive*, std::size_t>> storages;
  for (PlacedArchive& each : archives) {
    for (std::size_t storage = 0; storage < each.arrays.size(); ++storage) {
      const ExportedArray& array = torch.plan.arrays[each.arrays[storage]];
      if (const auto held = torch.held.find(array.path); held != torch.held.end()) {
        const Array whole = held->second.view().is_contiguous() ? held->second : held->second.clone();
        write(each, storage, 0, whole.view().bytes());
        continue;
      }
      regions.push_back(tools::exported_region(*reader, array));
      storages.emplace_back(&each, storage);
    }
  }
  if (regions.empty()) {
    return;
  }
  tools::ArrayStream stream(*reader, std::move(regions));
  while (const std::optional<tools::RegionPiece> piece = stream.next()) {
    const auto [to, storage] = storages[piece->region];
    write(*to, storage, piece->offset_bytes, piece->bytes);
  }
}

/// Writes a file of archives that lie one behind the other.
void write_archives(const std::optional<ArrayReader>& reader, const TorchPlan& torch,
                    std::span<PlacedArchive> archives, const std::string& name,
                    const tools::ExportStaging& staging, tools::Tally& tally) {
  const std::filesystem::path path = staging.folder().path() / name;
  io::FileHandle out =
      staging.create_file(name, archives.back().begin + archives.back().archive.size_bytes());
  write_storages(reader, torch, archives, out, path, tally);
  for (const PlacedArchive& each : archives) {
    each.archive.write_rest([&](std::uint64_t begin, std::string_view bytes) {
      io::write_all(out, std::as_bytes(std::span(bytes)), each.begin + begin, path);
    });
  }
  staging.finish(out, name);
}

/// Puts all in one archive. Names of one array share its storage.
PlacedArchive make_archive(const TorchPlan& torch) {
  const std::vector<ExportedArray>& arrays = torch.plan.arrays;
  std::map<std::string_view, std::string_view> first_names;
  for (const ArrayEntry& array : torch.description.arrays) {
    if (!array.alias_of.empty()) {
      first_names.emplace(array.name, array.alias_of);
    }
  }
  std::map<std::string_view, std::size_t> numbers;
  std::vector<std::size_t> storage_of;
  std::vector<std::size_t> stored;
  std::vector<std::uint64_t> bytes;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::string_view path = arrays[i].path;
    const auto first = first_names.find(path);
    const auto [number, is_new] =
        numbers.try_emplace(first == first_names.end() ? path : first->second, stored.size());
    storage_of.push_back(number->second);
    if (is_new) {
      stored.push_back(i);
      bytes.push_back(arrays[i].bytes);
    }
  }
  PickleWriter pickle;
  tools::write_node(pickle, torch.root, [&](std::size_t i) {
    formats::write_tensor(pickle, arrays[i].dtype, arrays[i].shape, fmt::to_string(storage_of[i]));
  });
  return {formats::TorchArchiveWriter(std::move(pickle).take(), bytes), 0, std::move(stored)};
}

// ---- distributed checkpoints

/// A key of a map, or a place in a list.
using StateKey = std::variant<std::string, std::uint64_t>;

/// A tensor of a distributed checkpoint, or an object.
struct DcpEntry {
  std::string name;
  std::vector<StateKey> keys;
  const StateNode* node = nullptr;
  bool is_list_of_one = false;  ///< In which an object lies.
  std::size_t array = 0;        ///< Of the plan, for a tensor.
  std::string file;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;

  [[nodiscard]] bool is_tensor() const { return node->array.has_value() && !is_list_of_one; }
};

/// Takes a state dict apart as torch does: maps always, and lists that hold maps or tensors.
class StateFlattener {
 public:
  explicit StateFlattener(ExportPlan& plan) : plan_(plan) {}

  void visit(const StateNode& node, const std::vector<StateKey>& keys) {
    if (is_entry(node)) {
      add(node, keys);
      return;
    }
    if (node.children.empty()) {
      plan_.left_out.push_back(fmt::format("{} (an empty map)", node.path));
    }
    for (const auto& [key, child] : node.children) {
      std::vector<StateKey> below = keys;
      below.push_back(node.is_list ? StateKey(std::uint64_t{std::stoull(key)}) : StateKey(key));
      visit(child, below);
    }
  }

  [[nodiscard]] std::vector<DcpEntry> take() && { return std::move(entries_); }

 private:
  static bool is_entry(const StateNode& node) {
    if (node.is_leaf()) {
      return node.array || node.value->kind != name(TreeKind::map);
    }
    return node.is_list && std::all_of(node.children.begin(), node.children.end(), [](const auto& child) {
             return !child.second.array && is_entry(child.second);
           });
  }

  void add(const StateNode& node, std::vector<StateKey> keys) {
    if (keys.empty()) {
      keys.emplace_back(plan_.checkpointable);  // It is all there is.
    }
    std::string joined;
    for (const StateKey& key : keys) {
      joined += &key == keys.data() ? "" : ".";
      std::visit([&](const auto& part) { joined += fmt::format("{}", part); }, key);
    }
    const auto [other, is_new] = paths_.emplace(joined, node.path);
    if (!is_new) {
      refuse(node.path,
             fmt::format("it and '{}' would both be called '{}', since torch joins keys by points; "
                         "rename one",
                         other->second, joined));
    }
    DcpEntry entry;
    entry.name = std::move(joined);
    entry.keys = std::move(keys);
    entry.node = &node;
    entries_.push_back(std::move(entry));
  }

  ExportPlan& plan_;
  std::vector<DcpEntry> entries_;
  std::map<std::string, std::string> paths_;
};

/// Pickles what an entry is; `array` pickles an array of the plan.
void write_entry(PickleWriter& pickle, const DcpEntry& entry,
                 const std::function<void(std::size_t array)>& array) {
  if (entry.is_list_of_one) {
    pickle.begin_list();
  }
  tools::write_node(pickle, *entry.node, array);
  if (entry.is_list_of_one) {
    pickle.end_list();
  }
}

/// Decides where each entry lies: in an archive of its own, in which file. The plan gets its arrays in that order.
std::vector<std::vector<PlacedArchive>> place(std::vector<DcpEntry>& entries, ExportPlan& plan,
                                              std::uint64_t max_file_bytes) {
  std::vector<std::vector<PlacedArchive>> files;
  std::vector<ExportedArray> ordered;
  for (DcpEntry& entry : entries) {
    PickleWriter pickle;
    std::vector<std::size_t> arrays;
    std::vector<std::uint64_t> storage_bytes;
    entry.array = ordered.size();
    write_entry(pickle, entry, [&](std::size_t i) {
      formats::write_tensor(pickle, plan.arrays[i].dtype, plan.arrays[i].shape,
                            fmt::to_string(arrays.size()));
      arrays.push_back(ordered.size());
      storage_bytes.push_back(plan.arrays[i].bytes);
      ordered.push_back(plan.arrays[i]);
      ordered.back().name = entry.name;
    });
    formats::TorchArchiveWriter archive(std::move(pickle).take(), storage_bytes);
    entry.bytes = archive.size_bytes();
    if (files.empty() || plan.files.back().bytes + entry.bytes > max_file_bytes) {
      plan.files.push_back(
          {fmt::format("__0_{}.distcp", files.size()), ordered.size() - arrays.size(), 0, 0});
      files.emplace_back();
    }
    ExportedFile& file = plan.files.back();
    entry.file = file.name;
    entry.begin = file.bytes;
    file.arrays += arrays.size();
    file.bytes += entry.bytes;
    files.back().push_back({std::move(archive), entry.begin, std::move(arrays)});
  }
  plan.arrays = std::move(ordered);
  return files;
}

void write_size(PickleWriter& pickle, const Shape& shape) {
  pickle.global("torch", "Size").begin_tuple().tuple(shape).end_tuple().call();
}

/// The metadata of a tensor that is one chunk.
void write_tensor_metadata(PickleWriter& pickle, const ExportedArray& array) {
  pickle.global(kDcpMetadata, "TensorStorageMetadata").new_object().begin_map().text("properties");
  // The dtype, the layout, whether it needs a gradient, the memory format (0: contiguous), whether it is pinned.
  pickle.global(kDcpMetadata, "TensorProperties").new_object().begin_tuple();
  pickle.global("torch", formats::find_torch_type(array.dtype)->dtype);
  pickle.global("torch.serialization", "_get_layout").begin_tuple().text("torch.strided").end_tuple().call();
  pickle.boolean(false);
  pickle.global(kDcpMetadata, "_MEM_FORMAT_ENCODING").begin_tuple().integer(0).end_tuple().call();
  pickle.boolean(false).end_tuple().build().text("size");
  write_size(pickle, array.shape);
  pickle.text("chunks").begin_list();
  pickle.global(kDcpMetadata, "ChunkStorageMetadata").new_object().begin_map().text("offsets");
  write_size(pickle, Shape(array.shape.size(), 0));
  pickle.text("sizes");
  write_size(pickle, array.shape);
  pickle.end_map().build().end_list().end_map().build();
}

/// Where the bytes of an entry lie. That of a tensor is found by the offset of its chunk, too.
void write_storage_info(PickleWriter& pickle, const DcpEntry& entry, const ExportPlan& plan) {
  pickle.global(kDcpMetadata, "MetadataIndex").new_object().begin_map().text("fqn").text(entry.name);
  pickle.text("offset");
  if (entry.is_tensor()) {
    write_size(pickle, Shape(plan.arrays[entry.array].shape.size(), 0));
    pickle.text("index").integer(0);
  } else {
    pickle.none().text("index").none();
  }
  pickle.end_map().build();
  pickle.global(kDcpFiles, "_StorageInfo").new_object().begin_map();
  pickle.text("relative_path").text(entry.file);
  pickle.text("offset").unsigned_integer(entry.begin).text("length").unsigned_integer(entry.bytes);
  pickle.end_map().build();
}

struct KeyWriter {
  PickleWriter& pickle;
  void operator()(const std::string& key) const { pickle.text(key); }
  void operator()(std::uint64_t place) const { pickle.unsigned_integer(place); }
};

/// What torch.distributed.checkpoint.metadata.Metadata says of it all.
std::string dcp_metadata(const std::vector<DcpEntry>& entries, const ExportPlan& plan) {
  PickleWriter pickle;
  pickle.global(kDcpMetadata, "Metadata").new_object().begin_map().text("state_dict_metadata").begin_map();
  for (const DcpEntry& entry : entries) {
    pickle.text(entry.name);
    if (entry.is_tensor()) {
      write_tensor_metadata(pickle, plan.arrays[entry.array]);
    } else {
      pickle.global(kDcpMetadata, "BytesStorageMetadata").new_object();
    }
  }
  pickle.end_map().text("planner_data").begin_map();  // Where each value lay in the state dict.
  for (const DcpEntry& entry : entries) {
    pickle.text(entry.name).begin_tuple();
    for (const StateKey& key : entry.keys) {
      std::visit(KeyWriter{pickle}, key);
    }
    pickle.end_tuple();
  }
  pickle.end_map().text("storage_data").begin_map();
  for (const DcpEntry& entry : entries) {
    write_storage_info(pickle, entry, plan);
  }
  pickle.end_map().end_map().build();
  if (pickle.size_bytes() > formats::kMaxPickleBytes) {
    refuse(plan.checkpointable, fmt::format("its names make a '{}' of {} bytes; {} at most are read",
                                            kMetadataFile, pickle.size_bytes(), formats::kMaxPickleBytes));
  }
  return std::move(pickle).take();
}

void require_no_packed(const ExportPlan& plan) {
  for (const ExportedArray& array : plan.arrays) {
    if (is_packed(array.dtype)) {
      refuse(array.path,
             "distributed checkpoints have no float4; cast it by --dtype or ExportOptions::dtype");
    }
  }
}

/// Writes the files of a plan and, behind them, some small ones.
void write_folder(const CheckpointMetadata& from, const std::filesystem::path& target,
                  const ExportOptions& options, const TorchPlan& torch,
                  std::span<std::vector<PlacedArchive>> files,
                  const std::vector<std::pair<std::string_view, std::string_view>>& small_files) {
  const tools::ExportStaging staging(from.path, target, true);
  tools::Tally tally(torch.plan, options);
  const std::optional<ArrayReader> reader = open_reader(from, torch, options);
  for (std::size_t i = 0; i < files.size(); ++i) {
    write_archives(reader, torch, files[i], torch.plan.files[i].name, staging, tally);
  }
  for (const auto& [name, text] : small_files) {
    io::write_small_file(staging.folder(), name, text);
  }
  tally.add(0);
  staging.publish();
}

/// The tensors and objects of a state dict by their keys, without common state.
std::vector<DcpEntry> entries_of_state(const TorchPlan& torch) {
  std::vector<DcpEntry> entries;
  for (const auto& [key, node] : torch.root.children) {
    if (key == kCommonKey) {
      continue;
    }
    std::string path;
    formats::append_key(path, key);
    const bool is_stored_array = node.array && !torch.held.contains(node.path);
    DcpEntry entry;
    entry.name = key;
    entry.keys = {key};
    entry.node = &node;
    entry.is_list_of_one = !is_stored_array;  // So Megatron-Core saves objects.
    if (!is_stored_array && !formats::is_name_of_shard(path)) {
      refuse(
          path,
          "it is not a tensor, nor does its name end in '/shard_<offset>_<shape>' as those of objects do: a "
          "torch_dist folder has no place for it; choose others by --only or ExportOptions::only");
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// Puts common state into a file of its own, the last of the plan. `all` are the arrays as the nodes know them.
std::vector<PlacedArchive> place_common(TorchPlan& torch, const std::vector<ExportedArray>& all) {
  PickleWriter pickle;
  std::vector<std::size_t> arrays;
  std::vector<std::uint64_t> storage_bytes;
  ExportPlan& plan = torch.plan;
  const std::size_t first = plan.arrays.size();
  if (const auto common = torch.root.children.find(kCommonKey); common == torch.root.children.end()) {
    pickle.begin_map().end_map();
  } else {
    tools::write_node(pickle, common->second, [&](std::size_t i) {
      formats::write_tensor(pickle, all[i].dtype, all[i].shape, fmt::to_string(arrays.size()));
      arrays.push_back(plan.arrays.size());
      storage_bytes.push_back(all[i].bytes);
      plan.arrays.push_back(all[i]);
    });
  }
  formats::TorchArchiveWriter archive(std::move(pickle).take(), storage_bytes);
  plan.files.push_back({std::string(kCommonFile), first, arrays.size(), archive.size_bytes()});
  std::vector<PlacedArchive> placed;
  placed.push_back({std::move(archive), 0, std::move(arrays)});
  return placed;
}

}  // namespace

ExportPlan write_torch_archive(const std::filesystem::path& from, const std::filesystem::path& target,
                               const ExportOptions& options, const Context& context) {
  return write_torch_archive(checkpointables_metadata(from, context), target, options);
}

ExportPlan write_torch_archive(const CheckpointMetadata& from, const std::filesystem::path& target,
                               const ExportOptions& options) {
  TorchPlan torch(from, options);
  std::vector<PlacedArchive> archives;
  archives.push_back(make_archive(torch));
  const tools::ExportStaging staging(from.path, target, false);
  tools::Tally tally(torch.plan, options);
  const std::string name = staging.target_name();
  torch.plan.files = {{name, 0, torch.plan.arrays.size(), archives.front().archive.size_bytes()}};
  write_archives(open_reader(from, torch, options), torch, archives, name, staging, tally);
  tally.add(0);
  staging.publish();
  return std::move(torch.plan);
}

ExportPlan write_torch_distributed(const std::filesystem::path& from, const std::filesystem::path& target,
                                   const ExportOptions& options, const Context& context) {
  return write_torch_distributed(checkpointables_metadata(from, context), target, options);
}

ExportPlan write_torch_distributed(const CheckpointMetadata& from, const std::filesystem::path& target,
                                   const ExportOptions& options) {
  TorchPlan torch(from, options);
  require_no_packed(torch.plan);
  StateFlattener flattener(torch.plan);
  flattener.visit(torch.root, {});
  std::vector<DcpEntry> entries = std::move(flattener).take();
  if (entries.empty()) {
    refuse(torch.plan.checkpointable, "it holds nothing that a distributed checkpoint can have");
  }
  std::vector<std::vector<PlacedArchive>> files = place(entries, torch.plan, options.max_file_bytes);
  const std::string metadata = dcp_metadata(entries, torch.plan);
  write_folder(from, target, options, torch, files, {{kMetadataFile, metadata}});
  return std::move(torch.plan);
}

ExportPlan write_torch_dist(const std::filesystem::path& from, const std::filesystem::path& target,
                            const ExportOptions& options, const Context& context) {
  return write_torch_dist(checkpointables_metadata(from, context), target, options);
}

ExportPlan write_torch_dist(const CheckpointMetadata& from, const std::filesystem::path& target,
                            const ExportOptions& options) {
  TorchPlan torch(from, options);
  require_no_packed(torch.plan);
  const ItemMetadata& item = from.items.at(torch.plan.checkpointable);
  const bool has_common = torch.root.children.contains(kCommonKey);
  if (item.handler_id != kStateDictId && !(item.description().layout == kDistributedLayout && has_common)) {
    refuse(torch.plan.checkpointable,
           "it is not a state dict of Megatron-Core, of which alone a torch_dist folder can be made; write a "
           "distributed checkpoint (--format dcp or write_torch_distributed)");
  }
  std::vector<DcpEntry> entries = entries_of_state(torch);
  const std::vector<ExportedArray> all = torch.plan.arrays;
  std::vector<std::vector<PlacedArchive>> files = place(entries, torch.plan, options.max_file_bytes);
  const std::string metadata = dcp_metadata(entries, torch.plan);
  files.push_back(place_common(torch, all));
  constexpr std::string_view kConfig =
      R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", "common_backend_version": 1})";
  // Megatron-Core writes this file last: who finds it finds all.
  write_folder(from, target, options, torch, files, {{kMetadataFile, metadata}, {kConfigFile, kConfig}});
  return std::move(torch.plan);
}

}  // namespace cairn
