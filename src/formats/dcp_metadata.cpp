// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/dcp_metadata.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"
#include "cairn/sharding/flat_range.hpp"

#include "base/internal/checked.hpp"
#include "base/internal/utf8.hpp"
#include "formats/file_name.hpp"
#include "formats/internal/description_budget.hpp"
#include "formats/internal/foreign_index.hpp"
#include "formats/internal/index.hpp"
#include "formats/internal/pickle.hpp"
#include "formats/internal/torch_archive.hpp"
#include "formats/pickled_arrays.hpp"

namespace cairn::formats {
namespace {

constexpr std::string_view kClasses = "torch.distributed.checkpoint.metadata.";
constexpr std::size_t kMostMembers = 64;  // Of an object; torch writes ten.

/// By what `storage_data` finds a file: the name of a value and the offset of a chunk, empty for an object.
struct ChunkKey {
  std::string_view name;
  Shape offset;

  [[nodiscard]] std::size_t hash() const noexcept {
    std::size_t hash = std::hash<std::string_view>{}(name);
    for (const std::uint64_t number : offset) {
      hash = (hash ^ static_cast<std::size_t>(number)) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 29;
    }
    return hash;
  }

  bool operator==(const ChunkKey&) const = default;

  friend bool operator<(const ChunkKey& a, const ChunkKey& b) {
    return a.name != b.name ? a.name < b.name
                            : std::lexicographical_compare(a.offset.begin(), a.offset.end(), b.offset.begin(),
                                                           b.offset.end());
  }
};

/// An entry of `storage_data`.
struct StoredChunk {
  PickleNode key{};
  PickleNode info{};
};

/// The number of an entry. They are sorted by hash, and a key is read again where hashes are equal.
struct HashedEntry {
  std::size_t hash = 0;
  std::uint32_t number = 0;
};

class DcpDescriber {
 public:
  DcpDescriber(const Pickle& pickle, std::string_view path)
      : pickle_(&pickle), path_(path), budget_(pickle.input_bytes(), path) {
    catalogue_.is_located = false;
  }

  ForeignCatalogue run() {
    const PickleNode root = pickle_->root();
    if (!pickle_->class_name(root).ends_with("Metadata")) {
      refuse("", "it does not describe a checkpoint of torch.distributed");
    }
    const PickleNode state = state_of(root);
    const PickleNode storage = member(state, "storage_data", "");
    stored_.reserve(pickle_->size(storage) / 2);
    for_each(storage, [&](PickleNode key, PickleNode info) {
      budget_.take(key_of(state_of(key)).name.size());
      stored_.push_back({state_of(key), state_of(info)});
    });
    if (const PickleNode flattened = optional_member(state, "mcore_data"); flattened != kNoneNode) {
      for_each(flattened,
               [&](PickleNode name, PickleNode value) { flattened_[text(name, "a name")] = value; });
    }
    for_each(member(state, "state_dict_metadata", ""),
             [&](PickleNode name, PickleNode entry) { describe(text(name, "a name"), entry); });
    return std::move(catalogue_);
  }

 private:
  [[noreturn]] void refuse(std::string_view name, std::string_view why) const {
    throw Error(Errc::malformed_metadata, name.empty() ? fmt::format("{}: {}", path_, why)
                                                       : fmt::format("{}: '{}': {}", path_, name, why));
  }

  // ---- nodes

  [[nodiscard]] PickleNode state_of(PickleNode node) const {
    return pickle_->kind(node) == PickleKind::object ? pickle_->state(node) : kNoneNode;
  }

  /// A member of an object's state; None where it is missing.
  [[nodiscard]] PickleNode optional_member(PickleNode map, std::string_view key) const {
    if (pickle_->kind(map) != PickleKind::map) {
      return kNoneNode;
    }
    if (pickle_->size(map) > 2 * kMostMembers) {  // It may be shared, and would be searched for each chunk.
      refuse("", fmt::format("an object with '{}' has more than {} members", key, kMostMembers));
    }
    return pickle_->find(map, key).value_or(kNoneNode);
  }

  [[nodiscard]] PickleNode member(PickleNode map, std::string_view key, std::string_view name) const {
    const PickleNode found = optional_member(map, key);
    if (found == kNoneNode) {
      refuse(name, fmt::format("'{}' is missing", key));
    }
    return found;
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

  [[nodiscard]] std::uint64_t count(PickleNode map, std::string_view key, std::string_view name) const {
    const std::optional<std::uint64_t> number = count_of(*pickle_, member(map, key, name));
    if (!number) {
      refuse(name, fmt::format("'{}' is not a number from 0 up", key));
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

  // ---- storage_data

  [[nodiscard]] ChunkKey key_of(PickleNode index) const {
    ChunkKey key{text(member(index, "fqn", ""), "a name in 'storage_data'"), {}};
    if (const PickleNode offset = optional_member(index, "offset"); offset != kNoneNode) {
      key.offset = shape(offset, key.name);
    }
    return key;
  }

  /// Returns the number of the entry of a chunk; nothing where there is none. Mostly that is the one behind the last: a
  /// million are sorted only when it is not.
  std::optional<std::uint32_t> find_entry(const ChunkKey& wanted) {
    if (order_trust_ > 0 && next_ < stored_.size()) {
      if (key_of(stored_[next_].key) == wanted) {
        ++order_trust_;
        return next_++;
      }
      --order_trust_;
    }
    if (by_hash_.empty()) {
      sort_stored();
    }
    const std::size_t hash = wanted.hash();
    const auto found = std::lower_bound(
        by_hash_.begin(), by_hash_.end(), wanted, [&](const HashedEntry& entry, const ChunkKey& key) {
          return entry.hash != hash ? entry.hash < hash : key_of(stored_[entry.number].key) < key;
        });
    if (found == by_hash_.end() || found->hash != hash || !(key_of(stored_[found->number].key) == wanted)) {
      return std::nullopt;
    }
    next_ = found->number + 1;
    return found->number;
  }

  void sort_stored() {
    by_hash_.reserve(stored_.size());
    for (std::size_t i = 0; i < stored_.size(); ++i) {
      by_hash_.push_back({key_of(stored_[i].key).hash(), static_cast<std::uint32_t>(i)});
    }
    std::sort(by_hash_.begin(), by_hash_.end(), [&](const HashedEntry& a, const HashedEntry& b) {
      return a.hash != b.hash ? a.hash < b.hash
                              : key_of(stored_[a.number].key) < key_of(stored_[b.number].key);
    });
  }

  /// Says where a chunk lies, and how.
  void find_stored(std::string_view name, const Shape& offset, FileRange& range, std::uint32_t& form) {
    const std::optional<std::uint32_t> entry = find_entry({name, offset});
    if (!entry) {
      throw Error(Errc::incomplete_shards,
                  fmt::format("{}: the part of '{}' at {} is in no file", path_, name, offset));
    }
    const PickleNode info = stored_[*entry].info;
    range.file = number_of_file(text(member(info, "relative_path", name), "the name of a file"));
    range.begin = count(info, "offset", name);
    range.end = range.begin + count(info, "length", name);  // Both are below 2^63.
    if (range.end > static_cast<std::uint64_t>(INT64_MAX)) {
      refuse(name, "it ends beyond 2^63 bytes");
    }
    const PickleNode transforms = optional_member(info, "transform_descriptors");
    form = transforms == kNoneNode ? 0 : form_of(transforms, name);
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

  // ---- state_dict_metadata

  void describe(std::string_view name, PickleNode entry) {
    std::string tree_path;
    append_key(tree_path, name);
    budget_.take(sizeof(ForeignArray) + tree_path.size());
    const std::string type = pickle_->class_name(entry);
    if (type == std::string(kClasses).append("BytesStorageMetadata")) {
      ForeignObject object{std::move(tree_path), {}, 0};
      find_stored(name, {}, object.range, object.form);
      catalogue_.objects.push_back(std::move(object));
    } else if (type == std::string(kClasses).append("TensorStorageMetadata")) {
      describe_tensor(name, std::move(tree_path), state_of(entry));
    } else {
      leave_out(std::move(tree_path), fmt::format("neither a tensor nor an object but '{}'", type));
    }
  }

  void leave_out(std::string tree_path, std::string why) {
    budget_.take(why.size());
    catalogue_.left_out.push_back({std::move(tree_path), std::move(why)});
  }

  /// torch counts two packed elements along the last axis as one.
  static void count_elements(DType dtype, Shape& numbers) {
    if (is_packed(dtype)) {
      std::uint64_t& last = numbers[numbers.size() - 1];
      last = checked_multiply<std::uint64_t>(last, 2).value_or(~std::uint64_t{0});
    }
  }

  void describe_tensor(std::string_view name, std::string tree_path, PickleNode state) {
    const Pickle::Nodes properties = pickle_->tuple(state_of(member(state, "properties", name)));
    const std::string type = properties.empty() ? "" : pickle_->class_name(properties[0]);
    const std::optional<DType> dtype = torch_dtype(type);
    if (type.empty()) {
      refuse(name, "its properties have no dtype");
    }
    Shape stored_shape = shape(member(state, "size", name), name);
    const auto original = flattened_.find(name);
    const bool is_cut_off =
        dtype && is_packed(*dtype) && (stored_shape.empty() || original != flattened_.end());
    if (!dtype || is_cut_off) {  // Two elements lie in each byte: a last axis of whole bytes is needed.
      return leave_out(std::move(tree_path), fmt::format("a tensor of '{}'", type));
    }
    count_elements(*dtype, stored_shape);
    ForeignArray array{std::move(tree_path), *dtype, stored_shape, {}};
    const PickleNode whole = original == flattened_.end()
                                 ? kNoneNode
                                 : optional_member(original->second, "nd_reformulated_orig_global_shape");
    if (whole != kNoneNode) {
      array.shape = shape(whole, name);
    }
    if (!byte_count(array.dtype, array.shape) || !byte_count(array.dtype, stored_shape)) {
      refuse(name, fmt::format("{} of shape {} exceeds 2^63 bytes", type, array.shape));
    }
    add_slices(name, member(state, "chunks", name), stored_shape, whole != kNoneNode, array);
    catalogue_.arrays.push_back(std::move(array));
  }

  void add_slices(std::string_view name, PickleNode chunks, const Shape& stored_shape, bool is_flat,
                  ForeignArray& array) {
    if (pickle_->kind(chunks) != PickleKind::list) {
      refuse(name, "'chunks' is not a list");
    }
    // Its name is looked for, too.
    const std::size_t slice_bytes =
        sizeof(ForeignSlice) + 2 * stored_shape.size() * sizeof(std::uint64_t) + name.size();
    budget_.take(pickle_->size(chunks) * slice_bytes);
    array.slices.reserve(pickle_->size(chunks));
    PickleNode chunk{};
    for (Pickle::Items items = pickle_->items(chunks); items.next(chunk);) {
      const Shape stored_offsets = shape(member(state_of(chunk), "offsets", name), name);
      Shape offsets = stored_offsets;
      Shape sizes = shape(member(state_of(chunk), "sizes", name), name);
      if (offsets.size() == stored_shape.size() && sizes.size() == stored_shape.size()) {
        count_elements(array.dtype, offsets);
        count_elements(array.dtype, sizes);
      }
      if (offsets.size() != sizes.size() || !Box(offsets, sizes).is_within(stored_shape)) {
        refuse(name, fmt::format("a chunk of {} at {} is not inside {}", sizes, offsets, stored_shape));
      }
      ForeignSlice slice;
      slice.box = Box(offsets, sizes);
      if (slice.box.is_empty()) {
        continue;  // It may share its offset with a full one, and only one of the two is in a file.
      }
      find_stored(name, stored_offsets, slice.range, slice.form);
      slice.elements = element_count(sizes).value_or(0);
      if (is_flat) {
        add_flat(name, stored_shape, std::move(slice), array);
      } else {
        array.slices.push_back(std::move(slice));
      }
    }
  }

  /// Adds a chunk of a flattened state: of an array [X, Y] that is stored as [X/x, Y/y, x*y] a run of the last axis is
  /// a run of elements of one block of [x, y].
  void add_flat(std::string_view name, const Shape& stored_shape, ForeignSlice slice, ForeignArray& array) {
    const std::size_t rank = array.shape.size();
    const Box chunk = slice.box;
    if (chunk.rank() != rank + 1) {
      refuse(name, fmt::format("an array of shape {} is stored as {}", array.shape, stored_shape));
    }
    Shape offsets(rank, 0);
    Shape extents(rank, 0);
    for (std::size_t axis = 0; axis < rank; ++axis) {
      if (array.shape[axis] % stored_shape[axis] != 0 || chunk.extents()[axis] != 1) {
        refuse(name, fmt::format("an array of shape {} does not divide into what is stored of it, {}",
                                 array.shape, stored_shape));
      }
      extents[axis] = array.shape[axis] / stored_shape[axis];
      offsets[axis] = chunk.begin(axis) * extents[axis];
    }
    const Box block(offsets, extents);
    if (element_count(extents) != stored_shape[rank] || block.is_empty()) {
      refuse(name, fmt::format("blocks of {} are stored as {} elements", extents, stored_shape[rank]));
    }
    for (FlatPiece& piece : boxes_of_flat_range(block, chunk.begin(rank), chunk.end(rank))) {
      budget_.take(sizeof(ForeignSlice) + 2 * rank * sizeof(std::uint64_t));
      slice.box = std::move(piece.box);
      slice.first = piece.first;
      array.slices.push_back(slice);
    }
  }

  const Pickle* pickle_;
  std::string_view path_;
  DescriptionBudget budget_;
  ForeignCatalogue catalogue_;
  std::vector<StoredChunk> stored_;
  std::vector<HashedEntry> by_hash_;
  std::uint32_t next_ = 0;  ///< The entry behind the one that was found last,
  int order_trust_ = 64;    ///< which is looked at as long as it often is the one that is looked for.
  std::unordered_map<std::string_view, std::uint32_t> file_numbers_;
  std::unordered_map<std::string_view, PickleNode> flattened_;  ///< What `mcore_data` says of names.
};

/// Collects what several ranks say.
class RankJoin {
 public:
  void add(const ForeignCatalogue& rank) {
    file_numbers_.clear();
    for (const std::string& file : rank.files) {
      const auto [known, is_new] = files_.try_emplace(file, static_cast<std::uint32_t>(files_.size()));
      if (is_new) {
        joined_.files.push_back(file);
      }
      file_numbers_.push_back(known->second);
    }
    for (const ForeignArray& array : rank.arrays) {
      add_array(rank, array);
    }
    for (ForeignObject object : rank.objects) {
      if (numbers_.try_emplace(object.path, kNoArray).second) {
        adopt(rank, object.range, object.form);
        joined_.objects.push_back(std::move(object));
      }
    }
    for (const LeftOut& left_out : rank.left_out) {
      if (numbers_.try_emplace(left_out.path, kNoArray).second) {
        joined_.left_out.push_back(left_out);
      }
    }
  }

  /// Keeps the first of slices with the same box.
  ForeignCatalogue take() {
    for (ForeignArray& array : joined_.arrays) {
      std::stable_sort(array.slices.begin(), array.slices.end(), comes_before);
      array.slices.erase(
          std::unique(array.slices.begin(), array.slices.end(),
                      [](const ForeignSlice& a, const ForeignSlice& b) { return a.box == b.box; }),
          array.slices.end());
    }
    joined_.is_located = false;
    return std::move(joined_);
  }

 private:
  static constexpr std::size_t kNoArray = ~std::size_t{0};

  static bool comes_before(const ForeignSlice& a, const ForeignSlice& b) {
    const auto less = [](const Shape& one, const Shape& other) {
      return std::lexicographical_compare(one.begin(), one.end(), other.begin(), other.end());
    };
    return a.box.offsets() == b.box.offsets() ? less(a.box.extents(), b.box.extents())
                                              : less(a.box.offsets(), b.box.offsets());
  }

  void adopt(const ForeignCatalogue& rank, FileRange& range, std::uint32_t& form) {
    range.file = file_numbers_[range.file];
    form = joined_.add_form(rank.forms[form]);
  }

  void add_array(const ForeignCatalogue& rank, const ForeignArray& array) {
    const auto [known, is_new] = numbers_.try_emplace(array.path, joined_.arrays.size());
    if (is_new) {
      joined_.arrays.push_back({array.path, array.dtype, array.shape, {}});
    }
    ForeignArray* const joined = known->second == kNoArray ? nullptr : &joined_.arrays[known->second];
    if (joined == nullptr || joined->dtype != array.dtype || joined->shape != array.shape) {
      throw Error(Errc::malformed_metadata, fmt::format("'{}': what ranks say of it differs", array.path));
    }
    for (ForeignSlice slice : array.slices) {
      adopt(rank, slice.range, slice.form);
      joined->slices.push_back(std::move(slice));
    }
  }

  ForeignCatalogue joined_;
  std::unordered_map<std::string, std::uint32_t> files_;
  std::unordered_map<std::string, std::size_t>
      numbers_;                              ///< Of arrays by their paths; kNoArray for all else.
  std::vector<std::uint32_t> file_numbers_;  ///< Of the files of one rank.
};

constexpr std::string_view kMetadataName = ".metadata";

/// Returns whether a name is "__<rank>.metadata".
bool is_of_a_rank(std::string_view file) {
  if (!file.starts_with("__") || !file.ends_with(kMetadataName) || file.size() < 3 + kMetadataName.size()) {
    return false;
  }
  const std::string_view digits = file.substr(2, file.size() - 2 - kMetadataName.size());
  return digits.find_first_not_of("0123456789") == std::string_view::npos &&
         (digits == "0" || digits.front() != '0');
}

}  // namespace

bool is_name_of_shard(std::string_view path) {
  constexpr std::string_view kWord = "~1shard_";
  const std::size_t begin = path.rfind(kWord);
  if (begin == std::string_view::npos) {
    return false;
  }
  const std::string_view numbers = path.substr(begin + kWord.size());
  return numbers.find_first_not_of("0123456789._") == std::string_view::npos &&
         std::count(numbers.begin(), numbers.end(), '_') == 1;
}

std::vector<std::string> dcp_metadata_files(std::span<const std::string> files) {
  const std::unordered_set<std::string_view> names(files.begin(), files.end());
  if (names.contains(kMetadataName)) {
    return {std::string(kMetadataName)};
  }
  std::vector<std::string> found;
  for (auto left = std::count_if(names.begin(), names.end(), is_of_a_rank); left > 0; --left) {
    found.push_back(fmt::format("__{}{}", found.size(), kMetadataName));
    if (!names.contains(found.back())) {
      throw Error(Errc::incomplete_shards,
                  fmt::format("files of other ranks are there, but '{}' is missing", found.back()));
    }
  }
  return found;
}

ForeignCatalogue describe_dcp_metadata(std::span<const std::byte> bytes, std::string_view path) {
  const Pickle pickle = Pickle::read(bytes, path);
  return DcpDescriber(pickle, path).run();
}

ForeignCatalogue join_dcp_metadata(std::span<const ForeignCatalogue> ranks) {
  RankJoin join;
  for (const ForeignCatalogue& rank : ranks) {
    join.add(rank);
  }
  return join.take();
}

const ForeignSlice& tensor_of_chunk(const ForeignCatalogue& chunk, const EncodedSlice& slice) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Errc::malformed_metadata, fmt::format("{}: {}", slice.name, why));
  };
  if (chunk.arrays.size() != 1 || !chunk.arrays[0].path.empty() || chunk.arrays[0].slices.size() != 1) {
    refuse(chunk.left_out.empty() ? "its bytes are not those of one tensor"
                                  : "in its place lies " + chunk.left_out.front().why);
  }
  const ForeignArray& tensor = chunk.arrays[0];
  const bool is_whole = element_count(slice.extents) == slice.elements;
  if (tensor.dtype != slice.dtype || element_count(tensor.shape) != slice.elements ||
      (is_whole && tensor.shape != slice.extents && slice.extents.size() == tensor.shape.size())) {
    refuse(fmt::format("a tensor {} of {} lies in its place", tensor.shape, name(tensor.dtype)));
  }
  const SliceForm& form = chunk.forms[tensor.slices[0].form];
  const bool is_text = std::find(form.codecs.begin(), form.codecs.end(), kLatin1Codec) != form.codecs.end();
  if (is_text || (!is_whole && form.strides)) {
    refuse("it is a part of a tensor whose elements do not follow one another");
  }
  return tensor.slices[0];
}

ForeignSlice locate_dcp_slice(const ForeignArray& array, const ForeignSlice& slice,
                              const ForeignCatalogue& chunk, ForeignCatalogue& catalogue,
                              std::string_view path) {
  if (const SliceForm& form = catalogue.forms[slice.form]; !form.codecs.empty()) {
    throw Error(Errc::feature_missing, fmt::format("{}: '{}' is encoded with '{}', which is not read", path,
                                                   array.path, form.codecs.front()));
  }
  EncodedSlice wanted;
  wanted.dtype = array.dtype;
  wanted.extents = slice.box.extents();
  wanted.elements = slice.elements;
  wanted.name = fmt::format("{}: the part {} of '{}'", path, to_string(slice.box), array.path);
  const ForeignSlice& bytes = tensor_of_chunk(chunk, wanted);
  const SliceForm& form = chunk.forms[bytes.form];
  ForeignSlice located = slice;
  located.range.begin = slice.range.begin + bytes.range.begin;
  located.range.end = slice.range.begin + bytes.range.end;
  located.form = catalogue.add_form(form);
  located.crc32 = bytes.crc32;
  const std::uint64_t elements = element_count(slice.box.extents()).value_or(0);
  if (elements != slice.elements) {
    const std::uint64_t item = bits(array.dtype) / 8;
    located.range.begin += slice.first * item;
    located.range.end = located.range.begin + elements * item;
    located.crc32.reset();
  }
  if ((form.strides && form.strides->size() != slice.box.rank()) || located.range.end > slice.range.end) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: its elements are strided otherwise, or end beyond its range", wanted.name));
  }
  return located;
}

}  // namespace cairn::formats
