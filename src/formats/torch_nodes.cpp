// SPDX-License-Identifier: Apache-2.0
// Follows the nodes of an archive's pickle into a tree.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "array/internal/cast.hpp"
#include "base/internal/utf8.hpp"
#include "formats/internal/description_budget.hpp"
#include "formats/internal/index.hpp"
#include "formats/internal/torch_archive.hpp"
#include "formats/pickled_arrays.hpp"
#include "formats/unique_names.hpp"

namespace cairn::formats {
namespace {

/// What lies deeper is left out; the trees of checkpoints are no deeper.
constexpr std::size_t kMaxPickledDepth = 1000;

/// In the states of torch's modules: maps of what they have learnt, and of the modules in them.
constexpr std::string_view kModuleMembers[] = {"_parameters", "_buffers", "_modules"};
constexpr std::size_t kMostModuleMembers = 256;

/// An attribute of the maps that torch's modules make of their states: versions of them, which no tensor needs.
constexpr std::string_view kVersions = "_metadata";

/// Classes without a place, for which there are better words than their names.
constexpr std::pair<std::string_view, std::string_view> kNoPlace[] = {
    {"torch._utils._rebuild_qtensor", "a quantised tensor"},
    {"torch._utils._rebuild_sparse_tensor", "a sparse tensor"},
    {"torch._utils._rebuild_sparse_csr_tensor", "a sparse tensor"},
    {"torch._utils._rebuild_nested_tensor", "a nested tensor"},
    {"torch._utils._rebuild_meta_tensor_no_storage", "a tensor of the device 'meta', which has no elements"},
    {"builtins.complex", "a complex number"},
};

/// Constants of torch that are no dtypes of arrays.
constexpr std::string_view kTorchConstants[] = {
    "torch.complex32",         "torch.quint8",          "torch.qint8",        "torch.qint32",
    "torch.quint4x2",          "torch.quint2x4",        "torch.bits8",        "torch.strided",
    "torch.contiguous_format", "torch.preserve_format", "torch.channels_last"};

/// Follows nodes into a tree, one frame for each container that it is in.
class NodeWalk {
 public:
  NodeWalk(const Pickle& pickle, const TorchArchive& archive, std::string_view path)
      : pickle_(&pickle),
        budget_(pickle.input_bytes(), path),
        arrays_(pickle, archive, catalogue_, budget_, path) {}

  ForeignCatalogue run() {
    visit(pickle_->root());
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      path_.resize(frame.path_bytes);
      PickleNode node{};
      if (frame.index < frame.entries.size()) {
        const PickleNode name = frame.entries[frame.index];
        const PickleNode value = frame.entries[frame.index + 1];
        frame.index += 2;
        visit_entry(name, value);
      } else if (frame.is_map || !frame.items.next(node)) {
        open_.erase(frame.node);
        frames_.pop_back();
      } else {
        append_key(path_, fmt::to_string(frame.index++));
        visit(node);
      }
    }
    return std::move(catalogue_);
  }

 private:
  using Nodes = Pickle::Nodes;

  struct Frame {
    Pickle::Items items;              ///< Of a list.
    std::vector<PickleNode> entries;  ///< Of a map: names and values in turn.
    PickleNode node{};
    std::size_t path_bytes = 0;
    bool is_map = false;
    bool is_in_module = false;  ///< Of a module that is left out.
    std::uint64_t index = 0;    ///< Of the next item, or entry.
  };

  [[nodiscard]] bool is(PickleKind kind, PickleNode node) const { return pickle_->kind(node) == kind; }

  /// These return true: the node has its place.
  template <class T>
  bool add_value(T value, std::size_t bytes = 0) {
    budget_.take(path_.size() + bytes);
    catalogue_.values.push_back({path_, std::move(value)});
    return true;
  }

  bool add_text(std::string_view text) {
    return is_valid_utf8(text) ? add_value(std::string(text), text.size())
                               : leave_out("a text that is not Unicode");
  }

  bool leave_out(std::string why) {
    budget_.take(path_.size() + why.size());
    if (!frames_.empty() && !frames_.back().is_map) {
      add_value(std::monostate());
    }
    catalogue_.left_out.push_back({path_, std::move(why)});
    return true;
  }

  [[nodiscard]] std::optional<std::string> key_of(PickleNode node) const {
    if (is(PickleKind::text, node) && is_valid_utf8(pickle_->text(node))) {
      return std::string(pickle_->text(node));
    }
    return pickle_->decimal(node);
  }

  void visit_entry(PickleNode name, PickleNode value) {
    if (const std::optional<std::string> key = key_of(name)) {
      append_key(path_, *key);
      visit(value);
    } else {
      leave_out("what a map holds under a key that is neither a text nor an integer");
    }
  }

  bool visit(PickleNode node) {
    if (open_.contains(node)) {
      return leave_out("a container that holds itself");
    }
    visited_ = node;
    switch (pickle_->kind(node)) {
      case PickleKind::none:
      case PickleKind::boolean:
      case PickleKind::integer:
      case PickleKind::unsigned_integer:
      case PickleKind::real:
        return std::visit([this](auto value) { return add_value(value); }, scalar_of(*pickle_, node));
      case PickleKind::huge_integer:
        return leave_out("an integer of more than 64 bits");
      case PickleKind::text:
        return add_text(pickle_->text(node));
      case PickleKind::bytes:
        return add_bytes(node);
      case PickleKind::global:
        return visit_global(pickle_->class_name(node));
      case PickleKind::tuple:
      case PickleKind::list:
      case PickleKind::set:
        return open_list(node);
      case PickleKind::map:
        return open_map(node);
      case PickleKind::object:
        return visit_object(node);
      case PickleKind::persistent:
        return leave_out("a storage without a tensor");
    }
    return false;
  }

  bool visit_global(const std::string& name) {
    const bool is_constant =
        (name.starts_with("torch.") && torch_dtype(name)) ||
        std::find(std::begin(kTorchConstants), std::end(kTorchConstants), name) != std::end(kTorchConstants);
    return is_constant ? add_text(name) : leave_out(fmt::format("the class or function '{}'", name));
  }

  /// Opens the container that is visited.
  bool open_frame(Pickle::Items items, std::vector<PickleNode> entries, bool is_map, bool is_module = false) {
    const bool is_in_module = is_module || (!frames_.empty() && frames_.back().is_in_module);
    open_.insert(visited_);
    frames_.push_back(
        {std::move(items), std::move(entries), visited_, path_.size(), is_map, is_in_module, 0});
    return true;
  }

  [[nodiscard]] bool is_too_deep() const { return frames_.size() == kMaxPickledDepth; }
  bool leave_out_depths() {
    return leave_out(fmt::format("what is deeper than {} levels", kMaxPickledDepth));
  }

  /// Adds a list of scalars as one value. False where it has other elements; and where it is a list of one, which what
  /// reads objects of Megatron-Core looks for by its ListSize.
  bool add_scalars(PickleNode list) {
    const std::size_t size = pickle_->size(list);
    if (size < 2 || !has_scalars_only(*pickle_, list)) {
      return false;
    }
    take_elements(size);
    ScalarList scalars;
    scalars.elements.reserve(size);
    PickleNode node{};
    for (Pickle::Items items = pickle_->items(list); items.next(node);) {
      scalars.elements.push_back(scalar_of(*pickle_, node));
    }
    return add_value(std::move(scalars));
  }

  /// Takes from the budget what elements of the list that is visited need: its path and a number for each.
  void take_elements(std::uint64_t count) {
    budget_.take_elements(count, path_.size() + 1 + fmt::to_string(count).size());
  }

  bool open_list(PickleNode node) {
    if (is_too_deep()) {
      return leave_out_depths();
    }
    if (add_scalars(node)) {
      return true;
    }
    add_value(ListSize{pickle_->size(node)});
    return open_frame(pickle_->items(node), {}, false);
  }

  /// The names and values of a map in turn. Adds those of a map, of an object's items, or of a list of pairs; false
  /// where it is none of them.
  bool add_entries(PickleNode source, std::vector<PickleNode>& entries) {
    budget_.take(4 * pickle_->size(source));
    PickleNode node{};
    const bool has_pairs = is(PickleKind::list, source) || is(PickleKind::tuple, source);
    for (Pickle::Items items = pickle_->items(source); items.next(node);) {
      if (!has_pairs) {
        entries.push_back(node);
        continue;
      }
      const bool is_pair =
          (is(PickleKind::list, node) || is(PickleKind::tuple, node)) && pickle_->size(node) == 2;
      if (!is_pair) {
        return false;
      }
      PickleNode part{};
      for (Pickle::Items parts = pickle_->items(node); parts.next(part);) {
        entries.push_back(part);
      }
    }
    const bool has_items =
        is(PickleKind::object, source) && (pickle_->size(source) == 0 || pickle_->is_mapping(source));
    return has_pairs || is(PickleKind::map, source) || has_items;
  }

  bool open_map(PickleNode node) {
    std::vector<PickleNode> entries;
    return add_entries(node, entries) && open_entries(std::move(entries));
  }

  /// Of two equal keys the last one has the value, as in Python; keys that only become equal are two.
  bool open_entries(std::vector<PickleNode> entries, bool is_module = false) {
    if (entries.empty()) {
      return add_value(EmptyMap());
    }
    if (is_too_deep()) {
      return leave_out_depths();
    }
    std::vector<std::string> keys;
    std::vector<std::size_t> places;  // Of the keys among the entries.
    for (std::size_t at = 0; at < entries.size(); at += 2) {
      if (std::optional<std::string> key = key_of(entries[at])) {
        budget_.take(key->size());
        keys.push_back(std::move(*key));
        places.push_back(at);
      }
    }
    if (find_duplicate({keys.begin(), keys.end()})) {
      std::map<std::string_view, std::size_t> first;
      std::set<std::size_t> again;
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const auto [known, is_new] = first.try_emplace(keys[i], places[i]);
        if (!is_new && pickle_->kind(entries[known->second]) != pickle_->kind(entries[places[i]])) {
          return leave_out(fmt::format("a map of which two keys become '{}'", keys[i]));
        }
        if (!is_new) {
          entries[known->second + 1] = entries[places[i] + 1];
          again.insert(places[i]);
        }
      }
      std::size_t kept = 0;
      for (std::size_t at = 0; at < entries.size(); at += 2) {
        if (!again.contains(at)) {
          entries[kept] = entries[at];
          entries[kept + 1] = entries[at + 1];
          kept += 2;
        }
      }
      entries.resize(kept);
    }
    budget_.take(path_.size());
    return open_frame({}, std::move(entries), true, is_module);
  }

  bool visit_object(PickleNode node) {
    ForeignArray array;
    array.path = path_;
    if (std::optional<std::string> why = arrays_.describe(node, array)) {
      if (!why->empty()) {
        return leave_out(std::move(*why));
      }
      budget_.take(sizeof(ForeignArray) + sizeof(ForeignSlice) + path_.size());
      catalogue_.arrays.push_back(std::move(array));
      return true;
    }
    const std::string name = pickle_->class_name(node);
    return visit_known(node, name) || visit_module(node, name) || leave_out(why_not(name));
  }

  static std::string why_not(std::string_view name) {
    for (const auto& [known, why] : kNoPlace) {
      if (known == name) {
        return std::string(why);
      }
    }
    return name.empty() ? "an object whose class other calls would find"
                        : fmt::format("an object that a call of '{}' would make", name);
  }

  /// Says what a call of a certain name means. False where nothing, or the object is not as its class makes it.
  bool visit_known(PickleNode node, const std::string& name) {
    using Visit = bool (NodeWalk::*)(PickleNode, Nodes);
    static constexpr std::pair<std::string_view, Visit> kKnown[] = {
        {"collections.OrderedDict", &NodeWalk::visit_items},
        {"collections.defaultdict", &NodeWalk::visit_items},
        {"collections.Counter", &NodeWalk::visit_counter},
        {"builtins.set", &NodeWalk::visit_list},
        {"builtins.frozenset", &NodeWalk::visit_list},
        {"torch.Size", &NodeWalk::visit_list},
        {"builtins.range", &NodeWalk::visit_range},
        {"builtins.xrange", &NodeWalk::visit_range},
        {"argparse.Namespace", &NodeWalk::visit_attributes},
        {"types.SimpleNamespace", &NodeWalk::visit_attributes},
        {"_io.BytesIO", &NodeWalk::visit_stream},
        {"builtins.bytes", &NodeWalk::visit_bytes},
        {"builtins.bytearray", &NodeWalk::visit_bytes},
        {"_codecs.encode", &NodeWalk::visit_bytes},
        {"pathlib.PosixPath", &NodeWalk::visit_path},
        {"pathlib.PurePosixPath", &NodeWalk::visit_path},
        {"pathlib._local.PosixPath", &NodeWalk::visit_path},
        {"pathlib._local.PurePosixPath", &NodeWalk::visit_path},
        {"torch.device", &NodeWalk::visit_device},
        {"torch.serialization._get_layout", &NodeWalk::visit_layout},
        {"numpy._core.multiarray.scalar", &NodeWalk::visit_scalar},
        {"numpy.dtype", &NodeWalk::visit_dtype}};
    for (const auto& [known, visit_it] : kKnown) {
      if (known == name) {
        return (this->*visit_it)(node, pickle_->tuple(pickle_->arguments(node)));
      }
    }
    return false;
  }

  /// A map that is made of another one, or of pairs, and then gets items; so may the other one be. Arguments that have
  /// names are not known.
  bool visit_items(PickleNode node, Nodes) {
    std::vector<PickleNode> layers{node};
    while (is(PickleKind::object, layers.back())) {
      const std::string name = pickle_->class_name(layers.back());
      const PickleNode arguments = pickle_->arguments(layers.back());
      const std::size_t others =
          name == "collections.defaultdict" ? 1 : 0;  // It is made of what makes values, too.
      const Nodes made_of = pickle_->tuple(arguments);
      if ((others == 0 && name != "collections.OrderedDict") || arguments == kNoneNode ||
          made_of.size() > others + 1) {
        return false;
      }
      if (made_of.size() <= others) {
        break;
      }
      budget_.take(sizeof node);
      layers.push_back(made_of.back());
    }
    std::vector<PickleNode> entries;
    const bool are_maps = std::all_of(layers.rbegin(), layers.rend(),
                                      [&](PickleNode layer) { return add_entries(layer, entries); });
    if (!are_maps) {
      return false;
    }
    tell_attributes(node);
    return open_entries(std::move(entries));
  }

  bool visit_counter(PickleNode node, Nodes made_of) {
    if (pickle_->size(node) != 0 || made_of.size() != 1 || !is(PickleKind::map, made_of[0])) {
      return false;
    }
    tell_attributes(node);
    return open_map(made_of[0]);
  }

  /// Tells which attributes an object has that becomes a map of its items.
  void tell_attributes(PickleNode object) {
    const PickleNode state = pickle_->state(object);
    const auto tell = [&](const std::string& attribute) {
      std::string path = path_;
      append_key(path, "." + attribute);
      std::string why = fmt::format("the attribute '{}' of a '{}'", attribute, pickle_->class_name(object));
      budget_.take(path.size() + why.size());
      catalogue_.left_out.push_back({std::move(path), std::move(why)});
    };
    if (!is(PickleKind::map, state)) {
      return state == kNoneNode ? void() : tell("__dict__");
    }
    budget_.take(pickle_->size(state));
    PickleNode name{};
    PickleNode value{};
    for (Pickle::Items items = pickle_->items(state); items.next(name) && items.next(value);) {
      const std::string attribute = key_of(name).value_or("__dict__");
      if (attribute != kVersions) {
        tell(attribute);
      }
    }
  }

  /// Leaves out a module of torch, and offers what it has learnt below its path. False where it is not one.
  bool visit_module(PickleNode node, std::string_view name) {
    const PickleNode state = pickle_->state(node);
    if (!is(PickleKind::map, state) || pickle_->size(state) > 2 * kMostModuleMembers) {
      return false;
    }
    budget_.take(pickle_->size(state));  // It may be shared.
    std::vector<PickleNode> entries;
    PickleNode key{};
    PickleNode value{};
    for (Pickle::Items items = pickle_->items(state); items.next(key) && items.next(value);) {
      const bool is_member =
          is(PickleKind::text, key) && std::find(std::begin(kModuleMembers), std::end(kModuleMembers),
                                                 pickle_->text(key)) != std::end(kModuleMembers);
      if (is_member) {
        entries.insert(entries.end(), {key, value});
      }
    }
    if (entries.size() < 2 * std::size(kModuleMembers)) {
      return false;
    }
    if (frames_.empty() || !frames_.back().is_in_module) {
      std::string why =
          fmt::format("this is a whole module: save model.state_dict(); an object of the class '{}'", name);
      budget_.take(path_.size() + why.size());
      catalogue_.left_out.push_back({path_, std::move(why)});
    }
    return open_entries(std::move(entries), true);
  }

  bool visit_list(PickleNode, Nodes made_of) {
    return made_of.size() == 1 && (is(PickleKind::list, made_of[0]) || is(PickleKind::tuple, made_of[0])) &&
           open_list(made_of[0]);
  }

  bool visit_attributes(PickleNode node, Nodes) {
    const PickleNode state = pickle_->state(node);
    return state == kNoneNode ? add_value(EmptyMap()) : is(PickleKind::map, state) && open_map(state);
  }

  bool visit_stream(PickleNode node, Nodes) {
    const Nodes state = pickle_->tuple(pickle_->state(node));
    return state.size() == 3 && add_bytes(state[0]);
  }

  bool visit_bytes(PickleNode node, Nodes) { return add_bytes(node); }

  bool add_bytes(PickleNode node) {
    const std::optional<PickledArrays::Content> content = arrays_.content(node);
    if (!content) {
      return leave_out("bytes in an encoding that is not read");
    }
    const auto bytes = std::as_bytes(std::span(content->bytes));
    return add_value(std::vector<std::byte>(bytes.begin(), bytes.end()), bytes.size());
  }

  bool visit_layout(PickleNode, Nodes made_of) {
    return made_of.size() == 1 && is(PickleKind::text, made_of[0]) && add_text(pickle_->text(made_of[0]));
  }

  bool visit_dtype(PickleNode node, Nodes) {
    const std::optional<NumpyDType> dtype = arrays_.numpy_dtype(node);
    return dtype && add_text(dtype->name);
  }

  bool visit_range(PickleNode, Nodes numbers) {
    const auto is_integer = [&](PickleNode node) { return is(PickleKind::integer, node); };
    if (numbers.size() != 3 || !std::all_of(numbers.begin(), numbers.end(), is_integer) ||
        pickle_->integer(numbers[2]) == 0) {
      return false;
    }
    // Unsigned, where distances of 64 bits fit and sums wrap around to what they should be.
    const std::uint64_t begin = pickle_->integer(numbers[0]);
    const std::uint64_t end = pickle_->integer(numbers[1]);
    const std::uint64_t step = pickle_->integer(numbers[2]);
    const auto is_less = [](std::uint64_t a, std::uint64_t b) {
      return static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b);
    };
    const bool is_upward = is_less(0, step);
    const bool is_empty = is_upward ? !is_less(begin, end) : !is_less(end, begin);
    const std::uint64_t distance = is_upward ? end - begin : begin - end;
    const std::uint64_t count = is_empty ? 0 : (distance - 1) / (is_upward ? step : 0 - step) + 1;
    take_elements(count);
    ScalarList range;
    range.elements.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) {
      range.elements.emplace_back(static_cast<std::int64_t>(begin + i * step));
    }
    return add_value(std::move(range));
  }

  bool visit_path(PickleNode, Nodes parts) {
    std::string joined;
    for (const PickleNode part : parts) {
      if (!is(PickleKind::text, part)) {
        return false;
      }
      budget_.take(pickle_->text(part).size());
      joined.append(joined.empty() || joined.ends_with('/') ? "" : "/").append(pickle_->text(part));
    }
    return add_text(joined.empty() ? "." : joined);
  }

  bool visit_device(PickleNode, Nodes made_of) {
    const bool has_number = made_of.size() == 2 && is(PickleKind::integer, made_of[1]);
    if ((made_of.size() != 1 && !has_number) || !is(PickleKind::text, made_of[0])) {
      return false;
    }
    std::string device(pickle_->text(made_of[0]));
    if (has_number) {
      device += fmt::format(":{}", static_cast<std::int64_t>(pickle_->integer(made_of[1])));
    }
    return add_text(device);
  }

  /// A scalar of numpy is a number, of a type that a tree has.
  bool visit_scalar(PickleNode, Nodes made_of) {
    const std::optional<NumpyDType> type =
        made_of.size() == 2 ? arrays_.numpy_dtype(made_of[0]) : std::nullopt;
    std::optional<PickledArrays::Content> content = type ? arrays_.content(made_of[1]) : std::nullopt;
    if (!content || !type->dtype || content->bytes.size() != bits(*type->dtype) / 8) {
      return false;
    }
    std::string& bytes = content->bytes;
    if (type->is_big_endian) {
      std::reverse(bytes.begin(), bytes.end());
    }
    if (*type->dtype == DType::boolean) {
      return add_value(bytes[0] != 0);
    }
    if (is_floating(*type->dtype)) {
      double number = 0;
      cast(std::as_bytes(std::span(bytes)), *type->dtype, std::as_writable_bytes(std::span(&number, 1)),
           DType::float64);
      return add_value(number);
    }
    if (!is_integer(*type->dtype)) {
      return false;
    }
    const bool is_signed = type->name.find('i') != std::string::npos;
    const bool is_negative = is_signed && (static_cast<unsigned char>(bytes.back()) & 0x80u) != 0;
    bytes.resize(sizeof(std::uint64_t), is_negative ? '\xff' : '\0');
    std::uint64_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    return !is_signed && number > static_cast<std::uint64_t>(INT64_MAX)
               ? add_value(number)
               : add_value(static_cast<std::int64_t>(number));
  }

  const Pickle* pickle_;
  DescriptionBudget budget_;
  ForeignCatalogue catalogue_;
  PickledArrays arrays_;
  std::vector<Frame> frames_;
  std::set<PickleNode> open_;  ///< The containers of the frames.
  PickleNode visited_{};
  std::string path_;  ///< Of the node that is visited.
};

}  // namespace

ForeignCatalogue describe_torch_archive(const TorchArchive& archive, std::string_view path) {
  const Pickle pickle = Pickle::read(archive.pickle, std::string(path) + ": data.pkl");
  ForeignCatalogue catalogue = NodeWalk(pickle, archive, path).run();
  catalogue.files.emplace_back(path);
  catalogue.may_overlap = true;
  return catalogue;
}

}  // namespace cairn::formats
