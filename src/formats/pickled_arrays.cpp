// SPDX-License-Identifier: Apache-2.0
#include "formats/pickled_arrays.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "base/internal/checked.hpp"
#include "base/internal/utf8.hpp"

namespace cairn::formats {
namespace {

constexpr std::string_view kTorchModule = "torch.";
constexpr TorchType kTorchTypes[] = {{"bool", DType::boolean, "BoolStorage"},
                                     {"uint8", DType::uint8, "ByteStorage"},
                                     {"int8", DType::int8, "CharStorage"},
                                     {"int16", DType::int16, "ShortStorage"},
                                     {"int32", DType::int32, "IntStorage"},
                                     {"int64", DType::int64, "LongStorage"},
                                     {"float16", DType::float16, "HalfStorage"},
                                     {"bfloat16", DType::bfloat16, "BFloat16Storage"},
                                     {"float32", DType::float32, "FloatStorage"},
                                     {"float64", DType::float64, "DoubleStorage"},
                                     {"complex64", DType::complex64, "ComplexFloatStorage"},
                                     {"complex128", DType::complex128, "ComplexDoubleStorage"},
                                     {"uint16", DType::uint16, {}},
                                     {"uint32", DType::uint32, {}},
                                     {"uint64", DType::uint64, {}},
                                     {"float8_e4m3fn", DType::float8_e4m3, {}},
                                     {"float8_e5m2", DType::float8_e5m2, {}},
                                     {"float8_e4m3fnuz", DType::float8_e4m3fnuz, {}},
                                     {"float8_e5m2fnuz", DType::float8_e5m2fnuz, {}},
                                     {"float8_e8m0fnu", DType::float8_e8m0, {}},
                                     {"float4_e2m1fn_x2", DType::float4, {}}};

constexpr std::pair<std::string_view, DType> kNumpyTypes[] = {
    {"b1", DType::boolean},   {"u1", DType::uint8},      {"u2", DType::uint16},  {"u4", DType::uint32},
    {"u8", DType::uint64},    {"i1", DType::int8},       {"i2", DType::int16},   {"i4", DType::int32},
    {"i8", DType::int64},     {"f2", DType::float16},    {"f4", DType::float32}, {"f8", DType::float64},
    {"c8", DType::complex64}, {"c16", DType::complex128}};

constexpr std::array kTensorClasses = {std::string_view("torch.Tensor"),
                                       std::string_view("torch.nn.parameter.Parameter"),
                                       std::string_view("torch.nn.parameter.Buffer")};

constexpr std::string_view kOtherArguments =
    "an array that is made of other arguments than torch or numpy writes";
constexpr std::size_t kMostArguments = 16;
constexpr int kMostWrappers = 8;

/// So many bytes are what torch calls an element: of packed ones two elements share one.
std::uint64_t element_bytes(DType dtype) {
  return std::max(bits(dtype) / 8, 1u);
}

/// Returns whether elements at these distances follow one another row-major; axes of one index do not matter.
bool is_row_major(const Shape& shape, const Shape& strides) {
  std::uint64_t expected = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] != 1 && strides[axis] != expected) {
      return false;
    }
    expected *= shape[axis];
  }
  return true;
}

/// Returns whether the highest bit of an element, or of both parts of a complex one, is its sign.
bool has_sign_bit(DType dtype) {
  return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32 ||
         dtype == DType::float64 || is_complex(dtype);
}

/// Returns whether these are the numbers of all axes, each once.
bool is_order_of_axes(const Shape& axes, std::size_t rank) {
  Shape sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t axis = 0; axis < sorted.size(); ++axis) {
    if (sorted[axis] != axis) {
      return false;
    }
  }
  return sorted.size() == rank;
}

/// The bytes that a text in UTF-8 stands for, one for each code point; nothing where one is above 255.
std::optional<std::string> decode_latin1(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const std::optional<char32_t> code = take_code_point(text);
    if (!code || *code > 0xff) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(*code));
  }
  return bytes;
}

}  // namespace

std::optional<DType> torch_dtype(std::string_view name) noexcept {
  name.remove_prefix(name.starts_with(kTorchModule) ? kTorchModule.size() : 0);
  for (const TorchType& type : kTorchTypes) {
    if (type.dtype == name) {
      return type.type;
    }
  }
  return std::nullopt;
}

const TorchType* find_torch_type(DType dtype) noexcept {
  const auto* const found = std::find_if(std::begin(kTorchTypes), std::end(kTorchTypes),
                                         [dtype](const TorchType& each) { return each.type == dtype; });
  return found == std::end(kTorchTypes) ? nullptr : found;
}

std::optional<std::uint64_t> count_of(const Pickle& pickle, PickleNode node) {
  if (pickle.kind(node) != PickleKind::integer || static_cast<std::int64_t>(pickle.integer(node)) < 0) {
    return std::nullopt;
  }
  return pickle.integer(node);
}

std::optional<Shape> shape_of(const Pickle& pickle, PickleNode node) {
  if (const std::optional<Pickle::Nodes> given = pickle.call(node, "torch.Size");
      given && given->size() == 1) {
    node = given->front();
  }
  const Pickle::Nodes numbers = pickle.tuple(node);
  if (pickle.kind(node) != PickleKind::tuple || numbers.size() > kMaxRank) {
    return std::nullopt;
  }
  Shape shape(numbers.size(), 0);
  for (std::size_t axis = 0; axis < numbers.size(); ++axis) {
    const std::optional<std::uint64_t> count = count_of(pickle, numbers[axis]);
    if (!count) {
      return std::nullopt;
    }
    shape[axis] = *count;
  }
  return shape;
}

Scalar scalar_of(const Pickle& pickle, PickleNode node) {
  switch (pickle.kind(node)) {
    case PickleKind::boolean:
      return pickle.boolean(node);
    case PickleKind::integer:
      return static_cast<std::int64_t>(pickle.integer(node));
    case PickleKind::unsigned_integer:
      return pickle.integer(node);
    case PickleKind::real:
      return pickle.real(node);
    default:
      return std::monostate();
  }
}

bool has_scalars_only(const Pickle& pickle, PickleNode container) {
  PickleNode node{};
  for (Pickle::Items items = pickle.items(container); items.next(node);) {
    const bool is_null = std::holds_alternative<std::monostate>(scalar_of(pickle, node));
    if (is_null && pickle.kind(node) != PickleKind::none) {
      return false;
    }
  }
  return true;
}

void PickledArrays::refuse(std::string_view tree_path, std::string_view why) const {
  throw Error(Errc::malformed_metadata, fmt::format("{}: '{}': {}", path_, tree_path, why));
}

PickledArrays::Nodes PickledArrays::arguments(PickleNode tuple, std::size_t least, std::size_t most) const {
  const Nodes found = pickle_->tuple(tuple);
  return found.size() < least || found.size() > most ? Nodes() : found;
}

std::optional<std::string> PickledArrays::describe(PickleNode object, ForeignArray& array) {
  std::string function = pickle_->class_name(object);
  PickleNode given = pickle_->arguments(object);
  for (int wrappers = 0; wrappers < kMostWrappers; ++wrappers) {
    if (function == "torch._utils._rebuild_parameter" ||
        function == "torch._utils._rebuild_parameter_with_state") {
      const Nodes parts = arguments(given, 1, kMostArguments);
      if (parts.empty() || pickle_->kind(parts[0]) != PickleKind::object) {
        return "a parameter that is made of other than a tensor";
      }
      object = parts[0];
      function = pickle_->class_name(object);
      given = pickle_->arguments(object);
    } else if (function == "torch._tensor._rebuild_from_type_v2" ||
               function == "torch._tensor._rebuild_from_type") {
      const Nodes parts = arguments(given, 3, kMostArguments);
      if (parts.empty()) {
        return std::string(kOtherArguments);
      }
      const std::string type = pickle_->class_name(parts[1]);
      if (std::find(kTensorClasses.begin(), kTensorClasses.end(), type) == kTensorClasses.end()) {
        return fmt::format("a tensor of the class '{}'", type);
      }
      function = pickle_->class_name(parts[0]);
      given = parts[2];
    } else {
      break;
    }
  }
  if (function == "torch._utils._rebuild_tensor" || function == "torch._utils._rebuild_tensor_v2") {
    return describe_tensor(arguments(given, 4, 7), false, array);
  }
  if (function == "torch._utils._rebuild_tensor_v3") {
    return describe_tensor(arguments(given, 7, 8), true, array);
  }
  return describe_numpy(object, function, array);
}

std::optional<std::string> PickledArrays::describe_numpy(PickleNode object, std::string_view function,
                                                         ForeignArray& array) {
  const PickleNode given = pickle_->arguments(object);
  if (function == "numpy._core.multiarray._reconstruct") {
    const Nodes parts = arguments(given, 3, 3);
    const Nodes state = arguments(pickle_->state(object), 4, 5);
    if (parts.empty() || state.empty()) {
      return std::string(kOtherArguments);
    }
    const std::string type = pickle_->class_name(parts[0]);
    if (type != "numpy.ndarray") {
      return fmt::format("an array of the class '{}'", type);
    }
    // A version, where there is one; shape, dtype, whether columns come first, and the data.
    const Nodes of = state.last<4>();
    const bool is_fortran = pickle_->kind(of[2]) == PickleKind::boolean && pickle_->boolean(of[2]);
    return describe_elements(of[1], order_of(of[0], is_fortran), of[3], array);
  }
  if (function == "numpy._core.numeric._frombuffer") {
    // With "K" the shape is that of memory, whose axes the last argument puts in the order of those of the array.
    const Nodes parts = arguments(given, 4, 5);
    const std::string_view order = parts.empty() || pickle_->kind(parts[3]) != PickleKind::text
                                       ? std::string_view()
                                       : pickle_->text(parts[3]);
    const bool is_by_axes = order == "K" && parts.size() == 5;
    if (order != "C" && order != "F" && !is_by_axes) {
      return std::string(kOtherArguments);
    }
    std::optional<NumpyOrder> lies = order_of(parts[2], order == "F");
    const std::optional<Shape> axes = is_by_axes ? shape_of(*pickle_, parts[4]) : std::nullopt;
    if (is_by_axes && lies) {
      lies->axes = axes.value_or(Shape());
    }
    return describe_elements(parts[1], is_by_axes && !axes ? std::nullopt : lies, parts[0], array);
  }
  if (function == "numpy._core.multiarray.scalar") {
    const Nodes parts = arguments(given, 2, 2);
    const std::optional<NumpyDType> type = parts.empty() ? std::nullopt : numpy_dtype(parts[0]);
    if (type && type->dtype && is_complex(*type->dtype)) {  // Others are numbers of a tree.
      return describe_elements(parts[0], NumpyOrder(), parts[1], array);
    }
  }
  return std::nullopt;
}

std::optional<PickledArrays::NumpyOrder> PickledArrays::order_of(PickleNode shape, bool is_fortran) const {
  std::optional<Shape> extents = shape_of(*pickle_, shape);
  if (!extents) {
    return std::nullopt;
  }
  NumpyOrder order{std::move(*extents), {}};
  order.axes = Shape(order.extents.size(), 0);
  std::iota(order.axes.begin(), order.axes.end(), std::uint64_t{0});
  if (is_fortran) {
    std::reverse(order.extents.begin(), order.extents.end());
    std::reverse(order.axes.begin(), order.axes.end());
  }
  return order;
}

std::optional<std::vector<std::string>> PickledArrays::flips_of(Nodes arguments, std::size_t marks) const {
  std::vector<std::string> flips;
  if (arguments.size() <= marks || pickle_->kind(arguments[marks]) != PickleKind::map) {
    return flips;
  }
  if (pickle_->size(arguments[marks]) > 2 * kMostArguments) {
    return std::nullopt;
  }
  for (const auto& [mark, codec] : {std::pair("conj", kConjugateCodec), std::pair("neg", kNegateCodec)}) {
    const PickleNode is_set = pickle_->find(arguments[marks], mark).value_or(kNoneNode);
    if (pickle_->kind(is_set) == PickleKind::boolean && pickle_->boolean(is_set)) {
      flips.emplace_back(codec);
    }
  }
  return flips;
}

std::string PickledArrays::describe_tensor(Nodes arguments, bool has_dtype, ForeignArray& array) {
  const auto flips = flips_of(arguments, has_dtype ? 7 : 6);
  if (arguments.empty() || !flips) {
    return std::string(kOtherArguments);
  }
  if (pickle_->kind(arguments[0]) != PickleKind::persistent) {
    return "a tensor without a storage";
  }
  // "storage", its class or "UntypedStorage", its key, its device, its size in elements, which are bytes when untyped.
  const Nodes storage = this->arguments(pickle_->identity(arguments[0]), 5, 6);
  if (storage.empty() || pickle_->kind(storage[2]) != PickleKind::text) {
    return std::string(kOtherArguments);
  }
  const std::string type = pickle_->class_name(has_dtype ? arguments[6] : storage[1]);
  const std::string_view name =
      std::string_view(type).substr(type.starts_with(kTorchModule) ? kTorchModule.size() : 0);
  const auto* const known =
      std::find_if(std::begin(kTorchTypes), std::end(kTorchTypes), [&](const TorchType& each) {
        return !name.empty() && name == (has_dtype ? each.dtype : each.storage);
      });
  if (known == std::end(kTorchTypes)) {
    return fmt::format("a tensor of '{}'", type);
  }
  if (!flips->empty() && !has_sign_bit(known->type)) {
    return fmt::format("a tensor of '{}' that is to be conjugated or negated", type);
  }
  const auto offset = count_of(*pickle_, arguments[1]);
  const auto shape = shape_of(*pickle_, arguments[2]);
  const auto strides = shape_of(*pickle_, arguments[3]);
  if (!offset || !shape || !strides || shape->size() != strides->size()) {
    return "a tensor whose offset, shape or strides are not numbers from 0 up, or differ in rank";
  }
  const ZipMember& member = storage_of(storage, known->type, array);
  array.dtype = known->type;
  array.shape = *shape;
  if (is_packed(array.dtype)) {
    if (shape->empty() || !is_row_major(*shape, *strides)) {
      return fmt::format("a tensor of '{}' whose elements do not follow one another", type);
    }
    std::uint64_t& last = array.shape[shape->size() - 1];
    last = checked_multiply<std::uint64_t>(last, 2).value_or(~std::uint64_t{0});
  }
  if (!byte_count(array.dtype, array.shape)) {
    return fmt::format("{} of shape {}, which is not a whole number of bytes below 2^63",
                       cairn::name(array.dtype), array.shape);
  }
  SliceForm form;
  form.codecs = *flips;
  add_view(member, *offset, *shape, *strides, std::move(form), array);
  return {};
}

const ZipMember& PickledArrays::storage_of(Nodes storage, DType dtype, const ForeignArray& array) const {
  const std::string name = "data/" + std::string(pickle_->text(storage[2]));
  const ZipMember* const member = archive_->find(name);
  if (member == nullptr) {
    refuse(array.path, fmt::format("its storage '{}' is missing in the archive", name));
  }
  const bool is_untyped = pickle_->class_name(storage[1]) == "torch.storage.UntypedStorage";
  const auto count = count_of(*pickle_, storage[4]);
  const auto bytes = checked_multiply(count.value_or(0), is_untyped ? 1 : element_bytes(dtype));
  if (!count || bytes != member->size) {
    refuse(array.path, fmt::format("its storage '{}' has {} bytes, but its tensor says otherwise",
                                   member->name, member->size));
  }
  return *member;
}

/// Adds the slice of an array that is a view of a storage: of `shape`, which has half as many elements where two share
/// a byte; `offset` and `strides` count elements.
void PickledArrays::add_view(const ZipMember& storage, std::uint64_t offset, const Shape& shape,
                             const Shape& strides, SliceForm form, ForeignArray& array) {
  if (std::find(shape.begin(), shape.end(), 0u) != shape.end()) {
    return;  // Strides of an empty tensor may be any.
  }
  const std::uint64_t item = element_bytes(array.dtype);
  std::optional<std::uint64_t> last = offset;
  for (std::size_t axis = 0; axis < strides.size() && last; ++axis) {
    const auto way = checked_multiply(shape[axis] - 1, strides[axis]);
    last = way ? checked_add(*last, *way) : std::nullopt;
  }
  if (!last || *last >= storage.size / item) {
    refuse(array.path, fmt::format("its elements reach beyond the {} bytes of its storage '{}'", storage.size,
                                   storage.name));
  }
  form.is_big_endian = archive_->is_big_endian && item > 1;
  if (!is_row_major(shape, strides)) {
    form.strides.emplace(strides.size(), 0);
    for (std::size_t axis = 0; axis < strides.size();
         ++axis) {  // Of an axis of one index any number would do.
      (*form.strides)[axis] = shape[axis] == 1 ? 0 : static_cast<std::int64_t>(strides[axis] * item);
    }
  }
  const FileRange range{0, storage.begin + offset * item, storage.begin + (*last + 1) * item};
  const bool has_sum = storage.has_sum() && range.end - range.begin == storage.size;
  add_slice(range, form, has_sum ? std::optional(storage.crc32) : std::nullopt, array);
}

void PickledArrays::add_slice(FileRange range, const SliceForm& form, std::optional<std::uint32_t> crc32,
                              ForeignArray& array) {
  ForeignSlice slice;
  slice.box = Box::whole(array.shape);
  slice.range = range;
  slice.form = catalogue_->add_form(form);
  slice.elements = element_count(array.shape).value_or(0);
  slice.crc32 = crc32;
  array.slices.push_back(std::move(slice));
}

std::string PickledArrays::describe_elements(PickleNode dtype, const std::optional<NumpyOrder>& order,
                                             PickleNode data, ForeignArray& array) {
  const std::optional<NumpyDType> type = numpy_dtype(dtype);
  if (!type || !type->dtype) {
    return type ? fmt::format("an array of numpy of '{}'", type->name)
                : "an array of numpy of a structured dtype";
  }
  const std::optional<Content> found = content(data);
  if (!order || !is_order_of_axes(order->axes, order->extents.size()) || !found ||
      byte_count(*type->dtype, order->extents) != found->bytes.size()) {
    return "an array of numpy of other bytes than its shape asks for";
  }
  const std::size_t rank = order->extents.size();
  array.dtype = *type->dtype;
  array.shape = Shape(rank, 0);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    array.shape[axis] = order->extents[order->axes[axis]];
  }
  if (found->bytes.empty()) {
    return {};
  }
  SliceForm form;
  form.is_big_endian = type->is_big_endian && element_bytes(array.dtype) > 1;
  if (found->is_latin1) {
    form.codecs.emplace_back(kLatin1Codec);
  }
  if (!std::is_sorted(order->axes.begin(), order->axes.end())) {
    Strides lying(rank, 0);  // Of the axes of memory.
    std::uint64_t stride = element_bytes(array.dtype);
    for (std::size_t axis = rank; axis-- > 0;) {
      lying[axis] = static_cast<std::int64_t>(stride);
      stride *= order->extents[axis];
    }
    form.strides.emplace(rank, 0);
    for (std::size_t axis = 0; axis < rank; ++axis) {
      (*form.strides)[axis] = lying[order->axes[axis]];
    }
  }
  const auto* const pickle = reinterpret_cast<const char*>(archive_->pickle.data());
  const std::uint64_t begin =
      archive_->find("data.pkl")->begin + static_cast<std::uint64_t>(found->stored.data() - pickle);
  add_slice({0, begin, begin + found->stored.size()}, form, std::nullopt, array);
  return {};
}

std::optional<PickledArrays::Content> PickledArrays::content(PickleNode node) {
  Content content;
  if (const std::optional<Nodes> given = pickle_->call(node, "builtins.bytearray");
      given && given->size() < 2) {
    if (given->empty()) {
      return content;
    }
    node = given->front();
  }
  if (const std::optional<Nodes> given = pickle_->call(node, "builtins.bytes"); given && given->empty()) {
    return content;
  }
  // Protocol 2 has no bytes: the text that they would be in Latin-1 stands for them.
  if (const std::optional<Nodes> given = pickle_->call(node, "_codecs.encode"); given) {
    if (given->size() != 2 || pickle_->kind((*given)[1]) != PickleKind::text ||
        pickle_->text((*given)[1]) != "latin1") {
      return std::nullopt;
    }
    node = given->front();
    content.is_latin1 = true;
  }
  if (pickle_->kind(node) != (content.is_latin1 ? PickleKind::text : PickleKind::bytes)) {
    return std::nullopt;
  }
  content.stored = pickle_->text(node);
  budget_->take(content.stored.size());
  std::optional<std::string> bytes =
      content.is_latin1 ? decode_latin1(content.stored) : std::string(content.stored);
  if (!bytes) {
    return std::nullopt;
  }
  content.bytes = std::move(*bytes);
  return content;
}

std::optional<NumpyDType> PickledArrays::numpy_dtype(PickleNode node) const {
  const Nodes made = pickle_->call(node, "numpy.dtype").value_or(Nodes());
  const auto is_text = [&](PickleNode each) { return pickle_->kind(each) == PickleKind::text; };
  if (made.empty() || !is_text(made[0])) {
    return std::nullopt;
  }
  // A version, the byte order, and of structured ones the fields.
  const Nodes state = pickle_->tuple(pickle_->state(node));
  if (state.size() < 5 || !is_text(state[1])) {
    return std::nullopt;
  }
  NumpyDType type;
  constexpr std::size_t kMostCodeBytes = 16;
  const std::string_view code = pickle_->text(made[0]).substr(0, kMostCodeBytes);
  type.name = std::string(pickle_->text(state[1]).substr(0, 1)).append(code);
  type.is_big_endian = type.name.starts_with('>');
  const bool is_plain = state[2] == kNoneNode && state[3] == kNoneNode;
  for (const auto& [name, dtype] : kNumpyTypes) {
    if (name == code && is_plain) {
      type.dtype = dtype;
    }
  }
  return type;
}

}  // namespace cairn::formats
