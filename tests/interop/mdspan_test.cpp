// SPDX-License-Identifier: Apache-2.0
#include "cairn/interop/mdspan.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gmock/gmock.h>

#include "support/fails.hpp"

#if __has_include(<mdspan>)
#include <mdspan>
namespace spans = std;
#elif __has_include(<experimental/mdspan>)
#include <experimental/mdspan>
namespace spans = std::experimental;
#else
#include <cuda/std/mdspan>
namespace spans = cuda::std;
#endif

namespace cairn::interop {
namespace {

using cairn::testing::Fails;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Any = spans::dextents<std::size_t, 2>;
using Rows = spans::mdspan<const float, Any>;
using Columns = spans::mdspan<const float, Any, spans::layout_left>;
using Strided = spans::mdspan<const float, Any, spans::layout_stride>;

const std::vector<float> kNumbers = {0, 1, 2, 3, 4, 5};

/// The elements in row-major order, as a checkpoint has them.
std::vector<float> in_order(const ArrayView& view) {
  const Array copied = Array::copy_of(view);
  const auto values = copied.data<const float>();
  return {values.begin(), values.end()};
}

ArrayView two_by_three() {
  return ArrayView(kNumbers.data(), {2, 3}, DType::float32);
}

/// A span has its elements by two numbers, with brackets in C++23 only.
template <class S>
float at(const S& span, std::size_t row, std::size_t column) {
  return span.data_handle()[span.mapping()(row, column)];
}

TEST(MdspanView, HasTheElementsOfSpansOfBothOrders) {
  const Rows rows(kNumbers.data(), 2, 3);
  const Columns columns(kNumbers.data(), 2, 3);

  EXPECT_EQ(view_of(rows).shape(), (Shape{2, 3}));
  EXPECT_TRUE(view_of(rows).is_contiguous());
  EXPECT_EQ(view_of(rows).data(), reinterpret_cast<const std::byte*>(kNumbers.data()));
  EXPECT_EQ(in_order(view_of(rows)), kNumbers);
  EXPECT_EQ(view_of(columns).strides(), (Strides{4, 8}));
  EXPECT_EQ(in_order(view_of(columns)), (std::vector<float>{0, 2, 4, 1, 3, 5}));
}

TEST(MdspanView, WritesWhereItMay) {
  std::vector<float> memory(6);
  const spans::mdspan<float, Any> span(memory.data(), 2, 3);

  copy(two_by_three(), mutable_view_of(span));

  EXPECT_EQ(memory, kNumbers);
}

TEST(MdspanArray, KeepsTheOwnerOfItsElements) {
  const auto owner = std::make_shared<std::vector<float>>(kNumbers);
  const Array changeable = array_of(spans::mdspan<float, Any>(owner->data(), 2, 3), owner);
  const Array constant = array_of(Rows(owner->data(), 2, 3), owner);

  EXPECT_EQ(owner.use_count(), 3);
  EXPECT_TRUE(changeable.is_mutable());
  EXPECT_FALSE(constant.is_mutable());
  EXPECT_THAT([] { static_cast<void>(array_of(Rows(kNumbers.data(), 2, 3), nullptr)); },
              Fails(Errc::invalid_argument));
}

TEST(MdspanOfAnArray, HasTheStridesOfTheArray) {
  const auto rows = span_as<Rows>(two_by_three());
  const auto columns = span_as<Columns>(two_by_three().transposed());
  const auto strided = span_as<Strided>(two_by_three().part(Box({0, 1}, {2, 2})));

  EXPECT_EQ(rows.data_handle(), kNumbers.data());
  EXPECT_EQ(at(rows, 1, 2), 5.0F);
  EXPECT_EQ(columns.extent(0), 3u);
  EXPECT_EQ(at(columns, 2, 1), 5.0F);
  EXPECT_EQ(at(strided, 1, 0), 4.0F);
  EXPECT_EQ(at(strided, 0, 1), 2.0F);
}

TEST(MdspanOfAnArray, WritesThroughAMutableView) {
  std::vector<float> memory(6);

  const auto span = mutable_span_as<spans::mdspan<float, spans::extents<int, 2, 3>>>(
      MutableArrayView(memory.data(), {2, 3}, DType::float32));
  span.data_handle()[span.mapping()(1, 2)] = 7;

  EXPECT_EQ(memory[5], 7.0F);
}

template <class S>
auto viewing(const ArrayView& array) {
  return [array] { static_cast<void>(span_as<S>(array)); };
}

TEST(MdspanOfAnArray, SaysWhichLayoutItCannotView) {
  using Doubles = spans::mdspan<const double, Any>;
  using Line = spans::mdspan<const float, spans::dextents<std::size_t, 1>, spans::layout_stride>;
  using Fixed = spans::mdspan<const float, spans::extents<std::size_t, 2, 4>>;
  using Narrow = spans::mdspan<const float, spans::dextents<signed char, 1>>;
  const std::vector<float> many(200);

  EXPECT_THAT(viewing<Doubles>(two_by_three()), Fails(Errc::dtype_mismatch, HasSubstr("F64")));
  EXPECT_THAT(viewing<Line>(two_by_three()), Fails(Errc::shape_mismatch, HasSubstr("rank 1")));
  EXPECT_THAT(viewing<Fixed>(two_by_three()),
              Fails(Errc::shape_mismatch, AllOf(HasSubstr("[2, 4]"), HasSubstr("[2, 3]"))));
  EXPECT_THAT(viewing<Narrow>(many), Fails(Errc::shape_mismatch, HasSubstr("narrow index type")));
  EXPECT_THAT(viewing<Columns>(two_by_three()),
              Fails(Errc::invalid_argument, AllOf(HasSubstr("layout_stride"), HasSubstr("[12, 4]"))));
  EXPECT_THAT(viewing<Line>(ArrayView(&kNumbers[5], {6}, DType::float32, Strides{-4})),
              Fails(Errc::invalid_argument, AllOf(HasSubstr("positive"), HasSubstr("[-4]"))));
  EXPECT_THAT(viewing<Line>(ArrayView(kNumbers.data(), {2}, DType::float32, Strides{6})),
              Fails(Errc::invalid_argument, HasSubstr("4 bytes")));
}

}  // namespace
}  // namespace cairn::interop
