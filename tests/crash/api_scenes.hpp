// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "crash/scenes.hpp"

namespace cairn::crash {

/// Saves of a tree and a JSON value by `save_checkpointables`, with the library's own threads; by one process and by
/// several ranks.
[[nodiscard]] std::vector<Scene> api_scenes();

}  // namespace cairn::crash
