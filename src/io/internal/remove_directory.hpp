// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "cairn/io/file.hpp"

namespace cairn::io {

/// Removes `directory`, which `parent` calls `name`: all beneath it, wherever its name has gone to meanwhile,
/// and then the name, if that is a directory with nothing in it. Links are removed, never followed. What is
/// called `last` directly below it goes last, in that order. What is gone already is no error.
void remove_directory(const Directory& parent, std::string_view name, const Directory& directory,
                      std::span<const std::string_view> last = {});

}  // namespace cairn::io
