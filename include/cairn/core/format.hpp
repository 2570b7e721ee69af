// SPDX-License-Identifier: Apache-2.0
#pragma once

// Lets {fmt} print what saves and loads did. A header of its own: nothing else in this module needs {fmt}.

#include <string_view>

#include <fmt/core.h>

#include "cairn/observe/report.hpp"

template <>
struct fmt::formatter<cairn::SaveResult> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const cairn::SaveResult& result, Context& context) const {
    using Text = fmt::formatter<std::string_view, typename Context::char_type>;
    return Text::format(cairn::to_text(result), context);
  }
};

template <>
struct fmt::formatter<cairn::LoadResult> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const cairn::LoadResult& result, Context& context) const {
    using Text = fmt::formatter<std::string_view, typename Context::char_type>;
    return Text::format(cairn::to_text(result), context);
  }
};
