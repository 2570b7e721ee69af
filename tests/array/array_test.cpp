// SPDX-License-Identifier: Apache-2.0
#include "cairn/array/array.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "support/fails.hpp"

namespace cairn {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

static_assert(std::is_convertible_v<std::vector<float>&, Array>);
static_assert(std::is_convertible_v<std::span<const double>, Array>);
static_assert(!std::is_constructible_v<Array, std::vector<float>>, "it would borrow from a temporary");
static_assert(std::is_nothrow_move_constructible_v<Array>);

std::uintptr_t address(const Array& array) {
  return reinterpret_cast<std::uintptr_t>(array.view().data());
}

TEST(Array, IsAlignedToCacheLinesAndToPagesWhenLarge) {
  EXPECT_EQ(address(Array({3}, DType::int8)) % 64, 0u);
  EXPECT_EQ(address(Array({65536}, DType::int8)) % 4096, 0u);
}

TEST(Array, RefusesSizesThatOverflow) {
  EXPECT_THAT(
      [] {
        return Array({std::uint64_t{1} << 62, 4}, DType::float32);
      },
      Fails(Errc::invalid_argument));
}

TEST(ArrayZeros, HoldsZeros) {
  for (const std::uint64_t size : {0u, 5u, 100000u}) {
    const Array zeros = Array::zeros({size}, DType::int32);
    EXPECT_EQ(zeros.element_count(), size);
    EXPECT_THAT(zeros.data<const int>(), Each(0)) << size;
  }
}

TEST(Array, SharesItsElementsWithItsCopies) {
  const Array original = Array::zeros({2}, DType::int32);
  const Array copy = original;

  copy.data<int>()[0] = 7;

  EXPECT_THAT(original.data<const int>(), ElementsAre(7, 0));
  EXPECT_EQ(copy.owner(), original.owner());
}

TEST(ArrayClone, HasElementsOfItsOwn) {
  const Array original = Array::zeros({2}, DType::int32);
  const Array clone = original.clone();

  clone.data<int>()[0] = 7;

  EXPECT_THAT(original.data<const int>(), ElementsAre(0, 0));
}

TEST(ArrayOfAVector, BorrowsItsElements) {
  std::vector<int> values = {1, 2};
  const Array array = values;

  values[0] = 5;
  array.data<int>()[1] = 6;

  EXPECT_THAT(array.data<const int>(), ElementsAre(5, 6));
  EXPECT_EQ(array.owner(), nullptr);
}

TEST(ArrayOfAVector, IsReadOnlyWhenTheVectorIsConst) {
  const std::vector<int> values = {1, 2};
  const Array array = values;

  EXPECT_THAT(array.data<const int>(), ElementsAre(1, 2));
  EXPECT_THAT([&] { return array.data<int>(); }, Fails(Errc::invalid_argument, HasSubstr("read-only")));
}

TEST(ArrayCopyOf, PacksStridedElements) {
  const std::vector<int> values = {0, 1, 2, 3, 4, 5};
  const Array copy = Array::copy_of(ArrayView(values.data(), {2, 3}, DType::int32).transposed());

  EXPECT_EQ(copy.shape(), (Shape{3, 2}));
  EXPECT_THAT(copy.data<const int>(), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(ArrayShare, KeepsTheOwnerAliveAndCopiesNothing) {
  auto owner = std::make_shared<std::vector<int>>(3, 8);
  const std::weak_ptr<std::vector<int>> watch = owner;
  const ArrayView view(*owner);
  Array array = Array::share(view, std::move(owner));

  EXPECT_EQ(array.view().data(), view.data());
  EXPECT_FALSE(watch.expired());
  array = Array();
  EXPECT_TRUE(watch.expired());
}

TEST(ArrayShare, OfAConstViewIsReadOnly) {
  const auto owner = std::make_shared<std::vector<int>>(3, 8);

  EXPECT_FALSE(Array::share(ArrayView(*owner), owner).is_mutable());
  EXPECT_TRUE(Array::share(MutableArrayView(*owner), owner).is_mutable());
}

TEST(ArrayShare, RefusesToHaveNoOwner) {
  const std::vector<int> values(3);

  EXPECT_THAT([&] { return Array::share(ArrayView(values), nullptr); },
              Fails(Errc::invalid_argument, HasSubstr("owner")));
}

TEST(ArrayBorrow, KeepsPackedElementsReadOnly) {
  const std::vector<std::uint8_t> bytes = {1, 2};
  const Array array = Array::borrow(ArrayView(bytes.data(), {2, 2}, DType::float4));

  EXPECT_EQ(array.byte_count(), 2u);
  EXPECT_FALSE(array.is_mutable());
}

TEST(ArrayAdopt, TakesOverAVector) {
  std::vector<int> values = {1, 2, 3};
  const int* data = values.data();
  const Array array = Array::adopt(std::move(values));

  EXPECT_EQ(array.data<int>().data(), data);
  EXPECT_NE(array.owner(), nullptr);
}

TEST(ArrayReshaped, SharesTheElements) {
  const Array array = Array::zeros({6}, DType::int32);
  const Array reshaped = array.reshaped({2, 3});

  EXPECT_EQ(reshaped.shape(), (Shape{2, 3}));
  EXPECT_EQ(reshaped.view().data(), array.view().data());
}

TEST(ArrayReshaped, RefusesAnotherNumberOfElements) {
  EXPECT_THAT([] { return Array::zeros({6}, DType::int32).reshaped({4}); },
              Fails(Errc::shape_mismatch, HasSubstr("[6] to [4]")));
}

TEST(Array, EqualsAnArrayOfTheSameBits) {
  const std::vector<int> values = {1, 2, 3};

  EXPECT_EQ(Array(values), Array(values).clone());
  EXPECT_NE(Array(values), Array::zeros({3}, DType::int32));
}

TEST(AbstractArray, DescribesAnArray) {
  const AbstractArray wanted{Array::zeros({2, 3}, DType::int8).view()};

  EXPECT_EQ(wanted, AbstractArray({2, 3}, DType::int8));
  EXPECT_FALSE(wanted.destination);
}

TEST(AbstractArrayPlaceInto, AsksForTheTypeOfTheDestination) {
  std::vector<float> memory(6);
  AbstractArray wanted({6}, DType::float64);

  wanted.place_into(MutableArrayView(memory));

  EXPECT_EQ(wanted.dtype, DType::float32);
  EXPECT_EQ(wanted.destination->data<float>().data(), memory.data());
}

TEST(AbstractArrayPlaceInto, RefusesAnotherShape) {
  std::vector<float> memory(6);

  EXPECT_THAT(
      [&] {
        AbstractArray({2, 3}, DType::float32).place_into(MutableArrayView(memory));
      },
      Fails(Errc::shape_mismatch, HasSubstr("[2, 3]")));
}

TEST(AbstractArrayPlaceInto, RefusesReadOnlyMemory) {
  const std::vector<float> memory(6);

  EXPECT_THAT([&] { AbstractArray({6}, DType::float32).place_into(Array(memory)); },
              Fails(Errc::invalid_argument, HasSubstr("read-only")));
}

}  // namespace
}  // namespace cairn
