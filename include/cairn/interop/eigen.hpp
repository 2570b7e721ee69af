// SPDX-License-Identifier: Apache-2.0
#pragma once

// Eigen's vectors, matrices and arrays as arrays of Cairn, and the other way round. Empty where Eigen is not
// installed; nothing else of Cairn needs it.

#if __has_include(<Eigen/Core>)

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <Eigen/Core>

#include "cairn/array/array.hpp"
#include "cairn/array/array_view.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/interop/strided.hpp"

namespace cairn::interop {

/// What lies in memory at fixed distances: a matrix, a Map, a Ref, a block of them; not a sum, which is computed.
template <class D>
concept EigenInMemory =
    (static_cast<int>(D::Flags) & Eigen::DirectAccessBit) != 0 && ArrayElement<typename D::Scalar>;

/// A matrix, a vector or an array that has its elements itself.
template <class M>
concept EigenOwning = std::is_base_of_v<Eigen::PlainObjectBase<M>, M> && EigenInMemory<M>;

namespace detail {

template <class D>
[[nodiscard]] Shape shape_of(const D& dense) {
  const auto rows = static_cast<std::uint64_t>(dense.rows());
  const auto columns = static_cast<std::uint64_t>(dense.cols());
  return D::IsVectorAtCompileTime ? Shape{rows * columns} : Shape{rows, columns};
}

/// In bytes.
template <class D>
[[nodiscard]] Strides strides_of(const D& dense) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(typename D::Scalar));
  if constexpr (D::IsVectorAtCompileTime) {
    return {dense.innerStride() * kBytes};
  } else {
    return {dense.rowStride() * kBytes, dense.colStride() * kBytes};
  }
}

/// Where the elements of an array lie for Eigen: rows, columns, and the distances that Eigen::Stride takes.
struct EigenLayout {
  Eigen::Index rows = 0;
  Eigen::Index columns = 0;
  Eigen::Index outer = 1;
  Eigen::Index inner = 1;
};

[[nodiscard]] inline std::string extent_text(Eigen::Index fixed) {
  return fixed == Eigen::Dynamic ? "n" : std::to_string(fixed);
}

template <class M>
[[nodiscard]] EigenLayout layout_as(const ArrayView& array) {
  constexpr const char* kViewer = "Eigen::Map";
  constexpr bool kIsVector = M::IsVectorAtCompileTime;
  constexpr bool kIsRow = kIsVector && M::RowsAtCompileTime == 1;
  using Scalar = typename M::Scalar;
  const Strides strides = element_strides(array, dtype_of<Scalar>(), alignof(Scalar), kViewer);
  require_rank(array, kIsVector ? 1 : 2, kViewer);
  for (std::size_t dimension = 0; dimension < strides.size(); ++dimension) {
    if (strides[dimension] < 0) {
      throw_other_strides(array, "it does not support negative strides", kViewer);
    }
  }
  EigenLayout layout;
  const auto first = static_cast<Eigen::Index>(array.shape()[0]);
  if constexpr (kIsVector) {
    layout.rows = kIsRow ? 1 : first;
    layout.columns = kIsRow ? first : 1;
    layout.inner = strides[0];
  } else {
    layout.rows = first;
    layout.columns = static_cast<Eigen::Index>(array.shape()[1]);
    layout.inner = strides[M::IsRowMajor ? 1 : 0];
    layout.outer = strides[M::IsRowMajor ? 0 : 1];
  }
  const auto fits = [](Eigen::Index extent, Eigen::Index fixed, Eigen::Index most) {
    return (fixed == Eigen::Dynamic || extent == fixed) && (most == Eigen::Dynamic || extent <= most);
  };
  if (!fits(layout.rows, M::RowsAtCompileTime, M::MaxRowsAtCompileTime) ||
      !fits(layout.columns, M::ColsAtCompileTime, M::MaxColsAtCompileTime)) {
    throw_other_extents(
        array, extent_text(M::MaxRowsAtCompileTime) + " x " + extent_text(M::MaxColsAtCompileTime), kViewer);
  }
  return layout;
}

}  // namespace detail

using EigenStride = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;

/// The elements of a matrix, a Map, a Ref or a block, row or column major, as an array: of rank 1 for what is a
/// vector by its type, else of rank 2. Nothing is copied.
///
/// Ownership: the elements must stay valid and in place as long as the view is used; a matrix that is resized moves
///            them.
/// Example:   const Eigen::MatrixXd w = …;
///            cairn::save("run/1", {{"w", cairn::Array::borrow(cairn::interop::view_of(w))}});
template <class D>

requires EigenInMemory<D>
[[nodiscard]] ArrayView view_of(const Eigen::DenseBase<D>& dense) {
  const D& it = dense.derived();
  return {it.data(), detail::shape_of(it), dtype_of<typename D::Scalar>(), detail::strides_of(it)};
}

/// The elements of a temporary matrix would be gone.
template <class D>
ArrayView view_of(const Eigen::PlainObjectBase<D>&& dense) = delete;

/// As view_of, for elements that may be changed: for `into`, `load_into` and `place_into`, which keep the extents.
///
/// Example: Eigen::MatrixXd w(3, 4);  cairn::MutableArrayView view = cairn::interop::mutable_view_of(w);
///          cairn::load_into("run/w", view);
template <class D>

requires(EigenInMemory<D> && (static_cast<int>(D::Flags) & Eigen::LvalueBit) != 0)
    [[nodiscard]] MutableArrayView mutable_view_of(Eigen::DenseBase<D>& dense) {
  D& it = dense.derived();
  return {it.data(), detail::shape_of(it), dtype_of<typename D::Scalar>(), detail::strides_of(it)};
}

/// Takes over a matrix that is moved from, as an array that owns it; the elements of one of dynamic size are not
/// copied.
template <EigenOwning M>
[[nodiscard]] Array array_of(M&& matrix) {
  auto owner = std::make_shared<M>(std::move(matrix));
  MutableArrayView view = mutable_view_of(*owner);
  return Array::share(std::move(view), std::move(owner));
}

/// An array as Eigen sees it, with strides of its own: `M` is a matrix, vector or array type of its element type.
/// Nothing is copied.
///
/// Ownership: the elements must stay valid as long as the map is used.
/// Errors:    Errc::dtype_mismatch; Errc::shape_mismatch when the rank (vectors: 1, else 2) or an extent that `M`
///            fixes is another; Errc::invalid_argument when the memory is not the host's or not aligned for the
///            element, or when a stride is negative or not a multiple of an element: Eigen has no such.
/// Example:   const auto w = cairn::interop::map_as<Eigen::MatrixXd>(state["w"].as<cairn::Array>().view());
template <EigenOwning M>
[[nodiscard]] Eigen::Map<const M, Eigen::Unaligned, EigenStride> map_as(const ArrayView& array) {
  const detail::EigenLayout at = detail::layout_as<M>(array);
  return {reinterpret_cast<const typename M::Scalar*>(array.data()), at.rows, at.columns,
          EigenStride(at.outer, at.inner)};
}

/// As map_as, for elements that may be changed.
template <EigenOwning M>
[[nodiscard]] Eigen::Map<M, Eigen::Unaligned, EigenStride> mutable_map_as(const MutableArrayView& array) {
  const detail::EigenLayout at = detail::layout_as<M>(array);
  return {reinterpret_cast<typename M::Scalar*>(array.data()), at.rows, at.columns,
          EigenStride(at.outer, at.inner)};
}

/// A matrix of its own with the elements of an array.
///
/// Errors: as map_as.
template <EigenOwning M>
[[nodiscard]] M copy_as(const ArrayView& array) {
  return map_as<M>(array);
}

}  // namespace cairn::interop

#endif
