// SPDX-License-Identifier: Apache-2.0
#include "formats/torch_nodes.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/formats/index.hpp"

#include "base/internal/utf8.hpp"
#include "formats/pickled_arrays.hpp"
#include "formats/unique_names.hpp"

namespace cairn::formats {
namespace {

/// So much memory an array's description takes, about.
constexpr std::uint64_t kArrayBytes = 256;

/// What an object means whose callable has a certain name.
enum class Meaning : std::uint8_t {
  unknown,
  map,         ///< Its items.
  counter,     ///< Its first argument, a map.
  list,        ///< Its first argument, a list or a tuple.
  range,       ///< Numbers, from its arguments.
  attributes,  ///< A map: its state.
  stream,      ///< Bytes: the first of its state.
  bytes,       ///< What its arguments encode.
  path,        ///< A text: its arguments joined.
  device,      ///< A text: its arguments.
  first_text,  ///< A text: its argument.
  numpy_scalar,
  numpy_dtype,
};

struct KnownClass {
  std::string_view name;
  Meaning meaning;
};
constexpr KnownClass kKnownClasses[] = {
    {"collections.OrderedDict", Meaning::map},
    {"collections.defaultdict", Meaning::map},
    {"collections.Counter", Meaning::counter},
    {"builtins.set", Meaning::list},
    {"builtins.frozenset", Meaning::list},
    {"torch.Size", Meaning::list},
    {"builtins.range", Meaning::range},
    {"builtins.xrange", Meaning::range},
    {"argparse.Namespace", Meaning::attributes},
    {"types.SimpleNamespace", Meaning::attributes},
    {"_io.BytesIO", Meaning::stream},
    {"builtins.bytes", Meaning::bytes},
    {"builtins.bytearray", Meaning::bytes},
    {"_codecs.encode", Meaning::bytes},
    {"pathlib.PosixPath", Meaning::path},
    {"pathlib.PurePosixPath", Meaning::path},
    {"pathlib._local.PosixPath", Meaning::path},
    {"pathlib._local.PurePosixPath", Meaning::path},
    {"torch.device", Meaning::device},
    {"torch.serialization._get_layout", Meaning::first_text},
    {"numpy._core.multiarray.scalar", Meaning::numpy_scalar},
    {"numpy.dtype", Meaning::numpy_dtype},
};

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
      if (!frame.items.next(node)) {
        frames_.pop_back();
      } else if (!frame.is_map) {
        append_key(path_, fmt::to_string(frame.index++));
        visit(node);
      } else {
        PickleNode value{};
        static_cast<void>(frame.items.next(value));  // A map has a value for each key.
        visit_entry(node, value);
      }
    }
    return std::move(catalogue_);
  }

 private:
  struct Frame {
    Pickle::Items items;
    std::size_t path_bytes = 0;
    bool is_map = false;
    std::uint64_t index = 0;
  };

  template <class T>
  void add_value(T value, std::size_t bytes = 0) {
    budget_.take(path_.size() + bytes);
    catalogue_.values.push_back({path_, std::move(value)});
  }

  void leave_out(std::string why) {
    budget_.take(path_.size() + why.size());
    if (!frames_.empty() && !frames_.back().is_map) {
      add_value(std::monostate());
    }
    catalogue_.left_out.push_back({path_, std::move(why)});
  }

  [[nodiscard]] std::optional<std::string> key_of(PickleNode node) const {
    const PickleKind kind = pickle_->kind(node);
    if (kind == PickleKind::text && is_valid_utf8(pickle_->text(node))) {
      return std::string(pickle_->text(node));
    }
    if (kind == PickleKind::integer) {
      return fmt::to_string(static_cast<std::int64_t>(pickle_->integer(node)));
    }
    return std::nullopt;
  }

  void visit_entry(PickleNode name, PickleNode value) {
    if (const std::optional<std::string> key = key_of(name)) {
      append_key(path_, *key);
      visit(value);
    } else {
      leave_out("what a map holds under a key that is neither a text nor an integer");
    }
  }

  void visit(PickleNode node) {
    switch (pickle_->kind(node)) {
      case PickleKind::none:
        return add_value(std::monostate());
      case PickleKind::boolean:
        return add_value(pickle_->boolean(node));
      case PickleKind::integer:
        return add_value(static_cast<std::int64_t>(pickle_->integer(node)));
      case PickleKind::unsigned_integer:
        return add_value(pickle_->integer(node));
      case PickleKind::huge_integer:
        return leave_out("an integer of more than 64 bits");
      case PickleKind::real:
        return add_value(pickle_->real(node));
      case PickleKind::text:
        return add_text(pickle_->text(node));
      case PickleKind::bytes:
        return visit_bytes(node);
      case PickleKind::global:
        return visit_global(node);
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
  }

  void add_text(std::string_view text) {
    if (is_valid_utf8(text)) {
      add_value(std::string(text), text.size());
    } else {
      leave_out("a text that is not Unicode");
    }
  }

  void visit_bytes(PickleNode node) {
    if (std::optional<PickledArrays::Content> content = arrays_.content(node)) {
      const auto bytes = std::as_bytes(std::span(content->bytes));
      add_value(std::vector<std::byte>(bytes.begin(), bytes.end()), bytes.size());
    } else {
      leave_out("bytes in an encoding that is not read");
    }
  }

  void visit_global(PickleNode node) {
    std::string name = pickle_->class_name(node);
    constexpr std::string_view kTorch = "torch.";
    const bool is_constant =
        (name.starts_with(kTorch) && torch_dtype(std::string_view(name).substr(kTorch.size()))) ||
        std::find(std::begin(kTorchConstants), std::end(kTorchConstants), name) != std::end(kTorchConstants);
    if (is_constant && is_valid_utf8(name)) {
      add_text(name);
    } else {
      leave_out(fmt::format("the class or function '{}'", name));
    }
  }

  void open_frame(PickleNode node, bool is_map) {
    if (frames_.size() == kMaxPickledDepth) {
      arrays_.refuse(std::string_view(path_).substr(0, 60),
                     fmt::format("the tree is deeper than {} levels", kMaxPickledDepth));
    }
    frames_.push_back({pickle_->items(node), path_.size(), is_map, 0});
  }

  void open_list(PickleNode node) {
    add_value(ListSize{pickle_->size(node)});
    open_frame(node, false);
  }

  void open_map(PickleNode node) {
    if (pickle_->size(node) == 0) {
      return add_value(EmptyMap());
    }
    std::vector<std::string> keys;
    PickleNode name{};
    PickleNode value{};
    for (Pickle::Items items = pickle_->items(node); items.next(name) && items.next(value);) {
      if (std::optional<std::string> key = key_of(name)) {
        budget_.take(key->size());
        keys.push_back(std::move(*key));
      }
    }
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    if (const auto twice = find_duplicate(views)) {
      return leave_out(fmt::format("a map of which two keys become '{}'", *twice));
    }
    budget_.take(path_.size());
    open_frame(node, true);
  }

  void visit_object(PickleNode node) {
    ForeignArray array;
    array.path = path_;
    if (std::optional<std::string> why = arrays_.describe(node, array)) {
      if (!why->empty()) {
        return leave_out(std::move(*why));
      }
      budget_.take(kArrayBytes + 2 * path_.size());
      catalogue_.arrays.push_back(std::move(array));
      return;
    }
    const std::string name = pickle_->class_name(node);
    const auto* const known = std::find_if(std::begin(kKnownClasses), std::end(kKnownClasses),
                                           [&](const KnownClass& each) { return each.name == name; });
    if (known == std::end(kKnownClasses) || !visit_known(node, known->meaning)) {
      leave_out(why_not(name));
    }
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

  /// The arguments of an object, or none where their number is not what its class asks for.
  [[nodiscard]] std::vector<PickleNode> arguments(PickleNode object, std::size_t least,
                                                  std::size_t most) const {
    const PickleNode tuple = pickle_->arguments(object);
    std::vector<PickleNode> found;
    if (pickle_->kind(tuple) == PickleKind::tuple && pickle_->size(tuple) >= least &&
        pickle_->size(tuple) <= most) {
      PickleNode node{};
      for (Pickle::Items items = pickle_->items(tuple); items.next(node);) {
        found.push_back(node);
      }
    }
    return found;
  }

  /// False when the object is not as its class makes it: then it has no place.
  bool visit_known(PickleNode node, Meaning meaning) {
    const PickleNode state = pickle_->state(node);
    const std::vector<PickleNode> one = arguments(node, 1, 1);
    switch (meaning) {
      case Meaning::unknown:
        return false;
      case Meaning::map: {
        const bool is_plain = pickle_->size(node) == 0 || pickle_->is_mapping(node);
        // A defaultdict is made with what makes its values.
        if (!is_plain ||
            (pickle_->arguments(node) != kNoneNode && pickle_->size(pickle_->arguments(node)) > 1)) {
          return false;
        }
        open_map(node);
        return true;
      }
      case Meaning::counter:
        return pickle_->size(node) == 0 && !one.empty() && open_map_at(one[0]);
      case Meaning::list:
        if (one.empty() ||
            (pickle_->kind(one[0]) != PickleKind::list && pickle_->kind(one[0]) != PickleKind::tuple)) {
          return false;
        }
        open_list(one[0]);
        return true;
      case Meaning::range:
        return visit_range(arguments(node, 3, 3));
      case Meaning::attributes:
        return open_map_at(state);
      case Meaning::stream:
        if (pickle_->kind(state) != PickleKind::tuple || pickle_->size(state) != 3) {
          return false;
        }
        visit_bytes(pickle_->item(state, 0));
        return true;
      case Meaning::bytes:
        visit_bytes(node);
        return true;
      case Meaning::path:
        return visit_path(node);
      case Meaning::device:
        return visit_device(arguments(node, 1, 2));
      case Meaning::first_text:
        if (one.empty() || pickle_->kind(one[0]) != PickleKind::text) {
          return false;
        }
        add_text(pickle_->text(one[0]));
        return true;
      case Meaning::numpy_scalar:
        return visit_scalar(arguments(node, 2, 2));
      case Meaning::numpy_dtype:
        if (const std::optional<NumpyDType> dtype = arrays_.numpy_dtype(node)) {
          add_text(dtype->name);
          return true;
        }
        return false;
    }
    return false;
  }

  bool open_map_at(PickleNode node) {
    if (pickle_->kind(node) != PickleKind::map) {
      return false;
    }
    open_map(node);
    return true;
  }

  bool visit_range(const std::vector<PickleNode>& numbers) {
    const auto is_integer = [&](PickleNode node) { return pickle_->kind(node) == PickleKind::integer; };
    if (numbers.empty() || !std::all_of(numbers.begin(), numbers.end(), is_integer)) {
      return false;
    }
    const auto at = [&](std::size_t i) { return static_cast<std::int64_t>(pickle_->integer(numbers[i])); };
    const bool is_upward = at(2) > 0;
    if (at(2) == 0) {
      return false;
    }
    // Unsigned, where distances of 64 bits fit and sums wrap around to what they should be.
    const std::uint64_t begin = pickle_->integer(numbers[0]);
    const std::uint64_t end = pickle_->integer(numbers[1]);
    const std::uint64_t step = pickle_->integer(numbers[2]);
    const bool is_empty = is_upward ? at(0) >= at(1) : at(0) <= at(1);
    const std::uint64_t distance = is_upward ? end - begin : begin - end;
    const std::uint64_t count = is_empty ? 0 : (distance - 1) / (is_upward ? step : 0 - step) + 1;
    add_value(ListSize{count});
    const std::size_t path_bytes = path_.size();
    for (std::uint64_t i = 0; i < count; ++i) {  // The budget ends it where it is too long.
      append_key(path_, fmt::to_string(i));
      add_value(static_cast<std::int64_t>(begin + i * step));
      path_.resize(path_bytes);
    }
    return true;
  }

  bool visit_path(PickleNode object) {
    const PickleNode parts = pickle_->arguments(object);
    if (pickle_->kind(parts) != PickleKind::tuple) {
      return false;
    }
    std::string joined;
    PickleNode part{};
    for (Pickle::Items items = pickle_->items(parts); items.next(part);) {
      if (pickle_->kind(part) != PickleKind::text) {
        return false;
      }
      budget_.take(pickle_->text(part).size());
      if (!joined.empty() && !joined.ends_with('/')) {
        joined.push_back('/');
      }
      joined.append(pickle_->text(part));
    }
    add_text(joined.empty() ? "." : joined);
    return true;
  }

  bool visit_device(const std::vector<PickleNode>& arguments) {
    if (arguments.empty() || pickle_->kind(arguments[0]) != PickleKind::text ||
        (arguments.size() == 2 && pickle_->kind(arguments[1]) != PickleKind::integer)) {
      return false;
    }
    std::string device(pickle_->text(arguments[0]));
    if (arguments.size() == 2) {
      device += fmt::format(":{}", static_cast<std::int64_t>(pickle_->integer(arguments[1])));
    }
    add_text(device);
    return true;
  }

  /// A scalar of numpy is a number, of a type that a tree has.
  bool visit_scalar(const std::vector<PickleNode>& arguments) {
    const std::optional<NumpyDType> type =
        arguments.empty() ? std::nullopt : arrays_.numpy_dtype(arguments[0]);
    std::optional<PickledArrays::Content> content = type ? arrays_.content(arguments[1]) : std::nullopt;
    if (!type || !type->dtype || !content || content->bytes.size() != bits(*type->dtype) / 8) {
      return false;
    }
    std::string& bytes = content->bytes;
    if (type->is_big_endian) {
      std::reverse(bytes.begin(), bytes.end());
    }
    const auto as = [&]<class T>(T value) {
      std::memcpy(&value, bytes.data(), sizeof value);
      return value;
    };
    switch (*type->dtype) {
      case DType::boolean:
        add_value(bytes[0] != 0);
        return true;
      case DType::float32:
        add_value(static_cast<double>(as(float{})));
        return true;
      case DType::float64:
        add_value(as(double{}));
        return true;
      default:
        break;
    }
    if (!is_integer(*type->dtype)) {
      return false;
    }
    const bool is_signed = type->name.find('i') != std::string::npos;
    bytes.resize(sizeof(std::uint64_t),
                 is_signed && (static_cast<unsigned char>(bytes.back()) & 0x80u) != 0 ? '\xff' : '\0');
    const std::uint64_t number = as(std::uint64_t{});
    if (!is_signed && number > static_cast<std::uint64_t>(INT64_MAX)) {
      add_value(number);
    } else {
      add_value(static_cast<std::int64_t>(number));
    }
    return true;
  }

  const Pickle* pickle_;
  ForeignCatalogue catalogue_;
  DescriptionBudget budget_;
  PickledArrays arrays_;
  std::vector<Frame> frames_;
  std::string path_;
};

}  // namespace

std::optional<std::uint64_t> count_of(const Pickle& pickle, PickleNode node) {
  if (pickle.kind(node) != PickleKind::integer ||
      pickle.integer(node) > static_cast<std::uint64_t>(INT64_MAX)) {
    return std::nullopt;
  }
  return pickle.integer(node);
}

std::optional<Shape> shape_of(const Pickle& pickle, PickleNode node) {
  if (pickle.kind(node) == PickleKind::object && pickle.class_name(node) == "torch.Size") {
    const PickleNode given = pickle.arguments(node);
    if (pickle.kind(given) != PickleKind::tuple || pickle.size(given) != 1) {
      return std::nullopt;
    }
    node = pickle.item(given, 0);
  }
  if (pickle.kind(node) != PickleKind::tuple || pickle.size(node) > kMaxRank) {
    return std::nullopt;
  }
  Shape shape(pickle.size(node), 0);
  PickleNode number{};
  Pickle::Items items = pickle.items(node);
  for (std::size_t axis = 0; items.next(number); ++axis) {
    const std::optional<std::uint64_t> count = count_of(pickle, number);
    if (!count) {
      return std::nullopt;
    }
    shape[axis] = *count;
  }
  return shape;
}

ForeignCatalogue describe_torch_nodes(const Pickle& pickle, const TorchArchive& archive,
                                      std::string_view path) {
  return NodeWalk(pickle, archive, path).run();
}

}  // namespace cairn::formats
