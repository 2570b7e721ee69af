// SPDX-License-Identifier: Apache-2.0
#include "cairn/array/dlpack.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "support/fails.hpp"

namespace cairn {
namespace {

using dlpack::DeviceType;
using dlpack::DLManagedTensor;
using dlpack::DLManagedTensorVersioned;
using dlpack::TypeCode;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

static_assert(offsetof(dlpack::DLTensor, ndim) == 16 && offsetof(dlpack::DLTensor, byte_offset) == 40);
static_assert(offsetof(DLManagedTensor, deleter) == 56);
static_assert(offsetof(DLManagedTensorVersioned, flags) == 24 &&
              offsetof(DLManagedTensorVersioned, dl_tensor) == 32);

// A tensor of float32 as another library would lend it; counts how often it was freed.
template <class Managed>
struct Lent {
  std::vector<float> values = {0, 1, 2, 3, 4, 5};
  std::vector<std::int64_t> shape = {2, 3};
  std::vector<std::int64_t> strides = {3, 1};
  int freed = 0;
  Managed managed{};

  Lent() {
    managed.dl_tensor.data = values.data();
    managed.dl_tensor.device = {DeviceType::cpu, 0};
    managed.dl_tensor.ndim = 2;
    managed.dl_tensor.dtype = {TypeCode::ieee_float, 32, 1};
    managed.dl_tensor.shape = shape.data();
    managed.dl_tensor.strides = strides.data();
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Lent*>(self->manager_ctx)->freed; };
    if constexpr (requires { managed.version; }) {
      managed.version = {1, 0};
    }
  }
};

using LentTensor = Lent<DLManagedTensor>;
using LentVersioned = Lent<DLManagedTensorVersioned>;

template <class Text>
void expect_refusal(LentTensor& lent, Errc code, Text text) {
  EXPECT_THAT([&] { return from_dlpack(&lent.managed); }, Fails(code, text));
  EXPECT_EQ(lent.freed, 0) << "a refused tensor stays the caller's";
}

TEST(FromDlpack, SharesTheMemory) {
  LentTensor lent;
  const Array array = from_dlpack(&lent.managed);

  array.data<float>()[0] = 9;

  EXPECT_EQ(array.shape(), (Shape{2, 3}));
  EXPECT_EQ(lent.values[0], 9);
}

TEST(FromDlpack, FreesTheTensorOnceWithTheLastHandle) {
  LentTensor lent;
  {
    Array array = from_dlpack(&lent.managed);
    const Array copy = array;
    array = Array();
    EXPECT_EQ(lent.freed, 0);
  }
  EXPECT_EQ(lent.freed, 1);
}

TEST(FromDlpack, NeedsNoDeleter) {
  LentTensor lent;
  lent.managed.deleter = nullptr;

  EXPECT_EQ(from_dlpack(&lent.managed).element_count(), 6u);
}

TEST(FromDlpack, CountsStridesInElementsAndTheOffsetInBytes) {
  LentTensor lent;
  lent.shape = {2, 2};
  lent.strides = {1, 3};
  lent.managed.dl_tensor.byte_offset = 4;

  EXPECT_THAT(from_dlpack(&lent.managed).clone().data<const float>(), ElementsAre(1, 4, 2, 5));
}

TEST(FromDlpack, TakesNullStridesForRowMajor) {
  LentTensor lent;
  lent.managed.dl_tensor.strides = nullptr;

  EXPECT_TRUE(from_dlpack(&lent.managed).view().is_contiguous());
}

TEST(FromDlpack, AcceptsNullForNoElements) {
  LentTensor lent;
  lent.shape = {0, 3};
  lent.managed.dl_tensor.data = nullptr;

  EXPECT_EQ(from_dlpack(&lent.managed).shape(), (Shape{0, 3}));
}

TEST(FromDlpack, AcceptsPinnedHostMemory) {
  LentTensor lent;
  lent.managed.dl_tensor.device.device_type = DeviceType::cuda_host;

  EXPECT_EQ(from_dlpack(&lent.managed).view().device().kind, Device::Kind::cpu);
}

TEST(FromDlpack, RefusesNull) {
  EXPECT_THAT([] { return from_dlpack(static_cast<DLManagedTensor*>(nullptr)); },
              Fails(Errc::invalid_argument));
  EXPECT_THAT([] { return from_dlpack(static_cast<DLManagedTensorVersioned*>(nullptr)); },
              Fails(Errc::invalid_argument));
}

TEST(FromDlpack, AcceptsMemoryOfACudaDevice) {
  LentTensor lent;
  lent.managed.dl_tensor.device = {DeviceType::cuda, 3};

  const Array array = from_dlpack(&lent.managed);

  EXPECT_EQ(array.view().device(), (Device{Device::Kind::cuda, 3}));
}

TEST(FromDlpack, RefusesANegativeDevice) {
  LentTensor lent;
  lent.managed.dl_tensor.device = {DeviceType::cuda, -1};

  expect_refusal(lent, Errc::invalid_argument, HasSubstr("CUDA device -1"));
}

TEST(FromDlpack, RefusesMemoryOfOtherDevices) {
  LentTensor lent;
  lent.managed.dl_tensor.device.device_type = static_cast<DeviceType>(10);  // ROCm.

  expect_refusal(lent, Errc::invalid_argument, HasSubstr("device type 10"));
}

TEST(FromDlpack, RefusesImpossibleRanks) {
  LentTensor lent;
  for (const int rank : {-1, 65, INT32_MAX}) {
    lent.managed.dl_tensor.ndim = rank;
    expect_refusal(lent, Errc::invalid_argument, HasSubstr("dimensions"));
  }
}

TEST(FromDlpack, RefusesNegativeExtents) {
  LentTensor lent;
  lent.shape[1] = -3;

  expect_refusal(lent, Errc::invalid_argument, HasSubstr("extent -3 of dimension 1"));
}

TEST(FromDlpack, RefusesAMissingShape) {
  LentTensor lent;
  lent.managed.dl_tensor.shape = nullptr;

  expect_refusal(lent, Errc::invalid_argument, HasSubstr("shape is missing"));
}

TEST(FromDlpack, RefusesMissingMemory) {
  LentTensor lent;
  lent.managed.dl_tensor.data = nullptr;

  expect_refusal(lent, Errc::invalid_argument, HasSubstr("no memory"));
}

TEST(FromDlpack, RefusesSizesThatOverflow) {
  LentTensor lent;
  lent.shape = {INT64_MAX, 3};

  expect_refusal(lent, Errc::invalid_argument, HasSubstr("below 2^63"));
}

TEST(FromDlpack, RefusesStridesThatOverflow) {
  LentTensor lent;
  lent.strides = {INT64_MAX / 2, 1};

  expect_refusal(lent, Errc::invalid_argument, HasSubstr("stride"));
}

TEST(FromDlpack, RefusesAnOffsetThatWrapsAround) {
  LentTensor lent;
  lent.managed.dl_tensor.byte_offset = UINT64_MAX - 8;

  expect_refusal(lent, Errc::invalid_argument, HasSubstr("byte offset"));
}

TEST(FromDlpack, RefusesAnOffsetThatIsLargerThanAnyObject) {
  LentTensor lent;
  lent.managed.dl_tensor.byte_offset = std::uint64_t{PTRDIFF_MAX} + 1;

  expect_refusal(lent, Errc::invalid_argument, HasSubstr("byte offset"));
}

TEST(FromDlpack, RefusesTypesThatArraysDoNotHave) {
  LentTensor lent;
  const dlpack::DLDataType types[] = {
      {TypeCode::ieee_float, 32, 4}, {TypeCode::ieee_float, 128, 1},  {TypeCode::complex, 32, 1},
      {TypeCode{3}, 64, 1},          {TypeCode::float4_e2m1fn, 8, 1}, {TypeCode{200}, 8, 1},
      {TypeCode::boolean, 8, 0},     {TypeCode{255}, 0, 1},
  };
  for (const auto& type : types) {
    lent.managed.dl_tensor.dtype = type;
    expect_refusal(lent, Errc::dtype_mismatch, HasSubstr("no dtype has type code"));
  }
}

TEST(FromDlpack, RefusesPackedElementsWithGaps) {
  LentTensor lent;
  lent.managed.dl_tensor.dtype = {TypeCode::float4_e2m1fn, 4, 1};
  lent.strides = {4, 1};

  expect_refusal(lent, Errc::invalid_argument, HasSubstr("contiguous"));
}

TEST(FromDlpackVersioned, HonoursTheReadOnlyFlag) {
  LentVersioned lent;
  lent.managed.flags = dlpack::kReadOnlyFlag;

  EXPECT_FALSE(from_dlpack(&lent.managed).is_mutable());
  EXPECT_EQ(lent.freed, 1);
}

TEST(FromDlpackVersioned, RefusesAnotherMajorVersion) {
  LentVersioned lent;
  lent.managed.version = {2, 0};

  EXPECT_THAT([&] { return from_dlpack(&lent.managed); }, Fails(Errc::unsupported_version, HasSubstr("2.0")));
  EXPECT_EQ(lent.freed, 0);
}

TEST(FromDlpackVersioned, RefusesPaddedElements) {
  LentVersioned lent;
  lent.managed.dl_tensor.dtype = {TypeCode::float4_e2m1fn, 4, 1};
  lent.managed.flags = dlpack::kPaddedFlag;

  EXPECT_THAT([&] { return from_dlpack(&lent.managed); }, Fails(Errc::invalid_argument, HasSubstr("padded")));
}

TEST(ToDlpack, KeepsTheMemoryAliveUntilItIsFreed) {
  std::weak_ptr<const void> watch;
  DLManagedTensor* tensor = nullptr;
  {
    const Array array = Array::zeros({2, 3}, DType::float32);
    watch = array.owner();
    tensor = to_dlpack(array);
  }

  EXPECT_FALSE(watch.expired());
  tensor->deleter(tensor);
  EXPECT_TRUE(watch.expired());
}

TEST(ToDlpack, GivesEveryTypeBackAsItWas) {
  for (int number = 1; number <= static_cast<int>(kLastDType); ++number) {
    const Array array = Array::zeros({2, 4}, static_cast<DType>(number));
    const Array back = from_dlpack(to_dlpack(array));
    EXPECT_EQ(back, array) << array.dtype();
    EXPECT_EQ(back.view().data(), array.view().data()) << array.dtype();
  }
}

TEST(ToDlpack, KeepsStrides) {
  std::vector<float> values(6);
  const Array array = Array::borrow(MutableArrayView(values.data(), {2, 3}, DType::float32).transposed());

  EXPECT_EQ(from_dlpack(to_dlpack(array)).view().strides(), (Strides{4, 12}));
}

TEST(ToDlpack, RefusesStridesBetweenElements) {
  std::vector<char> bytes(16);
  const Array array = Array::borrow(MutableArrayView(bytes.data(), {2}, DType::float32, {6}));

  EXPECT_THAT([&] { return to_dlpack(array); }, Fails(Errc::invalid_argument, HasSubstr("[6] bytes")));
}

TEST(ToDlpack, RefusesReadOnlyArrays) {
  const std::vector<float> values(6);

  EXPECT_THAT([&] { return to_dlpack(Array(values)); },
              Fails(Errc::invalid_argument, HasSubstr("read-only")));
}

TEST(ToDlpack, SaysOnWhichDeviceTheMemoryIs) {
  std::vector<float> values(6);
  const Array array =
      Array::borrow(MutableArrayView(values.data(), {6}, DType::float32, Device{Device::Kind::cuda, 1}));
  dlpack::DLManagedTensor* tensor = to_dlpack(array);

  EXPECT_EQ(tensor->dl_tensor.device.device_type, DeviceType::cuda);
  EXPECT_EQ(tensor->dl_tensor.device.device_id, 1);
  tensor->deleter(tensor);
}

TEST(ToDlpackVersioned, SaysThatAnArrayIsReadOnly) {
  const std::vector<float> values(6);
  DLManagedTensorVersioned* tensor = to_dlpack_versioned(Array(values));

  EXPECT_EQ(tensor->version.major, 1u);
  EXPECT_EQ(tensor->flags, dlpack::kReadOnlyFlag);
  tensor->deleter(tensor);
}

}  // namespace
}  // namespace cairn
