// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/hugging_face.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "array/internal/cover.hpp"
#include "base/internal/json_reader.hpp"
#include "formats/file_name.hpp"
#include "formats/internal/first_bytes.hpp"

namespace cairn::formats {
namespace {

[[noreturn]] void refuse(std::string_view file, std::string_view tensor, std::string_view why) {
  throw Error(Errc::malformed_metadata, fmt::format("{}: tensor '{}': {}", file, tensor, why));
}

void read_weight_map(JsonReader& reader, std::string_view path, HuggingFaceIndex& index) {
  reader.begin_object();
  while (const auto key = reader.next_key()) {
    std::string tensor(*key);
    const std::string_view file = reader.read_string();
    if (!is_plain_file_name(file)) {
      refuse(path, tensor, fmt::format("'{}' is not a plain file name", file));
    }
    const auto [entry, is_new] = index.weight_map.try_emplace(std::move(tensor), file);
    if (!is_new) {
      refuse(path, entry->first, "is given twice in 'weight_map'");
    }
  }
}

void read_metadata(JsonReader& reader, HuggingFaceIndex& index) {
  if (reader.skip_null()) {
    return;
  }
  reader.begin_object();
  while (const auto key = reader.next_key()) {
    const int next = reader.peek();
    if (*key == "total_size" && next >= '0' && next <= '9') {
      const JsonScalar size = reader.read_scalar();
      if (const auto* bytes = std::get_if<std::uint64_t>(&size)) {
        index.total_size = *bytes;
      }
    } else {
      reader.skip_value();
    }
  }
}

using SavedOffsets = std::unordered_map<std::string, Shape>;

Shape read_saved_offsets(JsonReader& reader, std::string_view file, std::string_view tensor) {
  std::optional<std::vector<std::uint64_t>> offsets;
  reader.begin_object();
  while (const auto key = reader.next_key()) {
    if (*key != "saved_offsets") {
      reader.skip_value();
      continue;
    }
    if (offsets) {
      refuse(file, tensor, "'saved_offsets' is given twice");
    }
    offsets.emplace();
    reader.begin_list();
    while (reader.next_element()) {
      if (offsets->size() == kMaxRank) {
        refuse(file, tensor, fmt::format("more than {} saved offsets", kMaxRank));
      }
      offsets->push_back(reader.read_unsigned());
    }
  }
  if (!offsets) {
    refuse(file, tensor, "has no 'saved_offsets' in DCP_SHARDING_INFO");
  }
  return Shape(std::span<const std::uint64_t>(*offsets));
}

/// The content of DCP_SHARDING_INFO, or nothing when the file has none: then its tensors are whole.
std::optional<SavedOffsets> saved_offsets_of(const FolderFile& file) {
  const std::string* info = file.header.find_metadata("DCP_SHARDING_INFO");
  if (info == nullptr) {
    return std::nullopt;
  }
  SavedOffsets offsets;
  const std::string name = file.name + ": DCP_SHARDING_INFO";
  JsonReader reader(*info, name);
  reader.begin_object();
  while (const auto key = reader.next_key()) {
    std::string tensor(*key);
    Shape saved = read_saved_offsets(reader, file.name, tensor);
    const auto [entry, is_new] = offsets.try_emplace(std::move(tensor), std::move(saved));
    if (!is_new) {
      refuse(file.name, entry->first, "is given twice in DCP_SHARDING_INFO");
    }
  }
  reader.finish();
  return offsets;
}

Box box_of(const FolderFile& file, const SafetensorsTensor& tensor,
           const std::optional<SavedOffsets>& saved) {
  if (!saved) {
    return Box::whole(tensor.shape);
  }
  const auto found = saved->find(tensor.name);
  if (found == saved->end()) {
    refuse(file.name, tensor.name,
           "is missing from DCP_SHARDING_INFO; in a data file of Cairn it is a further slice of an array, "
           "and only "
           "index.fb says where that lies");
  }
  const Shape& offsets = found->second;
  if (offsets.size() != tensor.shape.size()) {
    refuse(file.name, tensor.name, fmt::format("has shape {} but saved offsets {}", tensor.shape, offsets));
  }
  for (std::size_t d = 0; d < offsets.size(); ++d) {
    std::uint64_t end = 0;
    if (__builtin_add_overflow(offsets[d], tensor.shape[d], &end)) {
      refuse(file.name, tensor.name, fmt::format("saved offsets {} exceed 64 bits", offsets));
    }
  }
  return {offsets, tensor.shape};
}

/// Collects slices by tensor name; the first slice of a tensor fixes its dtype and rank.
class Gatherer {
 public:
  Gatherer(std::span<const FolderFile> files, const HuggingFaceIndex* index) : files_(files), index_(index) {}

  std::vector<ForeignArray> gather() {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      add_file(i);
    }
    if (index_ != nullptr) {
      check_all_found();
    }
    for (ForeignArray& tensor : tensors_) {
      finish(tensor);
    }
    std::sort(tensors_.begin(), tensors_.end(),
              [](const ForeignArray& a, const ForeignArray& b) { return a.path < b.path; });
    return std::move(tensors_);
  }

 private:
  void add_file(std::size_t number) {
    const FolderFile& file = files_[number];
    const std::optional<SavedOffsets> saved = saved_offsets_of(file);
    for (const SafetensorsTensor& tensor : file.header.tensors) {
      Box box = box_of(file, tensor,
                       saved);  // Also of one that nobody wants: it may be a part of one that is wanted.
      if (is_wanted(file, tensor)) {
        add_slice(number, tensor, std::move(box));
      }
    }
  }

  bool is_wanted(const FolderFile& file, const SafetensorsTensor& tensor) const {
    if (index_ == nullptr) {
      return true;
    }
    const auto found = index_->weight_map.find(tensor.name);
    return found != index_->weight_map.end() && found->second == file.name;
  }

  void add_slice(std::size_t number, const SafetensorsTensor& tensor, Box box) {
    const auto [entry, is_new] = numbers_.try_emplace(tensor.name, tensors_.size());
    if (is_new) {
      tensors_.push_back({tensor.name, tensor.dtype, Shape(tensor.shape.size(), 0), {}});
    }
    ForeignArray& whole = tensors_[entry->second];
    if (whole.dtype != tensor.dtype || whole.shape.size() != tensor.shape.size()) {
      refuse(
          files_[number].name, tensor.name,
          fmt::format("is {} with {} dimensions here, {} with {} in '{}'", tensor.dtype, tensor.shape.size(),
                      whole.dtype, whole.shape.size(), files_[whole.slices.front().range.file].name));
    }
    for (std::size_t d = 0; d < whole.shape.size(); ++d) {
      whole.shape[d] = std::max(whole.shape[d], box.end(d));
    }
    ForeignSlice& slice = whole.slices.emplace_back();
    slice.box = std::move(box);
    slice.range = {static_cast<std::uint32_t>(number), tensor.begin, tensor.end};
  }

  void check_all_found() const {
    for (const auto& [tensor, file] : index_->weight_map) {
      if (!numbers_.contains(tensor)) {
        refuse(index_->path, tensor, fmt::format("is not in '{}'", file));
      }
    }
  }

  void finish(ForeignArray& tensor) const {
    std::vector<Box> boxes;
    boxes.reserve(tensor.slices.size());
    for (const ForeignSlice& slice : tensor.slices) {
      boxes.push_back(slice.box);
    }
    if (!element_count(tensor.shape)) {
      refuse(files_[tensor.slices.front().range.file].name, tensor.path,
             fmt::format("shape {} has too many elements", tensor.shape));
    }
    check_cover(tensor.path, Box::whole(tensor.shape), boxes, [&](std::size_t number) {
      return fmt::format(" in '{}'", files_[tensor.slices[number].range.file].name);
    });
    // Ranks that had no rows write empty slices; one stays where nothing else would.
    const auto is_empty = [](const ForeignSlice& slice) { return slice.box.is_empty(); };
    if (std::all_of(tensor.slices.begin(), tensor.slices.end(), is_empty)) {
      tensor.slices.resize(1);
    } else {
      std::erase_if(tensor.slices, is_empty);
    }
  }

  std::span<const FolderFile> files_;
  const HuggingFaceIndex* index_;
  std::vector<ForeignArray> tensors_;
  std::unordered_map<std::string_view, std::size_t> numbers_;  // Keys live in files_.
};

constexpr std::string_view kIndex = ".safetensors.index.";

bool contains(std::span<const std::string> names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The file with the whole model whose shards a list names, or those of a variant of it; empty where it is not there.
std::string file_listed_by(std::span<const std::string> files, std::string_view list) {
  const std::string_view model = list.substr(0, list.find(kIndex));
  for (const std::string_view name : {model, model.substr(0, model.rfind('.'))}) {
    const std::string file = std::string(name) + ".safetensors";
    if (contains(files, file)) {
      return file;
    }
  }
  return {};
}

/// Takes digits from the end of a text; nothing where there are none, or more than any number of shards has.
std::optional<std::string_view> take_digits(std::string_view& text) {
  constexpr std::size_t kMostDigits = 9;
  const std::size_t end = text.find_last_not_of("0123456789");
  const std::string_view digits = text.substr(end == std::string_view::npos ? 0 : end + 1);
  if (digits.empty() || digits.size() > kMostDigits) {
    return std::nullopt;
  }
  text.remove_suffix(digits.size());
  return digits;
}

bool take_end(std::string_view& text, std::string_view end) {
  const bool ends = text.ends_with(end);
  text.remove_suffix(ends ? end.size() : 0);
  return ends;
}

std::uint64_t number_of(std::string_view digits) {
  std::uint64_t number = 0;
  for (const char digit : digits) {
    number = 10 * number + static_cast<std::uint64_t>(digit - '0');
  }
  return number;
}

/// "shard-00002-model" is what a rank writes of "model".
std::string_view without_rank(std::string_view name) {
  constexpr std::string_view kRank = "shard-";
  if (!name.starts_with(kRank)) {
    return name;
  }
  const std::size_t end = name.find_first_not_of("0123456789", kRank.size());
  return end == std::string_view::npos || end == kRank.size() || name[end] != '-' ? name
                                                                                  : name.substr(end + 1);
}

/// Files that should be as many as their names say.
struct ShardSet {
  std::string present;
  std::set<std::uint64_t> numbers;
};

/// By what is alike in their names: what is before the number, how many digits that has, and what is behind it.
using ShardSets = std::map<std::tuple<std::string, std::size_t, std::string>, ShardSet>;

void add_shard(ShardSets& sets, const std::string& file) {
  std::string_view rest = file;
  if (!take_end(rest, ".safetensors")) {
    return;
  }
  const std::optional<std::string_view> total = take_digits(rest);
  if (!total || !take_end(rest, "-of-")) {
    return;
  }
  const std::optional<std::string_view> number = take_digits(rest);
  if (!number || !take_end(rest, "-")) {
    return;
  }
  ShardSet& set = sets[{std::string(without_rank(rest)), number->size(), std::string(*total)}];
  set.present = file;
  set.numbers.insert(number_of(*number));
}

}  // namespace

bool is_hugging_face_index(std::string_view file) noexcept {
  const std::size_t found = file.find(kIndex);
  return found != std::string_view::npos && file.ends_with(".json") &&
         file.find('/') == std::string_view::npos;
}

std::string whole_model_of(std::span<const std::string> files, std::span<const std::string> lists) {
  std::string whole;
  for (const std::string& list : lists) {
    const std::string file = file_listed_by(files, list);
    if (file.empty() || (!whole.empty() && file != whole)) {
      return {};  // Lists of other models, too.
    }
    whole = file;
  }
  const bool has_own_list = contains(lists, whole + ".index.json");
  return has_own_list && whole != "model.safetensors" ? std::string() : whole;
}

std::optional<MissingShards> find_missing_shards(std::span<const std::string> files) {
  constexpr std::size_t kMostNamed = 4;
  ShardSets sets;
  for (const std::string& file : files) {
    add_shard(sets, file);
  }
  for (const auto& [key, set] : sets) {
    const auto& [name, digits, total_text] = key;
    MissingShards shards;
    shards.present = set.present;
    shards.total = number_of(total_text);
    const std::uint64_t first = set.numbers.contains(0) ? 0 : 1;  // Some count from 0.
    const auto end = set.numbers.lower_bound(first + shards.total);
    shards.missing =
        shards.total - std::min<std::uint64_t>(
                           shards.total, static_cast<std::uint64_t>(std::distance(set.numbers.begin(), end)));
    const std::uint64_t named = std::min<std::uint64_t>(shards.missing, kMostNamed);
    for (std::uint64_t number = first; shards.names.size() < named; ++number) {
      if (!set.numbers.contains(number)) {
        shards.names.push_back(fmt::format("{}-{:0{}}-of-{}.safetensors", name, number, digits, total_text));
      }
    }
    if (shards.missing > 0) {
      return shards;
    }
  }
  return std::nullopt;
}

std::vector<std::string> HuggingFaceIndex::files() const {
  std::vector<std::string> files;
  files.reserve(weight_map.size());
  for (const auto& [tensor, file] : weight_map) {
    files.push_back(file);
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

HuggingFaceIndex parse_hugging_face_index(std::string_view text, std::string_view path) {
  if (!text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size())).starts_with('{')) {
    if (const std::string told = told_by_first_bytes(std::as_bytes(std::span(text))); !told.empty()) {
      throw Error(Errc::malformed_metadata, fmt::format("{}: {}", path, told));
    }
  }
  HuggingFaceIndex index;
  index.path = path;
  JsonReader reader(text, path);
  bool has_map = false;
  bool has_metadata = false;
  reader.begin_object();
  while (const auto key = reader.next_key()) {
    if (*key == "weight_map") {
      if (std::exchange(has_map, true)) {
        reader.fail("'weight_map' is given twice");
      }
      read_weight_map(reader, path, index);
    } else if (*key == "metadata") {
      if (std::exchange(has_metadata, true)) {
        reader.fail("'metadata' is given twice");
      }
      read_metadata(reader, index);
    } else {
      reader.skip_value();
    }
  }
  reader.finish();
  if (!has_map) {
    throw Error(Errc::malformed_metadata, fmt::format("{}: has no 'weight_map'", path));
  }
  return index;
}

std::vector<ForeignArray> gather_tensors(std::span<const FolderFile> files, const HuggingFaceIndex* index) {
  return Gatherer(files, index).gather();
}

}  // namespace cairn::formats
