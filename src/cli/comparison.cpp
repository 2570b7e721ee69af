// SPDX-License-Identifier: Apache-2.0
#include "cli/comparison.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "cairn/api/load.hpp"
#include "cairn/formats/entry_path.hpp"
#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/array_handler.hpp"
#include "cairn/handlers/array_options.hpp"
#include "cairn/handlers/builtin.hpp"
#include "cairn/handlers/json.hpp"

#include "cli/describe.hpp"
#include "cli/text.hpp"

namespace cairn::cli {
namespace {

constexpr std::uint64_t kBatchBytes = std::uint64_t{64} << 20;  // Of each side.
constexpr std::size_t kMostProtoBytes = std::size_t{4}
                                        << 20;  // Of a text form; longer ones are for nobody to read.

using Files = std::map<std::string, store::FileEntry>;

/// A leaf of a tree as metadata knows it.
struct Leaf {
  std::string path;  ///< As the side that it comes from calls it.
  TreeKind kind = TreeKind::null;
  Tree value;  ///< Of a scalar.
  AbstractArray array;
};

using Leaves = std::map<std::string, Leaf>;

/// An array that both sides have, in one dtype and shape.
struct ArrayPair {
  std::string title;
  std::string path_a;
  std::string path_b;
  AbstractArray array;
  std::uint64_t bytes = 0;
};

/// What both sides call a checkpointable.
struct ItemPair {
  std::string name_a;
  std::string name_b;
};

std::string title_of(const std::string& item, const std::string& path) {
  return path.empty() ? item : item + "/" + path;
}

/// The name of a tensor of another program, which is one key, as Cairn calls an array that was saved under
/// it.
std::string foreign_path(const std::string& path) {
  const std::vector<std::string> keys = formats::split_path(path);
  return keys.size() == 1 ? keys.front() : path;
}

void add_leaf(Leaves& leaves, std::string_view path, const AbstractTree& node, bool is_foreign) {
  Leaf leaf;
  leaf.path = path;
  leaf.kind = node.kind();
  if (leaf.kind == TreeKind::array) {
    leaf.array = node.as_array();
  } else {
    leaf.value = node.stored_value();
  }
  std::string key = is_foreign ? foreign_path(leaf.path) : leaf.path;
  leaves.emplace(std::move(key), std::move(leaf));
}

/// The leaves of a tree or an array; nothing for all else.
std::optional<Leaves> leaves_of(const ItemMetadata& item, bool is_foreign) {
  Leaves leaves;
  if (const auto* array = item.abstract.as<AbstractArray>()) {
    add_leaf(leaves, "", AbstractTree(*array), false);
    return leaves;
  }
  if (const auto* tree = item.abstract.as<AbstractTree>()) {
    visit_leaves(*tree, [&](std::string_view path, const AbstractTree& node) {
      add_leaf(leaves, path, node, is_foreign);
    });
    return leaves;
  }
  return std::nullopt;
}

std::string description(const Leaf& leaf) {
  if (leaf.kind == TreeKind::array) {
    return fmt::format("{} {}", name(leaf.array.dtype), to_string(leaf.array.shape));
  }
  const std::string value = value_text(leaf.value);
  return value.empty() ? std::string(name(leaf.kind)) : value;
}

bool is_same_file(const store::FileEntry& a, const store::FileEntry& b) {
  return a.size_bytes == b.size_bytes && a.root == b.root;
}

/// How far two integers lie apart; exact, though neither need fit in a double.
double gap(const Tree& a, const Tree& b) {
  // Below zero counts as the two's complement: the difference of the larger and the smaller is right all the same.
  const auto bits = [](const Tree& value) {
    return value.large_integer() ? *value.large_integer()
                                 : static_cast<std::uint64_t>(value.as<std::int64_t>());
  };
  const auto is_negative = [](const Tree& value) {
    return !value.large_integer() && value.as<std::int64_t>() < 0;
  };
  const std::uint64_t left = bits(a);
  const std::uint64_t right = bits(b);
  const bool is_left_larger = is_negative(a) == is_negative(b) ? left > right : is_negative(b);
  return static_cast<double>(is_left_larger ? left - right : right - left);
}

/// How far two numbers of one kind lie apart.
double apart(const Tree& a, const Tree& b) {
  return a.kind() == TreeKind::integer ? gap(a, b) : distance(a.as<double>(), b.as<double>());
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

class Comparer {
 public:
  Comparer(const Side& a, const Side& b, const CompareOptions& options) : a_(a), b_(b), options_(options) {}

  Comparison run();

 private:
  struct Batches {
    ItemPair item;
    bool is_array = false;  ///< The checkpointable itself is the array.
    std::vector<ArrayPair> pairs;
  };

  void add(Aspect aspect, std::string name, std::string a = "", std::string b = "");
  void compare_custom_metadata();
  [[nodiscard]] std::vector<ItemPair> pair_items();
  void compare_item(const ItemPair& item);
  void compare_leaves(const ItemPair& item, const Leaves& a, const Leaves& b);
  void compare_pair(Batches& batches, const std::string& title, const Leaf& a, const Leaf& b);
  void compare_scalars(const std::string& title, const Tree& a, const Tree& b);
  void compare_files(const ItemPair& item, const Files& a, const Files& b);
  bool compare_proto(const ItemPair& item, const Files& a, const Files& b);
  void compare_lines(const std::string& title, Aspect aspect, const std::string& a, const std::string& b);
  void compare_arrays();
  void compare_batch(const Batches& batches, std::span<const ArrayPair> pairs);
  void compare_values(const ArrayPair& pair, const Array& a, const Array& b);
  [[nodiscard]] LoadResponse load(const Side& side, const std::string& name, const Batches& batches,
                                  std::span<const ArrayPair> pairs, std::string ArrayPair::*path) const;

  const Side& a_;
  const Side& b_;
  const CompareOptions& options_;
  Comparison result_;
  std::vector<Batches> batches_;
  std::uint64_t total_bytes_ = 0;
};

Comparison Comparer::run() {
  compare_custom_metadata();
  for (const ItemPair& item : pair_items()) {
    compare_item(item);
  }
  compare_arrays();
  return std::move(result_);
}

void Comparer::add(Aspect aspect, std::string name, std::string a, std::string b) {
  result_.differences.push_back({aspect, std::move(name), std::move(a), std::move(b), std::nullopt});
}

void Comparer::compare_custom_metadata() {
  // Foreign files have none to compare with.
  if (a_.is_whole() && b_.is_whole() && a_.metadata().custom_metadata != b_.metadata().custom_metadata) {
    compare_json("custom metadata", Aspect::metadata, a_.metadata().custom_metadata,
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
  if (a.handler_id != b.handler_id) {
    add(Aspect::handler, item.name_a, a.handler_id, b.handler_id);
    return;
  }
  const std::optional<Files> files_a = a_.files(item.name_a);
  const std::optional<Files> files_b = b_.files(item.name_b);
  const auto is_same_entry = [](const auto& left, const auto& right) {
    return left.first == right.first && is_same_file(left.second, right.second);
  };
  if (files_a && files_b &&
      std::equal(files_a->begin(), files_a->end(), files_b->begin(), files_b->end(), is_same_entry)) {
    result_.arrays += arrays(a).size();
    result_.same_files_bytes += a.bytes;
    return;
  }
  const std::optional<Leaves> leaves_a = leaves_of(a, a_.is_foreign());
  const std::optional<Leaves> leaves_b = leaves_of(b, b_.is_foreign());
  if (leaves_a && leaves_b) {
    compare_leaves(item, *leaves_a, *leaves_b);
  } else if (a.abstract.as<AbstractJson>() != nullptr && b.abstract.as<AbstractJson>() != nullptr) {
    if (options_.compares_values) {
      compare_json_items(a_, item.name_a, b_, item.name_b, result_.differences);
    }
  } else if (files_a && files_b && !compare_proto(item, *files_a, *files_b)) {
    compare_files(item, *files_a, *files_b);
  }
}

void Comparer::compare_leaves(const ItemPair& item, const Leaves& a, const Leaves& b) {
  Batches batches;
  batches.item = item;
  batches.is_array = a_.metadata().at(item.name_a).abstract.as<AbstractArray>() != nullptr;
  walk(
      a, b,
      [&](const auto& left, const auto& right) {
        compare_pair(batches, title_of(item.name_a, left.first), left.second, right.second);
      },
      [&](const auto& left) {
        add(Aspect::only_in_a, title_of(item.name_a, left.first), description(left.second));
      },
      [&](const auto& right) {
        add(Aspect::only_in_b, title_of(item.name_a, right.first), "", description(right.second));
      });
  if (!batches.pairs.empty()) {
    batches_.push_back(std::move(batches));
  }
}

void Comparer::compare_pair(Batches& batches, const std::string& title, const Leaf& a, const Leaf& b) {
  if (a.kind != b.kind) {
    add(Aspect::kind, title, std::string(name(a.kind)), std::string(name(b.kind)));
    return;
  }
  if (a.kind != TreeKind::array) {
    if (options_.compares_values) {
      compare_scalars(title, a.value, b.value);
    }
    return;
  }
  ++result_.arrays;
  const bool is_same_dtype = a.array.dtype == b.array.dtype;
  const bool is_same_shape = a.array.shape == b.array.shape;
  if (!is_same_dtype) {
    add(Aspect::dtype, title, std::string(name(a.array.dtype)), std::string(name(b.array.dtype)));
  }
  if (!is_same_shape) {
    add(Aspect::shape, title, to_string(a.array.shape), to_string(b.array.shape));
  }
  if (is_same_dtype && is_same_shape && options_.compares_values) {
    const std::uint64_t bytes = checked_byte_count(title, a.array.dtype, a.array.shape);
    total_bytes_ += bytes;
    batches.pairs.push_back({title, a.path, b.path, a.array, bytes});
  }
}

void Comparer::compare_scalars(const std::string& title, const Tree& a, const Tree& b) {
  if (a == b) {
    return;
  }
  const bool is_number = a.kind() == TreeKind::integer || a.kind() == TreeKind::floating;
  const bool is_near = is_number && options_.tolerance && apart(a, b) <= *options_.tolerance;
  if (!is_near) {
    add(Aspect::value, title, value_text(a), value_text(b));
  }
}

/// For checkpointables of handlers that this tool does not know: whatever they are, their files tell them
/// apart.
void Comparer::compare_files(const ItemPair& item, const Files& a, const Files& b) {
  walk(
      a, b,
      [&](const auto& left, const auto& right) {
        if (!is_same_file(left.second, right.second) && options_.compares_values) {
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

/// Compares what protobuf messages are loaded from, their type and their binary form; false when one has neither. The
/// text form is for people: it says where a difference is, not whether there is one.
bool Comparer::compare_proto(const ItemPair& item, const Files& a, const Files& b) {
  if (a_.metadata().at(item.name_a).handler_id != "cairn.proto/1") {
    return false;
  }
  const auto type_a = a.find("type.txt");
  const auto type_b = b.find("type.txt");
  const auto binary_a = a.find("message.binpb");
  const auto binary_b = b.find("message.binpb");
  if (type_a == a.end() || type_b == b.end() || binary_a == a.end() || binary_b == b.end()) {
    return false;
  }
  const std::size_t before = result_.differences.size();
  if (!is_same_file(type_a->second, type_b->second)) {
    compare_lines(item.name_a, Aspect::kind, a_.read(type_a->second, kMostProtoBytes),
                  b_.read(type_b->second, kMostProtoBytes));
  }
  if (is_same_file(binary_a->second, binary_b->second) || !options_.compares_values) {
    return true;
  }
  const auto text_a = a.find("message.txtpb");
  const auto text_b = b.find("message.txtpb");
  if (text_a != a.end() && text_b != b.end() &&
      std::max(text_a->second.size_bytes, text_b->second.size_bytes) <= kMostProtoBytes) {
    compare_lines(item.name_a, Aspect::value, a_.read(text_a->second, kMostProtoBytes),
                  b_.read(text_b->second, kMostProtoBytes));
  }
  if (result_.differences.size() == before) {
    add(Aspect::file, title_of(item.name_a, binary_a->first), size_text(binary_a->second.size_bytes),
        size_text(binary_b->second.size_bytes));
  }
  return true;
}

/// What is left of both texts without the lines that they begin and end with alike.
void Comparer::compare_lines(const std::string& title, Aspect aspect, const std::string& a,
                             const std::string& b) {
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
    const std::string place = aspect == Aspect::kind ? title : fmt::format("{}, line {}", title, line + 1);
    add(aspect, place, text_of(left), text_of(right));
  }
}

/// Reads what is left to compare, one batch after the other.
void Comparer::compare_arrays() {
  for (const Batches& batches : batches_) {
    const std::span<const ArrayPair> pairs(batches.pairs);
    for (std::size_t begin = 0; begin < pairs.size();) {
      std::size_t end = begin;
      std::uint64_t bytes = 0;
      do {
        bytes += pairs[end++].bytes;
      } while (end < pairs.size() && bytes + pairs[end].bytes <= kBatchBytes);
      compare_batch(batches, pairs.subspan(begin, end - begin));
      begin = end;
    }
  }
}

void Comparer::compare_batch(const Batches& batches, std::span<const ArrayPair> pairs) {
  const LoadResponse load_a = load(a_, batches.item.name_a, batches, pairs, &ArrayPair::path_a);
  const LoadResponse load_b = load(b_, batches.item.name_b, batches, pairs, &ArrayPair::path_b);
  Loaded loaded_a = load_a.wait();
  Loaded loaded_b = load_b.wait();
  if (batches.is_array) {
    compare_values(pairs.front(), loaded_a.take<Array>(batches.item.name_a),
                   loaded_b.take<Array>(batches.item.name_b));
    return;
  }
  const Tree tree_a = loaded_a.take<Tree>(batches.item.name_a);
  const Tree tree_b = loaded_b.take<Tree>(batches.item.name_b);
  for (const ArrayPair& pair : pairs) {
    compare_values(pair, tree_a.at(pair.path_a).as<Array>(), tree_b.at(pair.path_b).as<Array>());
  }
}

/// Starts to read these arrays and no others.
LoadResponse Comparer::load(const Side& side, const std::string& name, const Batches& batches,
                            std::span<const ArrayPair> pairs, std::string ArrayPair::*path) const {
  if (batches.is_array) {
    return load_checkpointables_async(side.path(), {name});
  }
  AbstractTree wanted;
  for (const ArrayPair& pair : pairs) {
    AbstractTree* node = &wanted;
    for (const std::string& key : formats::split_path(pair.*path)) {
      node = &(*node)[key];
    }
    *node = pair.array;
  }
  TreeLoadOptions partial;
  partial.partial = true;
  LoadOptions options;
  options.handler_options.set(partial);
  return load_checkpointables_async(side.path(), {Request(name, std::move(wanted))}, options);
}

void Comparer::compare_values(const ArrayPair& pair, const Array& a, const Array& b) {
  const ArrayDifference difference = cli::compare(a.view(), b.view(), options_.tolerance);
  result_.compared_bytes += pair.bytes;
  if (difference.differing != 0) {
    result_.differences.push_back({Aspect::value, pair.title, "", "", difference});
  }
  if (options_.progress) {
    options_.progress(result_.compared_bytes, total_bytes_);
  }
}

}  // namespace

std::string_view name(Aspect aspect) noexcept {
  switch (aspect) {
    case Aspect::only_in_a:
      return "only in A";
    case Aspect::only_in_b:
      return "only in B";
    case Aspect::handler:
      return "handler";
    case Aspect::metadata:
      return "metadata";
    case Aspect::kind:
      return "kind";
    case Aspect::dtype:
      return "dtype";
    case Aspect::shape:
      return "shape";
    case Aspect::value:
      return "value";
    case Aspect::file:
      break;
  }
  return "file";
}

Comparison compare(const Side& a, const Side& b, const CompareOptions& options) {
  return Comparer(a, b, options).run();
}

}  // namespace cairn::cli
