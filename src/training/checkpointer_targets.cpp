// SPDX-License-Identifier: Apache-2.0
// What stands where a step is to be saved.
#include <system_error>

#include <filesystem>

#include "training/checkpointer_state.hpp"

namespace cairn {

/// Whether something has the name of a step, be it a step or what is left of one.
bool Checkpointer::State::is_on_disk(std::uint64_t step) const {
  std::error_code unknown;  // Then it may be there.
  return std::filesystem::exists(directory.path(step), unknown) || unknown ||
         std::filesystem::exists(directory.entry(step), unknown) || unknown;
}

}  // namespace cairn
