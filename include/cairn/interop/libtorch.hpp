// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tensors of libtorch as arrays of Cairn, and the other way round; what modules hold, by name. Empty where libtorch
// is not installed; nothing else of Cairn needs it.

#if __has_include(<torch/torch.h>)

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "cairn/array/array.hpp"
#include "cairn/array/array_view.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/base/device.hpp"
#include "cairn/base/error.hpp"
#include "cairn/interop/strided.hpp"

namespace cairn::interop {

namespace detail {

/// Both lists are of types that have the same bits.
struct TorchType {
  DType dtype;
  at::ScalarType scalar;
};

inline constexpr TorchType kTorchTypes[] = {
    {DType::boolean, at::kBool},
    {DType::uint8, at::kByte},
    {DType::uint16, at::kUInt16},
    {DType::uint32, at::kUInt32},
    {DType::uint64, at::kUInt64},
    {DType::int8, at::kChar},
    {DType::int16, at::kShort},
    {DType::int32, at::kInt},
    {DType::int64, at::kLong},
    {DType::float16, at::kHalf},
    {DType::bfloat16, at::ScalarType::BFloat16},
    {DType::float32, at::kFloat},
    {DType::float64, at::kDouble},
    {DType::complex64, at::kComplexFloat},
    {DType::complex128, at::kComplexDouble},
    {DType::float8_e4m3, at::kFloat8_e4m3fn},
    {DType::float8_e5m2, at::kFloat8_e5m2},
    {DType::float8_e4m3fnuz, at::kFloat8_e4m3fnuz},
    {DType::float8_e5m2fnuz, at::kFloat8_e5m2fnuz},
};

/// "a tensor of shape [2, 3] is not an array: <why>".
[[noreturn]] inline void throw_no_array(const at::Tensor& tensor, Errc code, const std::string& why) {
  std::ostringstream text;
  text << "a tensor of shape " << tensor.sizes() << " is not an array: " << why;
  throw Error(code, text.str());
}

[[nodiscard]] inline Device device_of(const at::Tensor& tensor) {
  if (tensor.is_cpu()) {
    return {};
  }
  if (tensor.is_cuda()) {
    return {Device::Kind::cuda, tensor.device().index()};
  }
  throw_no_array(tensor, Errc::invalid_argument, "it is on the device " + tensor.device().str());
}

}  // namespace detail

/// The type of a tensor's elements.
///
/// Errors: Errc::dtype_mismatch for one that Cairn does not have: complex32, quantised and packed ones.
[[nodiscard]] inline DType element_type_of(const at::Tensor& tensor) {
  for (const detail::TorchType& type : detail::kTorchTypes) {
    if (type.scalar == tensor.scalar_type()) {
      return type.dtype;
    }
  }
  detail::throw_no_array(tensor, Errc::dtype_mismatch,
                         std::string("its elements are ") + at::toString(tensor.scalar_type()));
}

/// The type that tensors have for elements of `dtype`.
///
/// Errors: Errc::dtype_mismatch for the types of less than a byte, and for float8_e8m0.
[[nodiscard]] inline at::ScalarType scalar_type_of(DType dtype) {
  for (const detail::TorchType& type : detail::kTorchTypes) {
    if (type.dtype == dtype) {
      return type.scalar;
    }
  }
  throw Error(Errc::dtype_mismatch, "libtorch has no tensors of " + std::string(name(dtype)));
}

/// The elements of a tensor, on the host or on a CUDA device, with strides as they are: transposed ones, parts of
/// others. Those may be changed through it. Nothing is copied; gradients are not followed.
///
/// Ownership: the tensor, or another one of its storage, must live as long as the view is used.
/// Errors:    as element_type_of; Errc::invalid_argument for what is not in memory as it is: sparse, quantised and
///            other layouts, lazily conjugated or negated tensors (`resolve_conj`, `resolve_neg`), other devices
///            (meta, say).
/// Example:   wanted["w"].place_into(cairn::interop::mutable_view_of(model->weight));
[[nodiscard]] inline MutableArrayView mutable_view_of(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    throw Error(Errc::invalid_argument, "an undefined tensor is not an array");
  }
  if (tensor.layout() != at::kStrided) {
    std::ostringstream text;
    text << "its layout is " << tensor.layout();
    detail::throw_no_array(tensor, Errc::invalid_argument, text.str());
  }
  if (tensor.is_conj() || tensor.is_neg()) {
    detail::throw_no_array(
        tensor, Errc::invalid_argument,
        "it is conjugated or negated when it is read; resolve_conj and resolve_neg make another one");
  }
  const DType dtype = element_type_of(tensor);
  const Device device = detail::device_of(tensor);
  const auto rank = static_cast<std::size_t>(tensor.dim());
  Shape shape(rank, 0);
  Strides strides(rank, 0);
  for (std::size_t dimension = 0; dimension < rank; ++dimension) {
    const auto d = static_cast<std::int64_t>(dimension);
    shape[dimension] = static_cast<std::uint64_t>(tensor.size(d));
    strides[dimension] = tensor.stride(d) * tensor.element_size();
  }
  return {tensor.data_ptr(), std::move(shape), dtype, std::move(strides), device};
}

/// As mutable_view_of, to read only.
[[nodiscard]] inline ArrayView view_of(const at::Tensor& tensor) {
  return mutable_view_of(tensor);
}

/// A tensor as an array that shares its storage and keeps it alive.
///
/// Errors: as mutable_view_of.
[[nodiscard]] inline Array array_of(at::Tensor tensor) {
  MutableArrayView view = mutable_view_of(tensor);
  return Array::share(std::move(view), std::make_shared<at::Tensor>(std::move(tensor)));
}

/// An array as a tensor that shares its memory and keeps it alive.
///
/// Ownership: of an array that borrows, the memory must stay valid as long as the tensor is used.
/// Errors:    as scalar_type_of; Errc::invalid_argument for an array that is read-only, not in the host's memory, or
///            that has strides which are negative or no multiple of an element: `copy_as_tensor` takes those.
[[nodiscard]] inline at::Tensor tensor_of(const Array& array) {
  constexpr const char* kViewer = "at::Tensor";
  const MutableArrayView& view = array.mutable_view();
  const at::ScalarType scalar = scalar_type_of(view.dtype());
  const Strides strides = element_strides(view, view.dtype(), 1, kViewer);
  for (const std::int64_t stride : strides) {
    if (stride < 0) {
      throw_other_strides(view, "it does not support negative strides", kViewer);
    }
  }
  const std::vector<std::int64_t> sizes(view.shape().begin(), view.shape().end());
  const std::vector<std::int64_t> steps(strides.begin(), strides.end());
  return at::from_blob(
      view.data(), sizes, steps, [array](void*) {}, at::TensorOptions().dtype(scalar));
}

/// A contiguous tensor of its own with the elements of an array in the host's memory.
///
/// Errors: as scalar_type_of, Array::copy_of.
[[nodiscard]] inline at::Tensor copy_as_tensor(const ArrayView& array) {
  return tensor_of(Array::copy_of(array));
}

/// The arrays of a module or an optimizer by name: a Tree is made of it, and it of a Tree (`tree.as<NamedArrays>()`).
using NamedArrays = std::map<std::string, Array>;

/// The parameters and buffers of a module and of those below it, by libtorch's names, such as "encoder.0.weight".
/// They share its memory: saved, they are what the module holds then; loaded into, they are what it holds afterwards.
///
/// Errors:  as mutable_view_of, naming the parameter.
/// Example: cairn::Tree state = cairn::interop::arrays_of(*model);  cairn::load_into("run/model", state);
[[nodiscard]] inline NamedArrays arrays_of(const torch::nn::Module& module) {
  NamedArrays arrays;
  const auto add = [&arrays](const std::string& name, const at::Tensor& tensor) {
    if (!tensor.defined()) {
      return;  // A layer without a bias has one that is not.
    }
    try {
      arrays.emplace(name, array_of(tensor.detach()));
    } catch (const Error& error) {
      throw Error(error.code(), "'" + name + "': " + error.detail());
    }
  };
  for (const auto& parameter : module.named_parameters()) {
    add(parameter.key(), parameter.value());
  }
  for (const auto& buffer : module.named_buffers()) {
    add(buffer.key(), buffer.value());
  }
  return arrays;
}

}  // namespace cairn::interop

#endif
