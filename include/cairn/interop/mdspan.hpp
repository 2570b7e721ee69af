// SPDX-License-Identifier: Apache-2.0
#pragma once

// Spans of several dimensions as arrays of Cairn, and the other way round: std::mdspan, the reference implementation
// (std::experimental::mdspan), or another with their interface. This header includes none of them.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cairn/array/array.hpp"
#include "cairn/array/array_view.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/interop/strided.hpp"

namespace cairn::interop {

/// A span of several dimensions, whose elements lie in plain memory at fixed distances.
template <class S>
concept StridedMdspan = requires(const S& span) {
  typename S::mapping_type;
  typename S::extents_type;
  typename S::index_type;
  requires ArrayElement<typename S::element_type>;
  requires std::same_as<typename S::data_handle_type, typename S::element_type*>;
  requires std::same_as<typename S::reference, typename S::element_type&>;
  { S::rank() } -> std::convertible_to<std::size_t>;
  span.stride(std::size_t{0});
};

/// As StridedMdspan, with elements that may be changed.
template <class S>
concept MutableMdspan = StridedMdspan<S> && !std::is_const_v<typename S::element_type>;

namespace detail {

inline constexpr std::string_view kMdspan = "mdspan";

template <class S>
[[nodiscard]] Shape shape_of_span(const S& span) {
  Shape shape(S::rank(), 0);
  for (std::size_t dimension = 0; dimension < S::rank(); ++dimension) {
    shape[dimension] = static_cast<std::uint64_t>(span.extent(dimension));
  }
  return shape;
}

/// In bytes.
template <class S>
[[nodiscard]] Strides strides_of_span(const S& span) {
  require_strided(span.is_strided(), shape_of_span(span), kMdspan);
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(typename S::element_type));
  Strides strides(S::rank(), 0);
  for (std::size_t dimension = 0; dimension < S::rank(); ++dimension) {
    strides[dimension] = static_cast<std::int64_t>(span.stride(dimension)) * kBytes;
  }
  return strides;
}

template <class S, std::size_t... kDimensions>
[[nodiscard]] typename S::extents_type extents_as(const ArrayView& array,
                                                  std::index_sequence<kDimensions...> /*all*/) {
  using Index = typename S::index_type;
  require_rank(array, S::rank(), kMdspan);
  for (std::size_t dimension = 0; dimension < S::rank(); ++dimension) {
    const std::uint64_t extent = array.shape()[dimension];
    const std::size_t fixed = S::static_extent(dimension);
    if (fixed != static_cast<std::size_t>(-1) && fixed != extent) {
      Shape wanted = array.shape();
      wanted[dimension] = fixed;
      throw_other_extents(array, "shape " + to_string(wanted), kMdspan);
    }
    if (!std::in_range<Index>(extent)) {
      throw_other_extents(array, "a narrow index type", kMdspan);
    }
  }
  return typename S::extents_type(static_cast<Index>(array.shape()[kDimensions])...);
}

/// Errors: Errc::invalid_argument where the layout of the span is another than that of the array.
template <class S>
[[nodiscard]] typename S::mapping_type mapping_as(const ArrayView& array) {
  using Mapping = typename S::mapping_type;
  using Index = typename S::index_type;
  using Element = typename S::element_type;
  const Strides strides = element_strides(array, dtype_of<Element>(), alignof(Element), kMdspan);
  const auto extents = extents_as<S>(array, std::make_index_sequence<S::rank()>());
  for (std::size_t dimension = 0; dimension < S::rank(); ++dimension) {
    if (strides[dimension] < 1 || !std::in_range<Index>(strides[dimension])) {
      throw_other_strides(array, "it supports positive strides that fit its index type only", kMdspan);
    }
  }
  if constexpr (requires(const Mapping& mapping) { Mapping(extents, mapping.strides()); }) {
    std::remove_cvref_t<decltype(std::declval<const Mapping&>().strides())> distances{};
    for (std::size_t dimension = 0; dimension < S::rank(); ++dimension) {
      distances[dimension] = static_cast<Index>(strides[dimension]);
    }
    return Mapping(extents, distances);
  } else {
    const Mapping mapping(extents);
    for (std::size_t dimension = 0; dimension < S::rank(); ++dimension) {
      if (array.element_count() > 0 && array.shape()[dimension] > 1 &&
          static_cast<std::int64_t>(mapping.stride(dimension)) != strides[dimension]) {
        throw_other_strides(array, "its layout does not support them; layout_stride does", kMdspan);
      }
    }
    return mapping;
  }
}

}  // namespace detail

/// The elements of a span, of any layout with strides, as an array. Nothing is copied.
///
/// Ownership: the elements must stay valid as long as the view is used.
/// Errors:    Errc::invalid_argument when the layout is not strided.
/// Example:   std::mdspan w(data, 3, 4);
///            cairn::save("run/1", {{"w", cairn::Array::borrow(cairn::interop::view_of(w))}});
template <StridedMdspan S>
[[nodiscard]] ArrayView view_of(const S& span) {
  return {span.data_handle(), detail::shape_of_span(span), dtype_of<typename S::element_type>(),
          detail::strides_of_span(span)};
}

/// As view_of, for elements that may be changed: for `into`, `load_into` and `place_into`.
template <MutableMdspan S>
[[nodiscard]] MutableArrayView mutable_view_of(const S& span) {
  return {span.data_handle(), detail::shape_of_span(span), dtype_of<typename S::element_type>(),
          detail::strides_of_span(span)};
}

/// The elements of a span as an array that keeps their owner.
///
/// Errors: as view_of; Errc::invalid_argument when `owner` is null.
template <StridedMdspan S>
[[nodiscard]] Array array_of(const S& span, std::shared_ptr<const void> owner) {
  if constexpr (MutableMdspan<S>) {
    return Array::share(mutable_view_of(span), std::move(owner));
  } else {
    return Array::share(view_of(span), std::move(owner));
  }
}

/// An array as a span of type `S`, whose elements are const. Nothing is copied.
///
/// Ownership: the elements must stay valid as long as the span is used.
/// Errors:    Errc::dtype_mismatch; Errc::shape_mismatch when the rank or an extent that `S` fixes is another, or its
///            index type too narrow; Errc::invalid_argument when the memory is not the host's or not aligned for the
///            element, or the strides are not those of the layout of `S` (layout_stride has all that are positive
///            multiples of an element).
template <StridedMdspan S>

requires(!MutableMdspan<S>) [[nodiscard]] S span_as(const ArrayView& array) {
  return S(reinterpret_cast<typename S::element_type*>(array.data()), detail::mapping_as<S>(array));
}

/// As span_as, for elements that may be changed.
template <MutableMdspan S>
[[nodiscard]] S mutable_span_as(const MutableArrayView& array) {
  return S(reinterpret_cast<typename S::element_type*>(array.data()), detail::mapping_as<S>(array));
}

}  // namespace cairn::interop
