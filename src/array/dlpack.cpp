// SPDX-License-Identifier: Apache-2.0
#include "cairn/array/dlpack.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/checked.hpp"

namespace cairn {
namespace {

using dlpack::DLDataType;
using dlpack::DLDevice;
using dlpack::DLManagedTensor;
using dlpack::DLManagedTensorVersioned;
using dlpack::DLTensor;
using dlpack::TypeCode;

// The code of each dtype, in the order of the enumerators; the bits are the dtype's own.
constexpr std::array<TypeCode, 24> kCodes = {
    TypeCode{255},  // None of the types.
    TypeCode::boolean,
    TypeCode::unsigned_integer,
    TypeCode::unsigned_integer,
    TypeCode::unsigned_integer,
    TypeCode::unsigned_integer,
    TypeCode::signed_integer,
    TypeCode::signed_integer,
    TypeCode::signed_integer,
    TypeCode::signed_integer,
    TypeCode::ieee_float,
    TypeCode::brain_float,
    TypeCode::ieee_float,
    TypeCode::ieee_float,
    TypeCode::complex,
    TypeCode::float8_e4m3fn,
    TypeCode::float8_e5m2,
    TypeCode::float8_e4m3fnuz,
    TypeCode::float8_e5m2fnuz,
    TypeCode::float8_e8m0fnu,
    TypeCode::float6_e2m3fn,
    TypeCode::float6_e3m2fn,
    TypeCode::float4_e2m1fn,
    TypeCode::complex,
};
static_assert(kCodes.size() == static_cast<std::size_t>(kLastDType) + 1);

[[noreturn]] void refuse_dlpack(const std::string& detail) {
  throw Error(Errc::invalid_argument, "DLPack tensor: " + detail);
}

DType read_dtype(DLDataType type) {
  for (std::size_t number = 1; type.lanes == 1 && number < kCodes.size(); ++number) {
    const auto dtype = static_cast<DType>(number);
    if (kCodes[number] == type.code && bits(dtype) == type.bits) {
      return dtype;
    }
  }
  throw Error(Errc::dtype_mismatch,
              fmt::format("DLPack tensor: no dtype has type code {}, {} bits and {} lanes",
                          static_cast<int>(type.code), type.bits, type.lanes));
}

Shape read_shape(const DLTensor& tensor) {
  if (tensor.ndim < 0 || static_cast<std::size_t>(tensor.ndim) > kMaxRank) {
    refuse_dlpack(fmt::format("{} dimensions", tensor.ndim));
  }
  if (tensor.ndim > 0 && tensor.shape == nullptr) {
    refuse_dlpack("the shape is missing");
  }
  Shape shape(static_cast<std::size_t>(tensor.ndim), 0);
  for (std::size_t dimension = 0; dimension < shape.size(); ++dimension) {
    if (tensor.shape[dimension] < 0) {
      refuse_dlpack(fmt::format("extent {} of dimension {}", tensor.shape[dimension], dimension));
    }
    shape[dimension] = static_cast<std::uint64_t>(tensor.shape[dimension]);
  }
  return shape;
}

Strides read_strides(const DLTensor& tensor, DType dtype) {
  Strides strides(static_cast<std::size_t>(tensor.ndim), 0);
  for (std::size_t dimension = 0; dimension < strides.size(); ++dimension) {
    const auto bytes = checked_multiply<std::int64_t>(tensor.strides[dimension], bits(dtype) / 8);
    if (!bytes) {
      refuse_dlpack(fmt::format("stride {} of dimension {}", tensor.strides[dimension], dimension));
    }
    strides[dimension] = *bytes;
  }
  return strides;
}

// Packed elements have no strides in bytes, so theirs must be those of a contiguous array.
void check_packed_strides(const DLTensor& tensor, const Shape& shape) {
  std::uint64_t expected = 1;
  for (std::size_t dimension = shape.size(); dimension-- > 0;) {
    if (shape[dimension] != 1 && tensor.strides[dimension] != static_cast<std::int64_t>(expected)) {
      refuse_dlpack("elements that share a byte must be contiguous");
    }
    expected *= shape[dimension];  // Fits: the caller has computed the size of the array.
  }
}

Device read_device(DLDevice device) {
  switch (device.device_type) {
    case dlpack::DeviceType::cpu:
    case dlpack::DeviceType::cuda_host:
      return {};
    case dlpack::DeviceType::cuda:
      if (device.device_id < 0) {
        refuse_dlpack(fmt::format("CUDA device {}", device.device_id));
      }
      return {Device::Kind::cuda, device.device_id};
  }
  refuse_dlpack(fmt::format("its memory is neither the host's nor CUDA's (device type {})",
                            static_cast<int>(device.device_type)));
}

DLDevice to_dldevice(Device device) {
  return {device.is_host() ? dlpack::DeviceType::cpu : dlpack::DeviceType::cuda, device.index};
}

MutableArrayView read_tensor(const DLTensor& tensor) {
  const Device device = read_device(tensor.device);
  const DType dtype = read_dtype(tensor.dtype);
  Shape shape = read_shape(tensor);
  const auto bytes = byte_count(dtype, shape);
  if (!bytes) {
    refuse_dlpack(fmt::format("{} elements of shape {} are not a whole number of bytes below 2^63",
                              name(dtype), to_string(shape)));
  }
  auto* data = static_cast<std::byte*>(tensor.data);
  if (data == nullptr && *bytes != 0) {
    refuse_dlpack(fmt::format("shape {}, but no memory", to_string(shape)));
  }
  if (*bytes == 0) {
    return {nullptr, std::move(shape), dtype,
            device};  // No element is ever read, so pointer and strides do not matter.
  }
  // No object is larger than PTRDIFF_MAX bytes, and pointers may not be moved further.
  constexpr auto kFurthest = static_cast<std::uintptr_t>(PTRDIFF_MAX);
  if (tensor.byte_offset > std::min(kFurthest, UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(data))) {
    refuse_dlpack(fmt::format("byte offset {}", tensor.byte_offset));
  }
  data += tensor.byte_offset;
  if (tensor.strides == nullptr) {
    return {data, std::move(shape), dtype, device};
  }
  if (is_packed(dtype)) {
    check_packed_strides(tensor, shape);
    return {data, std::move(shape), dtype, device};
  }
  return {data, std::move(shape), dtype, read_strides(tensor, dtype), device};
}

// Calls the deleter at its end, once it has been given a tensor.
template <class Managed>
struct Imported {
  Imported() = default;

  ~Imported() {
    if (tensor != nullptr && tensor->deleter != nullptr) {
      tensor->deleter(tensor);
    }
  }

  Imported(const Imported&) = delete;
  Imported& operator=(const Imported&) = delete;

  Managed* tensor = nullptr;
};

template <class Managed>
Array import(Managed* tensor, bool is_read_only) {
  auto imported = std::make_shared<Imported<Managed>>();
  MutableArrayView view = read_tensor(tensor->dl_tensor);
  Array result =
      is_read_only ? Array::share(ArrayView(view), imported) : Array::share(std::move(view), imported);
  imported->tensor = tensor;  // Nothing throws from here on: the tensor is ours.
  return result;
}

// What a tensor of ours points to; lives until its deleter is called.
template <class Managed>
struct Exported {
  Managed managed{};
  Array array;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
};

template <class Managed>
std::unique_ptr<Exported<Managed>> export_array(Array array) {
  auto exported = std::make_unique<Exported<Managed>>();
  exported->array = std::move(array);
  const ArrayView& view = exported->array.view();
  exported->shape.assign(view.shape().begin(), view.shape().end());
  exported->strides.resize(view.rank());
  std::int64_t packed_stride = 1;
  for (std::size_t dimension = view.rank(); dimension-- > 0;) {
    // Strides of numpy arrays can be no multiple of the element (fields of a record); DLPack cannot say so.
    const auto element_bytes = static_cast<std::int64_t>(bits(view.dtype()) / 8);
    if (!is_packed(view.dtype()) && view.strides()[dimension] % element_bytes != 0) {
      throw Error(Errc::invalid_argument, fmt::format("DLPack cannot express strides of {} bytes for {}",
                                                      to_string(view.strides()), name(view.dtype())));
    }
    exported->strides[dimension] =
        is_packed(view.dtype()) ? packed_stride : view.strides()[dimension] / element_bytes;
    packed_stride *= exported->shape[dimension];
  }
  DLTensor& tensor = exported->managed.dl_tensor;
  tensor.data = const_cast<std::byte*>(view.data());
  tensor.device = to_dldevice(view.device());
  tensor.ndim = static_cast<std::int32_t>(view.rank());
  tensor.dtype = {kCodes[static_cast<std::size_t>(view.dtype())],
                  static_cast<std::uint8_t>(bits(view.dtype())), 1};
  tensor.shape = exported->shape.data();
  tensor.strides = exported->strides.data();
  exported->managed.manager_ctx = exported.get();
  exported->managed.deleter = [](Managed* self) {
    delete static_cast<Exported<Managed>*>(self->manager_ctx);
  };
  return exported;
}

}  // namespace

Array from_dlpack(DLManagedTensor* tensor) {
  if (tensor == nullptr) {
    refuse_dlpack("the pointer is null");
  }
  return import(tensor, false);
}

Array from_dlpack(DLManagedTensorVersioned* tensor) {
  if (tensor == nullptr) {
    refuse_dlpack("the pointer is null");
  }
  if (tensor->version.major !=
      dlpack::kMajorVersion) {  // Only the first fields are the same in all versions.
    throw Error(Errc::unsupported_version,
                fmt::format("DLPack tensor: version {}.{}", tensor->version.major, tensor->version.minor));
  }
  if ((tensor->flags & dlpack::kPaddedFlag) != 0 && tensor->dl_tensor.dtype.bits < 8) {
    refuse_dlpack("elements of fewer than 8 bits are padded to bytes");
  }
  return import(tensor, (tensor->flags & dlpack::kReadOnlyFlag) != 0);
}

DLManagedTensor* to_dlpack(Array array) {
  if (!array.is_mutable()) {
    throw Error(Errc::invalid_argument, "a read-only array needs the versioned structure of DLPack 1.0");
  }
  return &export_array<DLManagedTensor>(std::move(array)).release()->managed;
}

DLManagedTensorVersioned* to_dlpack_versioned(Array array) {
  const bool is_mutable = array.is_mutable();
  auto exported = export_array<DLManagedTensorVersioned>(std::move(array));
  exported->managed.version = {dlpack::kMajorVersion, dlpack::kMinorVersion};
  exported->managed.flags = is_mutable ? 0 : dlpack::kReadOnlyFlag;
  return &exported.release()->managed;
}

}  // namespace cairn
