// SPDX-License-Identifier: Apache-2.0
// The input is the fields of a DLPack tensor. An Error, and the tensor stays the caller's; or an array of
// that shape, which calls the deleter once, and which can be handed out again.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "cairn/array/dlpack.hpp"

#include "fuzz/fuzzing.hpp"

namespace {

using cairn::Array;
using cairn::Errc;
using cairn::dlpack::DLManagedTensor;
using cairn::dlpack::DLManagedTensorVersioned;
using cairn::dlpack::DLTensor;
using cairn::fuzz::attempt;
using cairn::fuzz::require;

constexpr std::size_t kMemoryBytes = 4096;
constexpr std::size_t kMostDimensions = 70;  // Some more than an array may have.

/// What a tensor of an input points to.
struct Tensor {
  alignas(64) std::array<std::byte, kMemoryBytes> memory{};
  std::array<std::int64_t, kMostDimensions> shape{};
  std::array<std::int64_t, kMostDimensions> strides{};
  DLTensor fields{};
  int deleted = 0;
};

/// Mostly a small number; sometimes any.
std::int64_t take_extent(cairn::fuzz::Input& input) {
  const auto small = input.take<std::int8_t>();
  return small == INT8_MIN ? input.take<std::int64_t>() : small;
}

void take_fields(cairn::fuzz::Input& input, Tensor& tensor) {
  DLTensor& fields = tensor.fields;
  const auto present = input.take<std::uint8_t>();
  fields.data = (present & 1) != 0 ? nullptr : tensor.memory.data();
  fields.shape = (present & 2) != 0 ? nullptr : tensor.shape.data();
  fields.strides = (present & 4) != 0 ? tensor.strides.data() : nullptr;
  fields.byte_offset = (present & 8) != 0 ? input.take<std::uint64_t>() : 0;
  fields.device.device_type =
      static_cast<cairn::dlpack::DeviceType>((present & 16) != 0 ? input.take<std::int32_t>() : 1);
  fields.ndim = (present & 32) != 0 ? input.take<std::int32_t>() : input.take<std::uint8_t>() % 8;
  if (fields.ndim > static_cast<std::int32_t>(kMostDimensions) && fields.shape != nullptr) {
    fields.ndim = static_cast<std::int32_t>(kMostDimensions);  // The caller vouches for this much memory.
  }
  fields.dtype.code = static_cast<cairn::dlpack::TypeCode>(input.take<std::uint8_t>());
  fields.dtype.bits = input.take<std::uint8_t>();
  fields.dtype.lanes = (present & 64) != 0 ? input.take<std::uint16_t>() : std::uint16_t{1};
  for (std::int32_t d = 0; d < std::min(fields.ndim, static_cast<std::int32_t>(kMostDimensions)); ++d) {
    tensor.shape[static_cast<std::size_t>(d)] = take_extent(input);
    tensor.strides[static_cast<std::size_t>(d)] = fields.strides != nullptr ? take_extent(input) : 0;
  }
}

/// Returns whether every element lies in the memory that the tensor really has, and not on a device.
bool is_inside(const cairn::ArrayView& view, const Tensor& tensor) {
  if (!view.device().is_host() || view.byte_count() == 0 || view.byte_count() > kMemoryBytes) {
    return false;
  }
  const auto begin = reinterpret_cast<std::intptr_t>(tensor.memory.data());
  __extension__ using Wide = __int128;
  Wide first = reinterpret_cast<std::intptr_t>(view.data());
  Wide last = first + (view.is_contiguous() ? static_cast<Wide>(view.byte_count()) : Wide{16});
  for (std::size_t d = 0; d < view.rank() && !view.is_contiguous(); ++d) {
    const Wide reach = Wide{view.strides()[d]} * static_cast<Wide>(view.shape()[d] - 1);
    (reach < 0 ? first : last) += reach;
  }
  return first >= begin && last <= Wide{begin} + Wide{kMemoryBytes};
}

/// Hands the array out and takes it in again.
void check_round_trip(const Array& array) {
  const auto exported = attempt({Errc::invalid_argument}, [&] { return cairn::to_dlpack_versioned(array); });
  if (exported) {
    const Array again = cairn::from_dlpack(*exported);
    require(again.shape() == array.shape() && again.dtype() == array.dtype(), "an array comes back");
    require(again.is_mutable() == array.is_mutable(), "read-only stays read-only");
  }
}

void check(const Array& array, const Tensor& tensor) {
  require(array.shape().size() == static_cast<std::size_t>(tensor.fields.ndim), "the rank is the tensor's");
  require(std::equal(array.shape().begin(), array.shape().end(), tensor.shape.begin(),
                     [](std::uint64_t ours, std::int64_t theirs) {
                       return theirs >= 0 && ours == static_cast<std::uint64_t>(theirs);
                     }),
          "the shape is the tensor's");
  require(cairn::byte_count(array.dtype(), array.shape()) == array.byte_count(), "sizes fit in 63 bits");
  if (is_inside(array.view(), tensor)) {
    require(is_identical(array.clone().view(), array.view()), "a copy has the same elements");
  }
  check_round_trip(array);
}

template <class Managed>
void import(Managed& managed, Tensor& tensor) {
  managed.dl_tensor = tensor.fields;
  managed.manager_ctx = &tensor;
  managed.deleter = [](Managed* self) { ++static_cast<Tensor*>(self->manager_ctx)->deleted; };
  bool is_imported = false;
  {
    const auto array = attempt({Errc::invalid_argument, Errc::dtype_mismatch, Errc::unsupported_version},
                               [&] { return cairn::from_dlpack(&managed); });
    is_imported = array.has_value();
    if (array) {
      check(*array, tensor);
      require(tensor.deleted == 0, "a tensor lives as long as its array");
    }
  }
  require(tensor.deleted == (is_imported ? 1 : 0), "an array deletes its tensor once, a refusal never");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cairn::fuzz::Input input(data, size);
  const cairn::fuzz::MemoryBound bound(65536);
  Tensor tensor;
  const auto kind = input.take<std::uint8_t>();
  if (kind % 2 == 0) {
    take_fields(input, tensor);
    DLManagedTensor managed{};
    import(managed, tensor);
    return 0;
  }
  DLManagedTensorVersioned managed{};
  managed.version = {(kind & 2) != 0 ? input.take<std::uint32_t>() : 1, 0};
  managed.flags = (kind & 4) != 0 ? input.take<std::uint64_t>() : 0;
  take_fields(input, tensor);
  import(managed, tensor);
  return 0;
}
