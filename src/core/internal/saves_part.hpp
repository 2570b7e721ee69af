// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <utility>

namespace cairn::core {

/// Among the options for handlers of a save: it adds a part to a directory of parts, where no other save may be.
struct SavesPart {
  SavesPart(std::size_t which, std::filesystem::path whose) : number(which), checkpoint(std::move(whose)) {}

  std::size_t number;
  std::filesystem::path checkpoint;  ///< That is put together of the parts.
};

}  // namespace cairn::core
