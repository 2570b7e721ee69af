// SPDX-License-Identifier: Apache-2.0
#pragma once

// Lets {fmt} print dtypes, shapes and strides. A header of its own: nothing else in this module needs {fmt}.

#include <string>
#include <string_view>
#include <type_traits>

#include <fmt/core.h>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"

// For programs that include fmt/ranges.h: dimensions are printed as one thing, and not as a range.
FMT_BEGIN_NAMESPACE
template <typename T, typename Char>
struct is_range;

template <class T, class Char>
struct is_range<cairn::Dimensions<T>, Char> : std::false_type {};
FMT_END_NAMESPACE

template <>
struct fmt::formatter<cairn::DType> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(cairn::DType dtype, Context& context) const {
    using Text = fmt::formatter<std::string_view, typename Context::char_type>;
    return Text::format(cairn::name(dtype), context);
  }
};

template <class T>
struct fmt::formatter<cairn::Dimensions<T>> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const cairn::Dimensions<T>& dimensions, Context& context) const {
    using Text = fmt::formatter<std::string_view, typename Context::char_type>;
    return Text::format(cairn::to_string(dimensions), context);
  }
};
