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

namespace cairn::formats {
namespace {

/// An element type by its names in torch: of the dtype, and of the storage where that has a class of its own.
struct TorchType {
  std::string_view dtype;
  DType type;
  std::string_view storage;
};
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

void PickledArrays::refuse(std::string_view tree_path, std::string_view why) const {
  throw Error(Errc::malformed_metadata, fmt::format("{}: '{}': {}", path_, tree_path, why));
}

PickledArrays::Nodes PickledArrays::arguments(PickleNode tuple, std::size_t least, std::size_t most,
                                              const ForeignArray& array) const {
  const Nodes found = pickle_->tuple(tuple);
  if (found.size() < least || found.size() > most) {
    refuse(array.path, "an array is made of other arguments than torch or numpy writes");
  }
  return found;
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
      const Nodes parts = arguments(given, 3, kMostArguments, array);
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
    return describe_tensor(arguments(given, 4, 7, array), false, array);
  }
  if (function == "torch._utils._rebuild_tensor_v3") {
    return describe_tensor(arguments(given, 7, 8, array), true, array);
  }
  if (function == "numpy._core.multiarray._reconstruct") {
    const std::string type = pickle_->class_name(arguments(given, 3, 3, array)[0]);
    if (type != "numpy.ndarray") {
      return fmt::format("an array of the class '{}'", type);
    }
    // A version, where there is one; shape, dtype, whether columns come first, and the data.
    const Nodes state = arguments(pickle_->state(object), 4, 5, array).last<4>();
    const bool is_fortran = pickle_->kind(state[2]) == PickleKind::boolean && pickle_->boolean(state[2]);
    return describe_numpy(state[1], state[0], state[3], is_fortran, array);
  }
  if (function == "numpy._core.numeric._frombuffer") {
    const Nodes parts = arguments(given, 4, 4, array);
    const bool is_fortran = pickle_->kind(parts[3]) == PickleKind::text && pickle_->text(parts[3]) == "F";
    return describe_numpy(parts[1], parts[2], parts[0], is_fortran, array);
  }
  return std::nullopt;
}

std::string PickledArrays::describe_tensor(Nodes arguments, bool has_dtype, ForeignArray& array) {
  const std::size_t marks = has_dtype ? 7 : 6;
  if (arguments.size() > marks && pickle_->kind(arguments[marks]) == PickleKind::map) {
    if (pickle_->size(arguments[marks]) > 2 * kMostArguments) {
      refuse(array.path, "a tensor has more marks than torch writes");
    }
    for (const std::string_view bit : {"conj", "neg"}) {
      const PickleNode is_set = pickle_->find(arguments[marks], bit).value_or(kNoneNode);
      if (pickle_->kind(is_set) == PickleKind::boolean && pickle_->boolean(is_set)) {
        return fmt::format("a tensor that is to be {}", bit == "conj" ? "conjugated" : "negated");
      }
    }
  }
  if (pickle_->kind(arguments[0]) != PickleKind::persistent) {
    refuse(array.path, "a tensor has no storage");
  }
  // "storage", its class or "UntypedStorage", its key, its device, its size in elements, which are bytes when untyped.
  const Nodes storage = this->arguments(pickle_->identity(arguments[0]), 5, 6, array);
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
  const auto offset = count_of(*pickle_, arguments[1]);
  const auto shape = shape_of(*pickle_, arguments[2]);
  const auto strides = shape_of(*pickle_, arguments[3]);
  if (!offset || !shape || !strides || shape->size() != strides->size()) {
    refuse(array.path,
           "the offset, shape or strides of a tensor are not numbers from 0 up, or differ in rank");
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
    refuse(array.path, fmt::format("{} of shape {} is not a whole number of bytes below 2^63",
                                   cairn::name(array.dtype), array.shape));
  }
  add_view(member, *offset, *shape, *strides, array);
  return {};
}

const ZipMember& PickledArrays::storage_of(Nodes storage, DType dtype, const ForeignArray& array) const {
  if (pickle_->kind(storage[2]) != PickleKind::text) {
    refuse(array.path, "the key of a storage is not a text");
  }
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
      (*form.strides)[axis] = shape[axis] == 1 ? 0 : static_cast<std::int64_t>(strides[axis] * item);
    }
  }
  const FileRange range{0, storage.begin + offset * item, storage.begin + (*last + 1) * item};
  const bool has_sum = archive_->directory.has_crc32 && range.end - range.begin == storage.size;
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

std::string PickledArrays::describe_numpy(PickleNode dtype, PickleNode shape, PickleNode data,
                                          bool is_fortran, ForeignArray& array) {
  const std::optional<NumpyDType> type = numpy_dtype(dtype);
  if (!type || !type->dtype) {
    return type ? fmt::format("an array of numpy of '{}'", type->name)
                : "an array of numpy of a structured dtype";
  }
  const std::optional<Shape> extents = shape_of(*pickle_, shape);
  const std::optional<Content> found = content(data);
  if (!extents || !found || byte_count(*type->dtype, *extents) != found->bytes.size()) {
    refuse(array.path, "an array of numpy has other than the bytes that its shape asks for");
  }
  array.dtype = *type->dtype;
  array.shape = *extents;
  if (found->bytes.empty()) {
    return {};
  }
  SliceForm form;
  form.is_big_endian = type->is_big_endian && element_bytes(array.dtype) > 1;
  if (found->is_latin1) {
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
