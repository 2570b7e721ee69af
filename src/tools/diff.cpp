// SPDX-License-Identifier: Apache-2.0
#include "cairn/tools/diff.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <sstream>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "cairn/api/load.hpp"
#include "cairn/handlers/tree_handler.hpp"
#include "cairn/tools/array_reader.hpp"

#include "formats/internal/index.hpp"
#include "tools/compare_json.hpp"
#include "tools/compare_values.hpp"
#include "tools/internal/array_difference.hpp"
#include "tools/internal/array_stream.hpp"
#include "tools/internal/checkpoint_view.hpp"
#include "tools/internal/text.hpp"

namespace cairn {
namespace {

using tools::CheckpointView;
using tools::count_text;
using tools::shown_path;
using tools::size_text;
using tools::value_text;
using Aspect = Difference::Aspect;

constexpr std::uint64_t kPartRunBytes = std::uint64_t{4} << 20;   // Of a part that are in memory at once.
constexpr std::uint64_t kMostLineBytes = std::uint64_t{4} << 20;  // Of lines; nobody reads longer ones.

using Files = std::map<std::string, store::FileEntry>;

/// An array or a value, as the side that it comes from describes it.
struct Leaf {
  std::string path;  ///< As that side calls it.
  std::string kind;  ///< "array", or that of the value.
  const DescribedValue* value = nullptr;
  AbstractArray array;
};

using Leaves = std::map<std::string, Leaf>;

/// An array that both sides have, in one dtype and shape.
struct ArrayPair {
  std::string title;
  std::string path_a;
  std::string path_b;
  AbstractArray array;
};

/// Holds what both sides call a checkpointable.
struct ItemPair {
  std::string name_a;
  std::string name_b;
};

std::string title_of(const std::string& item, const std::string& path) {
  return path.empty() ? item : item + "/" + path;
}

/// Returns what a description tells apart. The arrays of objects are their bytes, which their leaves stand for.
/// Ownership: refers to its values.
Leaves leaves_of(const Description& description, const ItemMetadata& item, bool is_foreign,
                 Renames::Use& renames) {
  const bool is_state_dict = item.handler_id == kStateDictId;
  std::vector<std::string> paths;
  std::vector<Leaf> found;
  const auto add = [&](std::string path, std::string kind, const DescribedValue* value, AbstractArray array) {
    paths.push_back(path);
    found.push_back(Leaf{std::move(path), std::move(kind), value, std::move(array)});
  };
  for (const ArrayEntry& array : description.arrays) {
    if (tools::is_object(item, array)) {
      continue;
    }
    add(std::string(array.name), "array", nullptr, AbstractArray(array.shape, array.dtype));
  }
  for (const DescribedValue& value : description.values) {
    add(value.name, value.kind, &value, {});
  }
  const std::vector<std::string> renamed = renames.apply(paths);
  Leaves leaves;
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::string shown = shown_path(renamed[i], is_foreign || is_state_dict);
    if (leaves.contains(shown)) {
      shown = renamed[i];  // Two paths may read alike; no two are the same.
    }
    leaves.emplace(std::move(shown), std::move(found[i]));
  }
  return leaves;
}

std::string description(const Leaf& leaf) {
  if (leaf.value == nullptr) {
    return fmt::format("{} {}", tools::dtype_text(leaf.array.dtype), to_string(leaf.array.shape));
  }
  const std::string value = value_text(*leaf.value);
  return value.empty() ? leaf.kind : value;
}

bool is_same_file(const store::FileEntry& a, const store::FileEntry& b) {
  return a.size_bytes == b.size_bytes && a.root == b.root;
}

bool has_same_files(const std::optional<Files>& a, const std::optional<Files>& b) {
  return a && b &&
         std::equal(a->begin(), a->end(), b->begin(), b->end(), [](const auto& left, const auto& right) {
           return left.first == right.first && is_same_file(left.second, right.second);
         });
}

/// Calls `both`, `left` or `right` for each key of two sorted maps.
template <class Map, class Both, class Left, class Right>
void walk(const Map& a, const Map& b, const Both& both, const Left& left, const Right& right) {
  auto at_a = a.begin();
  auto at_b = b.begin();
  while (at_a != a.end() || at_b != b.end()) {
    if (at_b == b.end() || (at_a != a.end() && at_a->first < at_b->first)) {
      left(*at_a++);
    } else if (at_a == a.end() || at_b->first < at_a->first) {
      right(*at_b++);
    } else {
      both(*at_a++, *at_b++);
    }
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

/// One line as it is, several by their number.
std::string text_of(const std::vector<std::string>& lines) {
  return lines.size() == 1 ? lines.front() : count_text(lines.size(), "line");
}

/// The regions that are these arrays in one of the two.
std::vector<tools::Region> regions_of(std::span<const ArrayPair> pairs, std::string ArrayPair::*path) {
  std::vector<tools::Region> regions;
  for (const ArrayPair& pair : pairs) {
    regions.push_back(tools::whole_region(pair.*path, pair.array));
  }
  return regions;
}

/// Reads parts of the files of a checkpointable.
class PartReader {
 public:
  PartReader(const CheckpointView& checkpoint, const Files& files) : checkpoint_(checkpoint), files_(files) {}

  /// The view is valid until the next call.
  std::span<const std::byte> read(const DescribedPart& part, std::uint64_t offset_bytes,
                                  std::uint64_t bytes) {
    auto file = open_.find(part.file);
    if (file == open_.end()) {
      file = open_.emplace(part.file, checkpoint_.open(files_.at(part.file))).first;
    }
    bytes_.resize(bytes);
    file->second.read(part.offset_bytes + offset_bytes, bytes_);
    return bytes_;
  }

 private:
  const CheckpointView& checkpoint_;
  const Files& files_;
  std::map<std::string, tools::VerifiedFile> open_;
  std::vector<std::byte> bytes_;
};

/// Parts by their names, those of one name by their order.
std::map<std::pair<std::string, std::size_t>, const DescribedPart*> by_name(
    const std::vector<DescribedPart>& parts) {
  std::map<std::string, std::size_t> counts;
  std::map<std::pair<std::string, std::size_t>, const DescribedPart*> found;
  for (const DescribedPart& part : parts) {
    found.emplace(std::pair(part.name, counts[part.name]++), &part);
  }
  return found;
}

class Comparer {
 public:
  Comparer(CheckpointView a, CheckpointView b, const DiffOptions& options)
      : a_(std::move(a)), b_(std::move(b)), options_(options), renames_(options.rename) {}

  CheckpointDiff run();

 private:
  struct ArrayPairs {
    ItemPair item;
    std::vector<ArrayPair> pairs;
  };

  void add(Aspect aspect, std::string name, std::string a = "", std::string b = "");
  void note(const CheckpointView& checkpoint, const Description& description);
  void compare_custom_metadata();
  [[nodiscard]] std::vector<ItemPair> pair_items();
  void compare_item(const ItemPair& item);
  void compare_leaves(const ItemPair& item, const Leaves& a, const Leaves& b);
  void compare_pair(ArrayPairs& arrays, const std::string& title, const Leaf& a, const Leaf& b);
  void compare_values(const std::string& title, const DescribedValue& a, const DescribedValue& b);
  void compare_texts(const ItemPair& item, const std::vector<std::string>& texts, const Files& a,
                     const Files& b);
  void compare_parts(const ItemPair& item, const std::vector<DescribedPart>& a,
                     const std::vector<DescribedPart>& b, const Files& files_a, const Files& files_b);
  [[nodiscard]] bool is_same_part(PartReader& a, const DescribedPart& one, PartReader& b,
                                  const DescribedPart& other);
  void compare_files(const ItemPair& item, const Description& description, const Files& a, const Files& b);
  void compare_lines(const std::string& title, const std::string& a, const std::string& b);
  void compare_arrays();
  [[nodiscard]] std::vector<ArrayDifference> compare_elements(const ArrayPairs& arrays);

  const CheckpointView a_;
  const CheckpointView b_;
  const DiffOptions& options_;
  Renames::Use renames_;
  CheckpointDiff result_;
  std::vector<ArrayPairs> arrays_;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t objects_ = 0;  // That both have, and nobody reads.
  std::string first_object_;
};

CheckpointDiff Comparer::run() {
  compare_custom_metadata();
  for (const ItemPair& item : pair_items()) {
    compare_item(item);
  }
  renames_.require_used();
  compare_arrays();
  if (objects_ != 0) {
    result_.notes.push_back(
        fmt::format("'{}'{}: not compared, an object whose kind is not known before it is read",
                    first_object_, objects_ == 1 ? "" : fmt::format(" and {} more", objects_ - 1)));
  }
  return std::move(result_);
}

void Comparer::add(Aspect aspect, std::string name, std::string a, std::string b) {
  result_.differences.push_back({aspect, std::move(name), std::move(a), std::move(b), std::nullopt});
}

void Comparer::note(const CheckpointView& checkpoint, const Description& description) {
  for (const std::string& one : tools::notes_of(description)) {
    result_.notes.push_back(fmt::format("{}: {}", checkpoint.path().string(), one));
  }
}

void Comparer::compare_custom_metadata() {
  // Foreign files have none to compare with.
  if (a_.is_whole() && b_.is_whole() && a_.metadata().custom_metadata != b_.metadata().custom_metadata) {
    tools::compare_json("custom metadata", Aspect::metadata, a_.metadata().custom_metadata,
                        b_.metadata().custom_metadata, result_.differences);
  }
}

/// Checkpointables of one name belong together; so do two that were asked for by themselves, whatever their
/// names.
std::vector<ItemPair> Comparer::pair_items() {
  const auto& a = a_.metadata().items;
  const auto& b = b_.metadata().items;
  if (a.size() == 1 && b.size() == 1 && !(a_.is_whole() && b_.is_whole())) {
    return {{a.begin()->first, b.begin()->first}};
  }
  std::vector<ItemPair> pairs;
  walk(
      a, b,
      [&](const auto& left, const auto& right) {
        pairs.push_back({left.first, right.first});
      },
      [&](const auto& left) { add(Aspect::only_in_a, left.first, left.second.handler_id); },
      [&](const auto& right) { add(Aspect::only_in_b, right.first, "", right.second.handler_id); });
  return pairs;
}

void Comparer::compare_item(const ItemPair& item) {
  ++result_.checkpointables;
  const ItemMetadata& a = a_.metadata().at(item.name_a);
  const ItemMetadata& b = b_.metadata().at(item.name_b);
  const bool is_state_dict_a = a.handler_id == kStateDictId;
  const bool is_state_dict_b = b.handler_id == kStateDictId;
  const bool has_foreign_one =
      a_.is_foreign() || b_.is_foreign();  // Which is read as a tree, as a state dict is.
  if (a.handler_id != b.handler_id && !(has_foreign_one && (is_state_dict_a || is_state_dict_b))) {
    add(Aspect::handler, item.name_a, a.handler_id, b.handler_id);
    return;
  }
  const std::optional<Files> files_a = a_.files(item.name_a);
  const std::optional<Files> files_b = b_.files(item.name_b);
  if (options_.rename.empty() && !options_.reads_same_files && has_same_files(files_a, files_b)) {
    result_.arrays += a.description().arrays.size();
    result_.same_files_bytes += a.bytes;
    return;
  }
  const Description described_a =
      options_.compares_values ? a_.description(item.name_a, options_.layouts) : a.description();
  const Description described_b =
      options_.compares_values ? b_.description(item.name_b, options_.layouts) : b.description();
  const bool is_described = a.abstract.has_value() && b.abstract.has_value();
  if (is_described && described_a.kind != described_b.kind) {
    add(Aspect::kind, item.name_a, described_a.kind, described_b.kind);
    return;
  }
  note(a_, described_a);
  note(b_, described_b);
  if (is_described) {
    Leaves of_a = leaves_of(described_a, a, a_.is_foreign(), renames_);
    compare_leaves(item, of_a, leaves_of(described_b, b, b_.is_foreign(), renames_));
  }
  if (files_a && files_b && !described_a.parts.empty() && !described_b.parts.empty()) {
    compare_parts(item, described_a.parts, described_b.parts, *files_a, *files_b);
  } else if (files_a && files_b) {
    compare_files(item, described_a, *files_a, *files_b);
  }
}

void Comparer::compare_leaves(const ItemPair& item, const Leaves& a, const Leaves& b) {
  ArrayPairs arrays;
  arrays.item = item;
  walk(
      a, b,
      [&](const auto& left, const auto& right) {
        compare_pair(arrays, title_of(item.name_a, left.first), left.second, right.second);
      },
      [&](const auto& left) {
        add(Aspect::only_in_a, title_of(item.name_a, left.first), description(left.second));
      },
      [&](const auto& right) {
        add(Aspect::only_in_b, title_of(item.name_a, right.first), "", description(right.second));
      });
  if (!arrays.pairs.empty()) {
    arrays_.push_back(std::move(arrays));
  }
}

void Comparer::compare_pair(ArrayPairs& arrays, const std::string& title, const Leaf& a, const Leaf& b) {
  if (a.kind != b.kind) {
    add(Aspect::kind, title, a.kind, b.kind);
    return;
  }
  if (a.value != nullptr && b.value != nullptr) {
    if (a.kind == formats::name(formats::EntryKind::unread)) {
      first_object_ = objects_++ == 0 ? title : first_object_;
    } else if (options_.compares_values) {
      compare_values(title, *a.value, *b.value);
    }
    return;
  }
  ++result_.arrays;
  const bool is_same_dtype = a.array.dtype == b.array.dtype;
  const bool is_same_shape = a.array.shape == b.array.shape;
  if (!is_same_dtype) {
    add(Aspect::dtype, title, std::string(tools::dtype_text(a.array.dtype)),
        std::string(tools::dtype_text(b.array.dtype)));
  }
  if (!is_same_shape) {
    add(Aspect::shape, title, to_string(a.array.shape), to_string(b.array.shape));
  }
  if (is_same_dtype && is_same_shape && options_.compares_values) {
    total_bytes_ += checked_byte_count(title, a.array.dtype, a.array.shape);
    arrays.pairs.push_back({title, a.path, b.path, a.array});
  }
}

void Comparer::compare_values(const std::string& title, const DescribedValue& a, const DescribedValue& b) {
  if (!tools::are_equal(a, b, options_)) {
    add(Aspect::value, title, value_text(a), value_text(b));
  }
}

/// Compares the parts of each name in their order.
void Comparer::compare_parts(const ItemPair& item, const std::vector<DescribedPart>& a,
                             const std::vector<DescribedPart>& b, const Files& files_a,
                             const Files& files_b) {
  PartReader read_a(a_, files_a);
  PartReader read_b(b_, files_b);
  walk(
      by_name(a), by_name(b),
      [&](const auto& left, const auto& right) {
        const DescribedPart& one = *left.second;
        const DescribedPart& other = *right.second;
        const std::string title = title_of(item.name_a, one.name);
        if (one.kind != other.kind) {
          return add(Aspect::kind, title, one.kind, other.kind);
        }
        if (options_.compares_values &&
            (one.size_bytes != other.size_bytes || !is_same_part(read_a, one, read_b, other))) {
          add(Aspect::value, title, size_text(one.size_bytes), size_text(other.size_bytes));
        }
      },
      [&](const auto& left) {
        add(Aspect::only_in_a, title_of(item.name_a, left.second->name), size_text(left.second->size_bytes));
      },
      [&](const auto& right) {
        add(Aspect::only_in_b, title_of(item.name_a, right.second->name), "",
            size_text(right.second->size_bytes));
      });
}

bool Comparer::is_same_part(PartReader& a, const DescribedPart& one, PartReader& b,
                            const DescribedPart& other) {
  total_bytes_ += one.size_bytes;
  result_.has_read_values = true;
  bool is_same = true;
  for (std::uint64_t at = 0; at < one.size_bytes && is_same; at += kPartRunBytes) {
    const std::uint64_t bytes = std::min(kPartRunBytes, one.size_bytes - at);
    const std::span<const std::byte> left = a.read(one, at, bytes);
    const std::span<const std::byte> right = b.read(other, at, bytes);
    is_same = std::equal(left.begin(), left.end(), right.begin(), right.end());
    result_.compared_bytes += bytes;
    if (options_.progress) {
      options_.progress(result_.compared_bytes, total_bytes_);
    }
  }
  return is_same;
}

/// Compares what arrays and values do not say: texts or, where they are not all there is, the files
/// themselves.
void Comparer::compare_files(const ItemPair& item, const Description& description, const Files& a,
                             const Files& b) {
  if (description.says_all) {
    compare_texts(item, description.texts, a, b);
    return;
  }
  const auto without_texts = [&description](Files files) {
    std::erase_if(files, [&](const auto& file) {
      return std::count(description.texts.begin(), description.texts.end(), file.first) != 0;
    });
    return files;
  };
  const Files others_a = without_texts(a);
  const Files others_b = without_texts(b);
  if (!options_.reads_same_files && has_same_files(others_a, others_b)) {
    return;
  }
  PartReader read_a(a_, others_a);
  PartReader read_b(b_, others_b);
  const auto has_same_bytes = [&](const std::string& name, std::uint64_t bytes) {
    const DescribedPart all{"", "", name, 0, bytes};
    return is_same_part(read_a, all, read_b, all);
  };
  const std::size_t before = result_.differences.size();
  compare_texts(item, description.texts, a, b);
  if (result_.differences.size() != before) {
    return;
  }
  walk(
      others_a, others_b,
      [&](const auto& left, const auto& right) {
        const bool is_same =
            is_same_file(left.second, right.second) &&
            (!options_.reads_same_files || has_same_bytes(left.first, left.second.size_bytes));
        if (!is_same && options_.compares_values) {
          add(Aspect::file, title_of(item.name_a, left.first), size_text(left.second.size_bytes),
              size_text(right.second.size_bytes));
        }
      },
      [&](const auto& left) {
        add(Aspect::only_in_a, title_of(item.name_a, left.first), size_text(left.second.size_bytes));
      },
      [&](const auto& right) {
        add(Aspect::only_in_b, title_of(item.name_a, right.first), "", size_text(right.second.size_bytes));
      });
}

void Comparer::compare_texts(const ItemPair& item, const std::vector<std::string>& texts, const Files& a,
                             const Files& b) {
  for (const std::string& name : texts) {
    const auto left = a.find(name);
    const auto right = b.find(name);
    if (!options_.compares_values || left == a.end() || right == b.end() ||
        (!options_.reads_same_files && is_same_file(left->second, right->second))) {
      continue;
    }
    const std::uint64_t bytes = std::max(left->second.size_bytes, right->second.size_bytes);
    const bool is_json = name.ends_with(".json");
    result_.has_read_values = result_.has_read_values || is_json || bytes <= kMostLineBytes;
    if (is_json) {
      tools::compare_json(item.name_a, Aspect::value, a_.read(left->second, bytes),
                          b_.read(right->second, bytes), result_.differences);
    } else if (bytes <= kMostLineBytes) {
      compare_lines(item.name_a, a_.read(left->second, bytes), b_.read(right->second, bytes));
    }
  }
}

/// Compares what is left of both texts without the lines that they begin and end with alike.
void Comparer::compare_lines(const std::string& title, const std::string& a, const std::string& b) {
  std::vector<std::string> left = lines_of(a);
  std::vector<std::string> right = lines_of(b);
  const auto first = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
  const auto line = first.first - left.begin();
  left.erase(left.begin(), first.first);
  right.erase(right.begin(), first.second);
  while (!left.empty() && !right.empty() && left.back() == right.back()) {
    left.pop_back();
    right.pop_back();
  }
  if (!left.empty() || !right.empty()) {
    add(Aspect::value, fmt::format("{}, line {}", title, line + 1), text_of(left), text_of(right));
  }
}

/// Reads what is left to compare.
void Comparer::compare_arrays() {
  for (const ArrayPairs& arrays : arrays_) {
    const std::vector<ArrayDifference> found = compare_elements(arrays);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].differing != 0) {
        result_.differences.push_back({Aspect::value, arrays.pairs[i].title, "", "", found[i]});
      }
    }
  }
}

std::vector<ArrayDifference> Comparer::compare_elements(const ArrayPairs& arrays) {
  const auto& [item, pairs] = arrays;
  std::vector<ArrayDifference> differences(pairs.size());
  tools::ArrayStream a(a_.reader(item.name_a, options_.layouts), regions_of(pairs, &ArrayPair::path_a));
  tools::ArrayStream b(b_.reader(item.name_b, options_.layouts), regions_of(pairs, &ArrayPair::path_b));
  while (const std::optional<tools::RegionPiece> left = a.next()) {
    const std::optional<tools::RegionPiece> right = b.next();
    tools::add_difference(left->bytes, right->bytes, pairs[left->region].array.dtype, options_.tolerance,
                          differences[left->region], options_.relative_tolerance);
    result_.has_read_values = true;
    result_.compared_bytes += left->bytes.size();
    if (options_.progress) {
      options_.progress(result_.compared_bytes, total_bytes_);
    }
  }
  return differences;
}

}  // namespace

std::string_view name(Difference::Aspect aspect) noexcept {
  static constexpr std::array<std::string_view, 9> kNames = {
      "only in A", "only in B", "handler", "metadata", "kind", "dtype", "shape", "value", "file"};
  return kNames[static_cast<std::size_t>(aspect)];
}

CheckpointDiff diff_checkpoints(const std::filesystem::path& a, const std::filesystem::path& b,
                                const DiffOptions& options, const Context& context) {
  return diff_checkpoints(checkpointables_metadata(a, context), checkpointables_metadata(b, context),
                          options);
}

CheckpointDiff diff_checkpoints(CheckpointMetadata a, CheckpointMetadata b, const DiffOptions& options) {
  return Comparer(CheckpointView(std::move(a)), CheckpointView(std::move(b)), options).run();
}

}  // namespace cairn
