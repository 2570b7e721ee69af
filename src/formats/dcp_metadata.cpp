// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/dcp_metadata.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/index.hpp"
#include "cairn/sharding/flat_range.hpp"

#include "base/internal/checked.hpp"
#include "base/internal/utf8.hpp"
#include "formats/file_name.hpp"
#include "formats/internal/pickle.hpp"
#include "formats/internal/torch_archive.hpp"
#include "formats/torch_nodes.hpp"

namespace cairn::formats {
namespace {

constexpr std::string_view kModule = "torch.distributed.checkpoint.metadata.";
constexpr std::size_t kMostMembers = 64;  // Of an object; torch writes ten.
constexpr std::string_view kMetadataName = ".metadata";

/// Where one of the values of a checkpoint lies: `storage_data` maps names and offsets to these.
struct StoredChunk {
  std::string_view name;
  std::size_t hash = 0;  ///< Of the name and the offset, so that few are compared.
  Shape offset;          ///< Empty for an object.
  FileRange range;
  std::uint32_t form = 0;
};

std::size_t hash_of(std::string_view name, const Shape& offset) noexcept {
  std::size_t hash = std::hash<std::string_view>{}(name);
  for (const std::uint64_t number : offset) {
    hash = (hash ^ static_cast<std::size_t>(number)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

bool comes_before(const StoredChunk& a, const StoredChunk& b) {
  if (a.hash != b.hash) {
    return a.hash < b.hash;
  }
  if (a.name != b.name) {
    return a.name < b.name;
  }
  return std::lexicographical_compare(a.offset.begin(), a.offset.end(), b.offset.begin(), b.offset.end());
}

class DcpDescriber {
 public:
  DcpDescriber(const Pickle& pickle, std::string_view path)
      : pickle_(&pickle), path_(path), budget_(pickle.input_bytes(), path) {
    catalogue_.is_located = false;
  }

  ForeignCatalogue run() {
    const PickleNode root = pickle_->root();
    if (pickle_->kind(root) != PickleKind::object || !pickle_->class_name(root).ends_with("Metadata")) {
      refuse("", "it does not describe a checkpoint of torch.distributed");
    }
    const PickleNode state = pickle_->state(root);
    read_storage(member(state, "storage_data", ""));
    if (const auto flattened = optional_member(state, "mcore_data"); flattened && *flattened != kNoneNode) {
      for_each(*flattened,
               [&](PickleNode key, PickleNode value) { flattened_[text(key, "a name")] = value; });
    }
    for_each(member(state, "state_dict_metadata", ""),
             [&](PickleNode key, PickleNode value) { describe_entry(text(key, "a name"), value); });
    return std::move(catalogue_);
  }

 private:
  [[noreturn]] void refuse(std::string_view name, std::string_view why) const {
    throw Error(Errc::malformed_metadata, name.empty() ? fmt::format("{}: {}", path_, why)
                                                       : fmt::format("{}: '{}': {}", path_, name, why));
  }

  // ---- nodes

  [[nodiscard]] std::optional<PickleNode> optional_member(PickleNode map, std::string_view key) const {
    if (pickle_->kind(map) != PickleKind::map) {
      return std::nullopt;
    }
    if (pickle_->size(map) > 2 * kMostMembers) {  // It may be shared, and would be searched for each chunk.
      refuse("", fmt::format("an object with '{}' has more than {} members", key, kMostMembers));
    }
    return pickle_->find(map, key);
  }

  [[nodiscard]] PickleNode member(PickleNode map, std::string_view key, std::string_view name) const {
    const std::optional<PickleNode> found = optional_member(map, key);
    if (!found) {
      refuse(name, fmt::format("'{}' is missing", key));
    }
    return *found;
  }

  template <class Each>
  void for_each(PickleNode map, const Each& each) const {
    if (pickle_->kind(map) != PickleKind::map) {
      refuse("", "something else stands in the place of a map");
    }
    PickleNode key{};
    PickleNode value{};
    for (Pickle::Items items = pickle_->items(map); items.next(key) && items.next(value);) {
      each(key, value);
    }
  }

  [[nodiscard]] std::string_view text(PickleNode node, std::string_view what) const {
    if (pickle_->kind(node) != PickleKind::text || !is_valid_utf8(pickle_->text(node))) {
      refuse("", fmt::format("{} is not a text", what));
    }
    return pickle_->text(node);
  }

  [[nodiscard]] std::uint64_t count(PickleNode node, std::string_view name) const {
    const std::optional<std::uint64_t> number = count_of(*pickle_, node);
    if (!number) {
      refuse(name, "a number from 0 up was expected");
    }
    return *number;
  }

  [[nodiscard]] Shape shape(PickleNode node, std::string_view name) const {
    std::optional<Shape> numbers = shape_of(*pickle_, node);
    if (!numbers) {
      refuse(name, "a size or an offset is not a tuple of numbers from 0 up");
    }
    return std::move(*numbers);
  }

  /// Returns whether a node is an object of that class; its state is then a map, where it has one.
  [[nodiscard]] bool is_object(PickleNode node, std::string_view class_name) const {
    return pickle_->kind(node) == PickleKind::object &&
           pickle_->class_name(node) == std::string(kModule).append(class_name);
  }

  // ---- storage_data

  void read_storage(PickleNode map) {
    stored_.reserve(pickle_->kind(map) == PickleKind::map ? pickle_->size(map) / 2 : 0);
    for_each(map, [&](PickleNode key, PickleNode value) {
      if (pickle_->kind(key) != PickleKind::object || pickle_->kind(value) != PickleKind::object) {
        refuse("", "'storage_data' maps other than places to files");
      }
      stored_.push_back(stored_chunk(pickle_->state(key), pickle_->state(value)));
    });
    for (std::uint32_t i = 0; i < stored_.size(); ++i) {
      order_.emplace_back(stored_[i].hash, i);
    }
    std::sort(order_.begin(), order_.end(), [&](const Place& a, const Place& b) {
      return a.first != b.first ? a.first < b.first : comes_before(stored_[a.second], stored_[b.second]);
    });
  }

  StoredChunk stored_chunk(PickleNode index, PickleNode info) {
    StoredChunk chunk;
    chunk.name = text(member(index, "fqn", ""), "a name in 'storage_data'");
    if (const auto offset = optional_member(index, "offset"); offset && *offset != kNoneNode) {
      chunk.offset = shape(*offset, chunk.name);
    }
    chunk.hash = hash_of(chunk.name, chunk.offset);
    const std::string_view file = text(member(info, "relative_path", chunk.name), "the name of a file");
    chunk.range.file = number_of_file(file);
    chunk.range.begin = count(member(info, "offset", chunk.name), chunk.name);
    const std::uint64_t length = count(member(info, "length", chunk.name), chunk.name);
    chunk.range.end = chunk.range.begin + length;  // Both are below 2^63.
    if (chunk.range.end > static_cast<std::uint64_t>(INT64_MAX)) {
      refuse(chunk.name, "it ends beyond 2^63 bytes");
    }
    const auto transforms = optional_member(info, "transform_descriptors");
    if (transforms && *transforms != kNoneNode) {
      chunk.form = form_of(*transforms, chunk.name);
    }
    return chunk;
  }

  std::uint32_t form_of(PickleNode transforms, std::string_view name) {
    const PickleKind kind = pickle_->kind(transforms);
    if ((kind != PickleKind::list && kind != PickleKind::tuple) || pickle_->size(transforms) > kMaxRank) {
      refuse(name, "'transform_descriptors' is not a list");
    }
    SliceForm form;
    PickleNode node{};
    for (Pickle::Items items = pickle_->items(transforms); items.next(node);) {
      budget_.take(text(node, "a transform").size());
      form.codecs.emplace_back(text(node, "a transform"));
    }
    return catalogue_.add_form(form);
  }

  std::uint32_t number_of_file(std::string_view file) {
    const auto [known, is_new] =
        file_numbers_.try_emplace(file, static_cast<std::uint32_t>(catalogue_.files.size()));
    if (is_new) {
      if (!is_plain_file_name(file)) {
        refuse("", fmt::format("'{}' is not a plain file name", file));
      }
      budget_.take(file.size());
      catalogue_.files.emplace_back(file);
    }
    return known->second;
  }

  [[nodiscard]] const StoredChunk& find_stored(std::string_view name, const Shape& offset) const {
    StoredChunk wanted;
    wanted.name = name;
    wanted.offset = offset;
    wanted.hash = hash_of(name, offset);
    const auto found = std::lower_bound(order_.begin(), order_.end(), wanted,
                                        [&](const Place& place, const StoredChunk& chunk) {
                                          return comes_before(stored_[place.second], chunk);
                                        });
    if (found == order_.end() || comes_before(wanted, stored_[found->second])) {
      throw Error(Errc::incomplete_shards,
                  fmt::format("{}: the part of '{}' at {} is in no file", path_, name, offset));
    }
    return stored_[found->second];
  }

  // ---- state_dict_metadata

  void describe_entry(std::string_view name, PickleNode entry) {
    std::string tree_path;
    append_key(tree_path, name);
    budget_.take(tree_path.size());
    if (is_object(entry, "BytesStorageMetadata")) {
      const StoredChunk& stored = find_stored(name, {});
      catalogue_.objects.push_back({std::move(tree_path), stored.range, stored.form});
      return;
    }
    if (!is_object(entry, "TensorStorageMetadata")) {
      refuse(name, fmt::format("it is neither a tensor nor an object but '{}'",
                               pickle_->kind(entry) == PickleKind::object ? pickle_->class_name(entry) : ""));
    }
    const PickleNode state = pickle_->state(entry);
    const std::string type = dtype_name(member(state, "properties", name), name);
    constexpr std::string_view kTorch = "torch.";
    const std::optional<DType> dtype =
        type.starts_with(kTorch) ? torch_dtype(std::string_view(type).substr(kTorch.size())) : std::nullopt;
    if (!dtype || is_packed(*dtype)) {  // Half as many elements would lie in each box.
      budget_.take(type.size());
      catalogue_.left_out.push_back({std::move(tree_path), fmt::format("a tensor of '{}'", type)});
      return;
    }
    ForeignArray array;
    array.path = std::move(tree_path);
    array.dtype = *dtype;
    array.shape = shape(member(state, "size", name), name);
    if (!byte_count(array.dtype, array.shape)) {
      refuse(name, fmt::format("{} of shape {} exceeds 2^63 bytes", type, array.shape));
    }
    add_slices(name, member(state, "chunks", name), array);
    catalogue_.arrays.push_back(std::move(array));
  }

  [[nodiscard]] std::string dtype_name(PickleNode properties, std::string_view name) const {
    const PickleNode state =
        pickle_->kind(properties) == PickleKind::object ? pickle_->state(properties) : kNoneNode;
    if (pickle_->kind(state) != PickleKind::tuple || pickle_->size(state) == 0 ||
        pickle_->kind(pickle_->item(state, 0)) != PickleKind::global) {
      refuse(name, "its properties have no dtype");
    }
    return pickle_->class_name(pickle_->item(state, 0));
  }

  void add_slices(std::string_view name, PickleNode chunks, ForeignArray& array) {
    const auto original = flattened_.find(name);
    const std::optional<PickleNode> whole =
        original == flattened_.end() ? std::nullopt
                                     : optional_member(original->second, "nd_reformulated_orig_global_shape");
    const Shape stored_shape = array.shape;
    if (whole) {
      array.shape = shape(*whole, name);
    }
    if (pickle_->kind(chunks) != PickleKind::list) {
      refuse(name, "'chunks' is not a list");
    }
    if (!whole) {
      budget_.take(pickle_->size(chunks) * sizeof(std::uint64_t));
      array.slices.reserve(pickle_->size(chunks));
    }
    PickleNode chunk{};
    for (Pickle::Items items = pickle_->items(chunks); items.next(chunk);) {
      if (pickle_->kind(chunk) != PickleKind::object) {
        refuse(name, "a chunk is not an object");
      }
      const PickleNode state = pickle_->state(chunk);
      const Shape offsets = shape(member(state, "offsets", name), name);
      const Shape sizes = shape(member(state, "sizes", name), name);
      const Box box = offsets.size() == sizes.size() ? Box(offsets, sizes) : Box();
      if (offsets.size() != sizes.size() || !box.is_within(stored_shape)) {
        refuse(name, fmt::format("a chunk of {} at {} is not inside {}", sizes, offsets, stored_shape));
      }
      if (box.is_empty()) {
        continue;  // It may share its offset with a full one, and only one of the two is in a file.
      }
      const StoredChunk& stored = find_stored(name, offsets);
      ForeignSlice slice;
      slice.range = stored.range;
      slice.form = stored.form;
      slice.elements = element_count(sizes).value_or(0);
      if (whole) {
        add_flat(name, box, stored_shape, slice, array);
      } else {
        slice.box = box;
        take_slice(array.shape.size());
        array.slices.push_back(std::move(slice));
      }
    }
  }

  void take_slice(std::size_t rank) { budget_.take(2 * rank * sizeof(std::uint64_t)); }

  /// Adds a chunk of a flattened state: of an array [X, Y] that is stored as [X/x, Y/y, x*y] a run of the last axis is
  /// a run of elements of one block of [x, y].
  void add_flat(std::string_view name, const Box& chunk, const Shape& stored_shape, const ForeignSlice& slice,
                ForeignArray& array) {
    const std::size_t rank = array.shape.size();
    if (chunk.rank() != rank + 1) {
      refuse(name, fmt::format("an array of shape {} is stored as {}", array.shape, stored_shape));
    }
    Shape offsets(rank, 0);
    Shape extents(rank, 0);
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const std::uint64_t blocks = stored_shape[axis];
      if (blocks == 0 || array.shape[axis] % blocks != 0 || chunk.extents()[axis] != 1) {
        refuse(name, fmt::format("an array of shape {} does not divide into what is stored of it, {}",
                                 array.shape, stored_shape));
      }
      extents[axis] = array.shape[axis] / blocks;
      offsets[axis] = chunk.begin(axis) * extents[axis];
    }
    const Box block(offsets, extents);
    if (element_count(extents) != stored_shape[rank] || block.is_empty()) {
      refuse(name, fmt::format("blocks of {} are stored as {} elements", extents, stored_shape[rank]));
    }
    for (FlatPiece& piece : boxes_of_flat_range(block, chunk.begin(rank), chunk.end(rank))) {
      take_slice(rank);
      ForeignSlice part = slice;
      part.box = std::move(piece.box);
      part.first = piece.first;
      array.slices.push_back(std::move(part));
    }
  }

  const Pickle* pickle_;
  std::string_view path_;
  DescriptionBudget budget_;
  ForeignCatalogue catalogue_;
  using Place = std::pair<std::size_t, std::uint32_t>;  ///< A hash, and which of stored_ has it.
  std::vector<StoredChunk> stored_;
  std::vector<Place> order_;  ///< Sorted: cheaper to move than what lies there.
  std::unordered_map<std::string_view, std::uint32_t> file_numbers_;
  std::unordered_map<std::string_view, PickleNode> flattened_;  ///< What `mcore_data` says of names.
};

/// The rank of "__12.metadata", or nothing for another name.
std::optional<std::size_t> rank_of(std::string_view file) {
  constexpr std::string_view kPrefix = "__";
  if (!file.starts_with(kPrefix) || !file.ends_with(kMetadataName)) {
    return std::nullopt;
  }
  const std::string_view digits =
      file.substr(kPrefix.size(), file.size() - std::min(file.size(), kPrefix.size() + kMetadataName.size()));
  const bool is_number =
      !digits.empty() && digits.size() < 10 && (digits == "0" || digits.front() != '0') &&
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_number) {
    return std::nullopt;
  }
  std::size_t rank = 0;
  for (const char digit : digits) {
    rank = 10 * rank + static_cast<std::size_t>(digit - '0');
  }
  return rank;
}

}  // namespace

std::vector<std::string> dcp_metadata_files(std::span<const std::string> files) {
  if (std::find(files.begin(), files.end(), kMetadataName) != files.end()) {
    return {std::string(kMetadataName)};
  }
  std::map<std::size_t, std::string> by_rank;
  for (const std::string& file : files) {
    if (const std::optional<std::size_t> rank = rank_of(file)) {
      by_rank.emplace(*rank, file);
    }
  }
  std::vector<std::string> found;
  for (auto& [rank, file] : by_rank) {
    if (rank != found.size()) {
      throw Error(Errc::incomplete_shards,
                  fmt::format("'{}' is there, but '__{}.metadata' is missing", file, found.size()));
    }
    found.push_back(std::move(file));
  }
  return found;
}

ForeignCatalogue describe_dcp_metadata(std::span<const std::byte> bytes, std::string_view path) {
  const Pickle pickle = Pickle::read(bytes, path);
  return DcpDescriber(pickle, path).run();
}

namespace {

/// What several ranks say, as it grows.
class RankJoin {
 public:
  void add(const ForeignCatalogue& rank) {
    file_numbers_.clear();
    for (const std::string& file : rank.files) {
      const auto [known, is_new] = files_.try_emplace(file, static_cast<std::uint32_t>(joined_.files.size()));
      if (is_new) {
        joined_.files.push_back(file);
      }
      file_numbers_.push_back(known->second);
    }
    for (const ForeignArray& array : rank.arrays) {
      add_array(rank, array);
    }
    for (ForeignObject object : rank.objects) {
      if (names_.try_emplace(object.path, joined_.arrays.size()).second) {
        adopt(rank, object.range, object.form);
        joined_.objects.push_back(std::move(object));
      }
    }
    for (const LeftOut& left_out : rank.left_out) {
      if (names_.try_emplace(left_out.path, joined_.arrays.size()).second) {
        joined_.left_out.push_back(left_out);
      }
    }
  }

  ForeignCatalogue take() { return std::move(joined_); }

 private:
  using Corners = std::pair<std::vector<std::uint64_t>, std::vector<std::uint64_t>>;

  void adopt(const ForeignCatalogue& rank, FileRange& range, std::uint32_t& form) {
    range.file = file_numbers_[range.file];
    form = joined_.add_form(rank.forms[form]);
  }

  void add_array(const ForeignCatalogue& rank, const ForeignArray& array) {
    const auto [known, is_new] = names_.try_emplace(array.path, joined_.arrays.size());
    if (is_new) {
      joined_.arrays.push_back({array.path, array.dtype, array.shape, {}});
      boxes_.emplace_back();
    }
    if (known->second >= joined_.arrays.size() || joined_.arrays[known->second].path != array.path ||
        joined_.arrays[known->second].dtype != array.dtype ||
        joined_.arrays[known->second].shape != array.shape) {
      throw Error(Errc::malformed_metadata, fmt::format("'{}': what ranks say of it differs", array.path));
    }
    std::map<Corners, char>& boxes = boxes_[known->second];
    for (ForeignSlice slice : array.slices) {
      Corners corners{{slice.box.offsets().begin(), slice.box.offsets().end()},
                      {slice.box.extents().begin(), slice.box.extents().end()}};
      if (boxes.try_emplace(std::move(corners)).second) {
        adopt(rank, slice.range, slice.form);
        joined_.arrays[known->second].slices.push_back(std::move(slice));
      }
    }
  }

  ForeignCatalogue joined_;
  std::unordered_map<std::string, std::uint32_t> files_;
  std::unordered_map<std::string, std::size_t> names_;  ///< Of arrays with their numbers, of all else.
  std::vector<std::map<Corners, char>> boxes_;          ///< Of each array.
  std::vector<std::uint32_t> file_numbers_;             ///< Of the files of one rank.
};

}  // namespace

ForeignCatalogue join_dcp_metadata(std::span<const ForeignCatalogue> ranks) {
  RankJoin join;
  for (const ForeignCatalogue& rank : ranks) {
    join.add(rank);
  }
  ForeignCatalogue joined = join.take();
  joined.is_located = false;
  return joined;
}

ForeignSlice locate_dcp_slice(const ForeignArray& array, const ForeignSlice& slice,
                              const ForeignCatalogue& chunk, ForeignCatalogue& catalogue,
                              std::string_view path) {
  const auto refuse = [&](std::string_view why) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: the part {} of '{}': {}", path, to_string(slice.box), array.path, why));
  };
  if (const SliceForm& form = catalogue.forms[slice.form]; !form.codecs.empty()) {
    throw Error(Errc::feature_missing, fmt::format("{}: '{}' is encoded with '{}', which is not read", path,
                                                   array.path, form.codecs.front()));
  }
  if (chunk.arrays.size() != 1 || !chunk.arrays[0].path.empty() || chunk.arrays[0].slices.size() != 1) {
    refuse("its bytes are not those of one tensor");
  }
  const ForeignArray& tensor = chunk.arrays[0];
  const bool is_whole_tensor = element_count(slice.box.extents()) == slice.elements;
  if (tensor.dtype != array.dtype || element_count(tensor.shape) != slice.elements ||
      (is_whole_tensor && tensor.shape != slice.box.extents() && slice.box.rank() == tensor.shape.size())) {
    refuse(fmt::format("a tensor {} of {} lies in its place", tensor.shape, name(tensor.dtype)));
  }
  const ForeignSlice& bytes = tensor.slices[0];
  const SliceForm& form = chunk.forms[bytes.form];
  ForeignSlice located = slice;
  located.range.begin = slice.range.begin + bytes.range.begin;
  located.range.end = slice.range.begin + bytes.range.end;
  located.form = catalogue.add_form(form);
  located.crc32 = bytes.crc32;
  if ((form.strides && form.strides->size() != slice.box.rank()) ||
      (!is_whole_tensor && (form.strides || !form.codecs.empty()))) {
    refuse("it is a part of a tensor whose elements do not follow one another");
  }
  if (!is_whole_tensor) {
    const std::uint64_t item = bits(array.dtype) / 8;
    located.range.begin += slice.first * item;
    located.range.end = located.range.begin + element_count(slice.box.extents()).value_or(0) * item;
    located.crc32.reset();
  }
  if (located.range.end > slice.range.end) {
    refuse("it ends beyond its range");
  }
  return located;
}

}  // namespace cairn::formats
