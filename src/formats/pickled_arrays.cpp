// SPDX-License-Identifier: Apache-2.0
#include "formats/pickled_arrays.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "base/internal/checked.hpp"
#include "base/internal/utf8.hpp"
#include "formats/torch_nodes.hpp"

namespace cairn::formats {
namespace {

/// An element type by its names in torch: of the dtype, and of the storage where that has a class of its own.
struct TorchType {
  std::string_view dtype;
  std::string_view storage;
  DType type;
};
constexpr std::string_view kPacked = "float4_e2m1fn_x2";
constexpr TorchType kTorchTypes[] = {{"bool", "torch.BoolStorage", DType::boolean},
                                     {"uint8", "torch.ByteStorage", DType::uint8},
                                     {"uint16", "", DType::uint16},
                                     {"uint32", "", DType::uint32},
                                     {"uint64", "", DType::uint64},
                                     {"int8", "torch.CharStorage", DType::int8},
                                     {"int16", "torch.ShortStorage", DType::int16},
                                     {"int32", "torch.IntStorage", DType::int32},
                                     {"int64", "torch.LongStorage", DType::int64},
                                     {"float16", "torch.HalfStorage", DType::float16},
                                     {"bfloat16", "torch.BFloat16Storage", DType::bfloat16},
                                     {"float32", "torch.FloatStorage", DType::float32},
                                     {"float64", "torch.DoubleStorage", DType::float64},
                                     {"complex64", "torch.ComplexFloatStorage", DType::complex64},
                                     {"complex128", "torch.ComplexDoubleStorage", DType::complex128},
                                     {"float8_e4m3fn", "", DType::float8_e4m3},
                                     {"float8_e5m2", "", DType::float8_e5m2},
                                     {"float8_e4m3fnuz", "", DType::float8_e4m3fnuz},
                                     {"float8_e5m2fnuz", "", DType::float8_e5m2fnuz},
                                     {"float8_e8m0fnu", "", DType::float8_e8m0},
                                     {kPacked, "", DType::float4}};

constexpr std::pair<std::string_view, DType> kNumpyTypes[] = {
    {"b1", DType::boolean},   {"u1", DType::uint8},      {"u2", DType::uint16},  {"u4", DType::uint32},
    {"u8", DType::uint64},    {"i1", DType::int8},       {"i2", DType::int16},   {"i4", DType::int32},
    {"i8", DType::int64},     {"f2", DType::float16},    {"f4", DType::float32}, {"f8", DType::float64},
    {"c8", DType::complex64}, {"c16", DType::complex128}};

constexpr std::string_view kTensorClasses[] = {"torch.Tensor", "torch.nn.parameter.Parameter",
                                               "torch.nn.parameter.Buffer"};

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

}  // namespace

std::optional<DType> torch_dtype(std::string_view name) noexcept {
  const auto* const found = std::find_if(std::begin(kTorchTypes), std::end(kTorchTypes),
                                         [&](const TorchType& type) { return type.dtype == name; });
  return found == std::end(kTorchTypes) ? std::nullopt : std::optional(found->type);
}

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

PickledArrays::PickledArrays(const Pickle& pickle, const TorchArchive& archive, ForeignCatalogue& catalogue,
                             DescriptionBudget& budget, std::string_view path)
    : pickle_(&pickle), archive_(&archive), catalogue_(&catalogue), budget_(&budget), path_(path) {}

void PickledArrays::refuse(std::string_view tree_path, std::string_view why) const {
  throw Error(Errc::malformed_metadata, fmt::format("{}: '{}': {}", path_, tree_path, why));
}

PickledArrays::Arguments PickledArrays::arguments(PickleNode tuple, std::size_t least, std::size_t most,
                                                  const ForeignArray& array) const {
  const bool is_tuple = pickle_->kind(tuple) == PickleKind::tuple;
  if (!is_tuple || pickle_->size(tuple) < least || pickle_->size(tuple) > most) {
    refuse(array.path, "an array is made of other arguments than torch or numpy writes");
  }
  Arguments arguments;
  PickleNode node{};
  for (Pickle::Items items = pickle_->items(tuple); items.next(node);) {
    arguments.push_back(node);
  }
  return arguments;
}

std::optional<std::string> PickledArrays::describe(PickleNode object, ForeignArray& array) {
  std::string function = pickle_->class_name(object);
  PickleNode given = pickle_->arguments(object);
  for (int wrappers = 0; wrappers < kMostWrappers; ++wrappers) {
    if (function == "torch._utils._rebuild_parameter" ||
        function == "torch._utils._rebuild_parameter_with_state") {
      object = arguments(given, 1, kMostArguments, array).front();
      if (pickle_->kind(object) != PickleKind::object) {
        refuse(array.path, "a parameter is made of other than a tensor");
      }
      function = pickle_->class_name(object);
      given = pickle_->arguments(object);
    } else if (function == "torch._tensor._rebuild_from_type_v2" ||
               function == "torch._tensor._rebuild_from_type") {
      const Arguments parts = arguments(given, 3, kMostArguments, array);
      const std::string type = pickle_->class_name(parts[1]);
      if (std::find(std::begin(kTensorClasses), std::end(kTensorClasses), type) == std::end(kTensorClasses)) {
        return fmt::format("a tensor of the class '{}'", type);
      }
      function = pickle_->class_name(parts[0]);
      given = parts[2];
    } else {
      break;
    }
  }
  constexpr std::string_view kTensor = "torch._utils._rebuild_tensor";
  if (function == kTensor || function == "torch._utils._rebuild_tensor_v2") {
    return describe_tensor(arguments(given, 4, 7, array), false, array);
  }
  if (function == "torch._utils._rebuild_tensor_v3") {
    return describe_tensor(arguments(given, 7, 8, array), true, array);
  }
  if (function == "numpy._core.multiarray._reconstruct") {
    return describe_reconstructed(object, array);
  }
  if (function == "numpy._core.numeric._frombuffer") {
    const Arguments parts = arguments(given, 4, 4, array);
    const bool is_fortran = pickle_->kind(parts[3]) == PickleKind::text && pickle_->text(parts[3]) == "F";
    return describe_numpy(parts[1], parts[2], parts[0], is_fortran, array);
  }
  return std::nullopt;
}

std::string PickledArrays::describe_tensor(const Arguments& arguments, bool has_dtype, ForeignArray& array) {
  const std::size_t metadata = has_dtype ? 7 : 6;
  if (arguments.size() > metadata && pickle_->kind(arguments[metadata]) == PickleKind::map) {
    if (pickle_->size(arguments[metadata]) > 2 * kMostArguments) {
      refuse(array.path, "a tensor has more marks than torch writes");
    }
    for (const std::string_view bit : {"conj", "neg"}) {
      const std::optional<PickleNode> is_set = pickle_->find(arguments[metadata], bit);
      if (is_set && pickle_->kind(*is_set) == PickleKind::boolean && pickle_->boolean(*is_set)) {
        return fmt::format("a tensor that is to be {}", bit == "conj" ? "conjugated" : "negated");
      }
    }
  }
  if (pickle_->kind(arguments[0]) != PickleKind::persistent) {
    refuse(array.path, "a tensor has no storage");
  }
  // "storage", its class or "UntypedStorage", its key, its device, its size in elements, which are bytes when untyped.
  const Arguments storage = this->arguments(pickle_->identity(arguments[0]), 5, 6, array);
  const std::string type = pickle_->class_name(has_dtype ? arguments[6] : storage[1]);
  constexpr std::string_view kPrefix = "torch.";
  const auto* const known =
      std::find_if(std::begin(kTorchTypes), std::end(kTorchTypes), [&](const TorchType& each) {
        return has_dtype ? type.starts_with(kPrefix) && type.substr(kPrefix.size()) == each.dtype
                         : type == each.storage;
      });
  if (type.empty() || known == std::end(kTorchTypes)) {
    return fmt::format("a tensor of '{}'", type);
  }
  array.dtype = known->type;
  const auto offset = count_of(*pickle_, arguments[1]);
  const auto shape = shape_of(*pickle_, arguments[2]);
  const auto strides = shape_of(*pickle_, arguments[3]);
  if (!offset || !shape || !strides || shape->size() != strides->size()) {
    refuse(array.path,
           "the offset, shape or strides of a tensor are not numbers from 0 up, or differ in rank");
  }
  const ZipMember& member = find_storage(storage[2], array);
  const bool is_untyped = pickle_->class_name(storage[1]) == "torch.storage.UntypedStorage";
  const auto count = count_of(*pickle_, storage[4]);
  const auto bytes = checked_multiply(count.value_or(0), is_untyped ? 1 : element_bytes(array.dtype));
  if (!count || !bytes || *bytes != member.size) {
    refuse(array.path, fmt::format("its storage '{}' has {} bytes, but its tensor says otherwise",
                                   member.name, member.size));
  }
  array.shape = *shape;
  if (known->dtype == kPacked) {
    if (shape->empty() || !is_row_major(*shape, *strides)) {
      return fmt::format("a tensor of '{}' whose elements do not follow one another", type);
    }
    std::uint64_t& last = array.shape[shape->size() - 1];
    last = checked_multiply<std::uint64_t>(last, 2).value_or(~std::uint64_t{0});
  }
  if (!byte_count(array.dtype, array.shape)) {
    refuse(array.path, fmt::format("{} of shape {} is not a whole number of bytes below 2^63",
                                   name(array.dtype), array.shape));
  }
  add_view(member, *offset, *shape, *strides, array);
  return {};
}

const ZipMember& PickledArrays::find_storage(PickleNode key, const ForeignArray& array) const {
  if (pickle_->kind(key) != PickleKind::text) {
    refuse(array.path, "the key of a storage is not a text");
  }
  const std::string name = "data/" + std::string(pickle_->text(key));
  const ZipMember* const member = archive_->find(name);
  if (member == nullptr) {
    refuse(array.path, fmt::format("its storage '{}' is missing in the archive", name));
  }
  return *member;
}

/// Adds the slice of an array that is a view of a storage: of `shape`, which has half as many elements where two share
/// a byte; `offset` and `strides` count elements.
void PickledArrays::add_view(const ZipMember& storage, std::uint64_t offset, const Shape& shape,
                             const Shape& strides, ForeignArray& array) {
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
  SliceForm form;
  form.is_big_endian = archive_->is_big_endian && item > 1;
  if (!is_row_major(shape, strides)) {
    form.strides.emplace(strides.size(), 0);
    for (std::size_t axis = 0; axis < strides.size();
         ++axis) {  // Of an axis of one index any number would do.
      const std::uint64_t stride = shape[axis] == 1 ? 0 : strides[axis] * item;
      (*form.strides)[axis] = static_cast<std::int64_t>(stride);
    }
  }
  ForeignSlice slice;
  slice.box = Box::whole(array.shape);
  slice.range = {0, storage.begin + offset * item, storage.begin + (*last + 1) * item};
  slice.form = catalogue_->add_form(form);
  slice.elements = element_count(array.shape).value_or(0);
  if (archive_->directory.has_crc32 && slice.range.end - slice.range.begin == storage.size) {
    slice.crc32 = storage.crc32;
  }
  array.slices.push_back(std::move(slice));
}

std::string PickledArrays::describe_reconstructed(PickleNode object, ForeignArray& array) {
  const Arguments made = arguments(pickle_->arguments(object), 3, 3, array);
  if (const std::string type = pickle_->class_name(made[0]); type != "numpy.ndarray") {
    return fmt::format("an array of the class '{}'", type);
  }
  // A version, where there is one; shape, dtype, whether columns come first, and the data.
  Arguments state = arguments(pickle_->state(object), 4, 5, array);
  state.erase(state.begin(), state.end() - 4);
  const bool is_fortran = pickle_->kind(state[2]) == PickleKind::boolean && pickle_->boolean(state[2]);
  return describe_numpy(state[1], state[0], state[3], is_fortran, array);
}

std::string PickledArrays::describe_numpy(PickleNode dtype, PickleNode shape, PickleNode data,
                                          bool is_fortran, ForeignArray& array) {
  const std::optional<NumpyDType> type = numpy_dtype(dtype);
  if (!type || !type->dtype) {
    return type ? fmt::format("an array of numpy of '{}'", type->name)
                : "an array of numpy of a structured dtype";
  }
  const std::optional<Shape> extents = shape_of(*pickle_, shape);
  const std::optional<Content> bytes = content(data);
  if (!extents || !bytes || byte_count(*type->dtype, *extents) != bytes->bytes.size()) {
    refuse(array.path, "an array of numpy has other than the bytes that its shape asks for");
  }
  array.dtype = *type->dtype;
  array.shape = *extents;
  if (bytes->bytes.empty()) {
    return {};
  }
  SliceForm form;
  form.is_big_endian = type->is_big_endian && element_bytes(array.dtype) > 1;
  if (bytes->is_latin1) {
    form.codecs.emplace_back(kLatin1Codec);
  }
  if (is_fortran && extents->size() > 1) {
    form.strides.emplace(extents->size(), 0);
    std::uint64_t stride = element_bytes(array.dtype);
    for (std::size_t axis = 0; axis < extents->size(); ++axis) {
      (*form.strides)[axis] = static_cast<std::int64_t>(stride);
      stride *= array.shape[axis];
    }
  }
  ForeignSlice slice;
  slice.box = Box::whole(array.shape);
  const std::uint64_t begin = archive_->find("data.pkl")->begin + bytes->begin;
  slice.range = {0, begin, begin + bytes->stored};
  slice.form = catalogue_->add_form(form);
  slice.elements = element_count(array.shape).value_or(0);
  array.slices.push_back(std::move(slice));
  return {};
}

std::optional<PickledArrays::Content> PickledArrays::content(PickleNode node) {
  Content content;
  if (pickle_->kind(node) == PickleKind::object && pickle_->class_name(node) == "builtins.bytearray") {
    const PickleNode given = pickle_->arguments(node);
    if (pickle_->kind(given) == PickleKind::tuple && pickle_->size(given) == 0) {
      return content;
    }
    if (pickle_->kind(given) != PickleKind::tuple || pickle_->size(given) > 2) {
      return std::nullopt;
    }
    node = pickle_->item(given, 0);
  }
  if (pickle_->kind(node) == PickleKind::object) {
    const std::string name = pickle_->class_name(node);
    const PickleNode given = pickle_->arguments(node);
    const std::size_t count = pickle_->kind(given) == PickleKind::tuple ? pickle_->size(given) : 3;
    if (name == "builtins.bytes" && count == 0) {
      return content;
    }
    if (name != "_codecs.encode" || count != 2 ||
        pickle_->kind(pickle_->item(given, 1)) != PickleKind::text ||
        pickle_->text(pickle_->item(given, 1)) != "latin1") {
      return std::nullopt;
    }
    node = pickle_->item(given, 0);
    content.is_latin1 = true;
  }
  if (pickle_->kind(node) != (content.is_latin1 ? PickleKind::text : PickleKind::bytes)) {
    return std::nullopt;
  }
  const std::string_view stored = pickle_->text(node);
  budget_->take(stored.size());
  std::optional<std::string> bytes = content.is_latin1 ? decode_latin1(stored) : std::string(stored);
  if (!bytes) {
    return std::nullopt;
  }
  content.begin = pickle_->offset(node);
  content.stored = stored.size();
  content.bytes = std::move(*bytes);
  return content;
}

std::optional<NumpyDType> PickledArrays::numpy_dtype(PickleNode node) const {
  if (pickle_->kind(node) != PickleKind::object || pickle_->class_name(node) != "numpy.dtype") {
    return std::nullopt;
  }
  const PickleNode made = pickle_->arguments(node);
  const PickleNode state =
      pickle_->state(node);  // A version, the byte order, and of structured ones the fields.
  if (pickle_->kind(made) != PickleKind::tuple || pickle_->size(made) == 0 ||
      pickle_->kind(pickle_->item(made, 0)) != PickleKind::text ||
      pickle_->kind(state) != PickleKind::tuple || pickle_->size(state) < 5 ||
      pickle_->kind(pickle_->item(state, 1)) != PickleKind::text) {
    return std::nullopt;
  }
  NumpyDType type;
  const std::string_view code = pickle_->text(pickle_->item(made, 0));
  const std::string_view order = pickle_->text(pickle_->item(state, 1));
  type.name = std::string(order).append(code);
  type.is_big_endian = order == ">";
  const bool is_plain = pickle_->item(state, 2) == kNoneNode && pickle_->item(state, 3) == kNoneNode;
  for (const auto& [name, dtype] : kNumpyTypes) {
    if (name == code && is_plain) {
      type.dtype = dtype;
    }
  }
  return type;
}

}  // namespace cairn::formats
