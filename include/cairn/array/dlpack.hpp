// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cairn/array/array.hpp"

namespace cairn {

/// The structures of the DLPack C interface. They have its layout, so a pointer to DLPack's own struct of
/// that name may be passed with a reinterpret_cast.
///
/// Source: DLPack 1.1, dlpack.h.
namespace dlpack {

inline constexpr std::uint32_t kMajorVersion = 1;
inline constexpr std::uint32_t kMinorVersion = 1;

enum class DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3 };

/// Type codes; together with the number of bits they name a dtype.
enum class TypeCode : std::uint8_t {
  signed_integer = 0,
  unsigned_integer = 1,
  ieee_float = 2,
  brain_float = 4,
  complex = 5,
  boolean = 6,
  float8_e4m3fn = 10,
  float8_e4m3fnuz = 11,
  float8_e5m2 = 12,
  float8_e5m2fnuz = 13,
  float8_e8m0fnu = 14,
  float6_e2m3fn = 15,
  float6_e3m2fn = 16,
  float4_e2m1fn = 17,
};

struct DLDevice {
  DeviceType device_type;
  std::int32_t device_id;
};

struct DLDataType {
  TypeCode code;
  std::uint8_t bits;    ///< Of one lane.
  std::uint16_t lanes;  ///< 1 for scalars.
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< In elements; null means row-major without gaps.
  std::uint64_t byte_offset;
};

/// A tensor with a function that frees it, as exchanged before DLPack 1.0.
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);  ///< May be null.
};

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

/// A tensor with a function that frees it, as exchanged since DLPack 1.0.
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);  ///< May be null.
  std::uint64_t flags;
  DLTensor dl_tensor;
};

inline constexpr std::uint64_t kReadOnlyFlag = 1;
inline constexpr std::uint64_t kPaddedFlag = 4;  ///< Each element of fewer than 8 bits has a byte of its own.

static_assert(sizeof(DLDataType) == 4 && sizeof(DLTensor) == 48);
static_assert(sizeof(DLManagedTensor) == 64 && sizeof(DLManagedTensorVersioned) == 80);

}  // namespace dlpack

/// An Array that shares the memory of a tensor of another library; nothing is copied. The memory is the
/// host's (CUDA's pinned host memory is) or that of a CUDA device.
///
/// Ownership: on success the Array owns the tensor, and its deleter is called once, on whichever thread gives
///            up the last handle. On failure it is not called: the tensor stays the caller's.
/// Errors:    Errc::invalid_argument when the pointer is null, the memory is neither the host's nor that of a
///            CUDA device, the rank or an extent is negative or too large, a size does not fit in 63 bits,
///            memory is missing, or a packed type is padded or strided; Errc::dtype_mismatch when no dtype is
///            like the tensor's, vectors of several lanes included; Errc::unsupported_version when the major
///            version is not 1.
[[nodiscard]] Array from_dlpack(dlpack::DLManagedTensor* tensor);
[[nodiscard]] Array from_dlpack(dlpack::DLManagedTensorVersioned* tensor);  ///< Honours the read-only flag.

/// A tensor that shares the memory of an Array; nothing is copied.
///
/// Ownership: the caller, or the library that it hands the tensor to, calls the deleter once. Until then the
///            tensor keeps the owner of the memory alive; a borrowed array's memory is still its maker's to
///            keep.
/// Errors:    Errc::invalid_argument when the array is read-only, or its strides are not multiples of an
///            element: this structure cannot say so.
[[nodiscard]] dlpack::DLManagedTensor* to_dlpack(Array array);

/// As to_dlpack, for arrays that may be read-only.
///
/// Errors: Errc::invalid_argument when the strides are not multiples of an element.
[[nodiscard]] dlpack::DLManagedTensorVersioned* to_dlpack_versioned(Array array);

}  // namespace cairn
