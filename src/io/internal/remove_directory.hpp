// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "cairn/base/error.hpp"

#include "io/internal/file.hpp"

namespace cairn::io {

/// Calls `remove`; what somebody else has removed meanwhile is as good as removed here.
template <class Remove>
void remove_if_there(Remove remove) {
  try {
    remove();
  } catch (const Error& error) {
    if (error.code() != std::errc::no_such_file_or_directory) {
      throw;
    }
  }
}

/// Removes the file `name` of `directory`, in one way or another; what is missing is an error.
using RemoveFile = std::function<void(const Directory& directory, const std::string& name)>;

/// Removes `directory`, which `parent` calls `name`: all beneath it, wherever its name has gone to meanwhile,
/// and then the name, if that is a directory with nothing in it. Links are removed, never followed. What is
/// called `last` directly below it goes last, in that order. What is gone already is not an error. Files are removed by
/// `remove`; without one they are unlinked.
void remove_directory(const Directory& parent, std::string_view name, const Directory& directory,
                      std::span<const std::string_view> last = {}, const RemoveFile& remove = {});

}  // namespace cairn::io
