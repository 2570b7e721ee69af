// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "cairn/cairn.hpp"

namespace cairn::kill {

inline Context make_context(std::string_view engine) {
  ContextOptions options;
  options.engine = engine == "threads" ? io::EngineKind::threads : io::EngineKind::automatic;
  options.staging_bytes = std::size_t{64} << 20;
  return Context(std::move(options));
}

/// One write for each line, and no buffer: what has been said has been said.
inline void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    std::_Exit(3);
  }
}

}  // namespace cairn::kill
