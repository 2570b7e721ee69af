// SPDX-License-Identifier: Apache-2.0
#include "cairn/interop/eigen.hpp"

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <Eigen/Core>

#include "api/fixture.hpp"

namespace cairn::interop {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class M>
concept Viewable = requires(M&& matrix) {
  view_of(std::forward<M>(matrix));
};

static_assert(Viewable<Eigen::MatrixXf&> && Viewable<const Eigen::MatrixXf&> &&
              Viewable<Eigen::Map<Eigen::MatrixXf>>);
static_assert(!Viewable<Eigen::MatrixXf>, "its elements would be gone");
static_assert(Viewable<Eigen::MatrixXcf&> && Viewable<Eigen::MatrixXcd&>);
static_assert(!Viewable<Eigen::Matrix<long double, 2, 2>&>, "no dtype is like it");
static_assert(!Viewable<decltype(std::declval<Eigen::MatrixXf&>() + std::declval<Eigen::MatrixXf&>())>);

/// 0, 1, 2, … in row-major order.
template <class M>
M counted(Eigen::Index rows, Eigen::Index columns) {
  M matrix(rows, columns);
  for (Eigen::Index i = 0; i < matrix.size(); ++i) {
    matrix(i / columns, i % columns) = static_cast<typename M::Scalar>(i);
  }
  return matrix;
}

/// The elements in row-major order, as a checkpoint has them.
std::vector<float> elements(const ArrayView& view) {
  const Array copy = Array::copy_of(view);
  const auto values = copy.data<const float>();
  return {values.begin(), values.end()};
}

const std::vector<float> kSix = {0, 1, 2, 3, 4, 5};

TEST(EigenView, HasTheElementsOfMatricesOfBothOrders) {
  const auto columns = counted<Eigen::MatrixXf>(2, 3);
  const auto rows = counted<RowMajor>(2, 3);

  EXPECT_EQ(view_of(columns).shape(), (Shape{2, 3}));
  EXPECT_EQ(view_of(columns).strides(), (Strides{4, 8}));
  EXPECT_FALSE(view_of(columns).is_contiguous());
  EXPECT_TRUE(view_of(rows).is_contiguous());
  EXPECT_EQ(view_of(rows).data(), reinterpret_cast<const std::byte*>(rows.data()));
  EXPECT_EQ(elements(view_of(columns)), kSix);
  EXPECT_EQ(elements(view_of(rows)), kSix);
}

TEST(EigenView, OfAVectorHasRankOne) {
  const Eigen::VectorXf column = counted<Eigen::VectorXf>(6, 1);
  const Eigen::RowVectorXf row = counted<Eigen::RowVectorXf>(1, 6);

  EXPECT_EQ(view_of(column).shape(), (Shape{6}));
  EXPECT_EQ(view_of(row).shape(), (Shape{6}));
  EXPECT_EQ(elements(view_of(column)), kSix);
  EXPECT_EQ(elements(view_of(row)), kSix);
}

TEST(EigenView, OfABlockHasItsStrides) {
  auto matrix = counted<RowMajor>(4, 3);

  EXPECT_EQ(elements(view_of(matrix.block(1, 1, 2, 2))), (std::vector<float>{4, 5, 7, 8}));
  EXPECT_EQ(elements(view_of(matrix.col(2))), (std::vector<float>{2, 5, 8, 11}));
  EXPECT_EQ(elements(view_of(matrix.row(1))), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(elements(view_of(matrix.transpose().topRows(1))), (std::vector<float>{0, 3, 6, 9}));
}

TEST(EigenView, WritesWhereItMay) {
  Eigen::MatrixXf matrix = Eigen::MatrixXf::Zero(2, 3);

  copy(ArrayView(kSix.data(), {2, 3}, DType::float32), mutable_view_of(matrix));

  EXPECT_EQ(matrix, counted<Eigen::MatrixXf>(2, 3));
}

TEST(EigenArray, OwnsAMatrixWithoutACopy) {
  auto matrix = counted<Eigen::MatrixXf>(2, 3);
  const void* where = matrix.data();

  const Array array = array_of(std::move(matrix));

  EXPECT_EQ(array.view().data(), where);
  EXPECT_TRUE(array.owner());
  EXPECT_TRUE(array.is_mutable());
  EXPECT_EQ(elements(array.view()), kSix);
}

TEST(EigenMap, SeesArraysOfAnyOrderAsMatricesOfAnyOrder) {
  const ArrayView rows(kSix.data(), {2, 3}, DType::float32);

  EXPECT_EQ(map_as<Eigen::MatrixXf>(rows), counted<Eigen::MatrixXf>(2, 3));
  EXPECT_EQ(map_as<RowMajor>(rows), counted<Eigen::MatrixXf>(2, 3));
  EXPECT_EQ(map_as<Eigen::MatrixXf>(rows.transposed()), counted<Eigen::MatrixXf>(2, 3).transpose());
  EXPECT_EQ((map_as<Eigen::Matrix<float, 2, 3>>(rows)), counted<Eigen::MatrixXf>(2, 3));
  EXPECT_EQ((map_as<Eigen::ArrayXXf>(rows)(1, 2)), 5.0F);
  EXPECT_EQ(map_as<Eigen::MatrixXf>(rows).data(), kSix.data());
}

TEST(EigenMap, SeesVectorsAndPartsOfArrays) {
  const ArrayView matrix(kSix.data(), {2, 3}, DType::float32);
  const ArrayView line(kSix.data(), {3}, DType::float32, Strides{8});

  EXPECT_EQ(map_as<Eigen::VectorXf>(line), Eigen::Vector3f(0, 2, 4));
  EXPECT_EQ(map_as<Eigen::RowVectorXf>(line), Eigen::RowVector3f(0, 2, 4));
  EXPECT_EQ(map_as<Eigen::MatrixXf>(matrix.part(Box({0, 1}, {2, 2}))),
            (counted<Eigen::MatrixXf>(2, 3).block(0, 1, 2, 2)));
  EXPECT_EQ(map_as<Eigen::MatrixXf>(ArrayView(nullptr, {0, 3}, DType::float32)).cols(), 3);
}

TEST(EigenMap, WritesThroughAMutableView) {
  std::vector<float> memory(6);

  mutable_map_as<Eigen::MatrixXf>(MutableArrayView(memory.data(), {2, 3}, DType::float32)) =
      counted<Eigen::MatrixXf>(2, 3);

  EXPECT_EQ(memory, kSix);
}

TEST(EigenCopy, HasElementsOfItsOwn) {
  std::vector<float> memory = kSix;

  const auto matrix = copy_as<Eigen::MatrixXf>(ArrayView(memory.data(), {2, 3}, DType::float32));
  memory.assign(6, 0);

  EXPECT_EQ(matrix, counted<Eigen::MatrixXf>(2, 3));
}

template <class M>
auto mapping(const ArrayView& array) {
  return [array] { static_cast<void>(map_as<M>(array)); };
}

TEST(EigenMap, SaysWhichLayoutItCannotView) {
  const ArrayView matrix(kSix.data(), {2, 3}, DType::float32);

  EXPECT_THAT(mapping<Eigen::MatrixXd>(matrix),
              Fails(Errc::dtype_mismatch, AllOf(HasSubstr("F64"), HasSubstr("F32"))));
  EXPECT_THAT(mapping<Eigen::VectorXf>(matrix),
              Fails(Errc::shape_mismatch, AllOf(HasSubstr("rank 1"), HasSubstr("[2, 3]"))));
  EXPECT_THAT(mapping<Eigen::MatrixXf>(kSix),
              Fails(Errc::shape_mismatch, AllOf(HasSubstr("rank 2"), HasSubstr("[6]"))));
  EXPECT_THAT(mapping<Eigen::Matrix3f>(matrix),
              Fails(Errc::shape_mismatch, AllOf(HasSubstr("3 x 3"), HasSubstr("[2, 3]"))));
  EXPECT_THAT(mapping<Eigen::VectorXf>(ArrayView(&kSix[5], {6}, DType::float32, Strides{-4})),
              Fails(Errc::invalid_argument, AllOf(HasSubstr("negative"), HasSubstr("[-4]"))));
  EXPECT_THAT(mapping<Eigen::VectorXf>(ArrayView(kSix.data(), {2}, DType::float32, Strides{6})),
              Fails(Errc::invalid_argument, AllOf(HasSubstr("4 bytes"), HasSubstr("[6]"))));
  EXPECT_THAT(mapping<Eigen::VectorXf>(
                  ArrayView(reinterpret_cast<const std::byte*>(kSix.data()) + 1, {2}, DType::float32)),
              Fails(Errc::invalid_argument, HasSubstr("not aligned to 4 bytes")));
  EXPECT_THAT(
      mapping<Eigen::VectorXf>(ArrayView(kSix.data(), {6}, DType::float32, Device{Device::Kind::cuda, 1})),
      Fails(Errc::invalid_argument, HasSubstr("cuda:1")));
}

class EigenCheckpoint : public cairn::testing::ApiTest {};

TEST_F(EigenCheckpoint, IsLoadedInTheOrderOfWhoeverLoads) {
  const auto saved = counted<Eigen::MatrixXf>(5, 7);
  save(target(), {{"w", Array::borrow(view_of(saved))}}, {}, *context_);

  RowMajor rows(5, 7);
  AbstractTree wanted = metadata(target(), *context_);
  wanted["w"].place_into(mutable_view_of(rows));
  static_cast<void>(load(target(), wanted, {}, *context_));
  const Tree loaded = load(target(), {}, *context_);

  EXPECT_EQ(rows, saved);
  EXPECT_EQ(copy_as<Eigen::MatrixXf>(loaded["w"].as<Array>().view()), saved);
}

TEST_F(EigenCheckpoint, IsLoadedIntoAMatrix) {
  const auto saved = counted<Eigen::MatrixXf>(5, 7);
  save_items({{"state", view_of(saved)}});
  Eigen::MatrixXf loaded(5, 7);
  MutableArrayView view = mutable_view_of(loaded);

  load_into(target(), view, {}, *context_);

  EXPECT_EQ(loaded, saved);
}

}  // namespace
}  // namespace cairn::interop
