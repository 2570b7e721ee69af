// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

#include "digits/training_state.hpp"

namespace digits {

/// Writes all that was trained byte by byte, so that two runs can be compared without Cairn. `history` comes
/// last.
///
/// Errors: std::runtime_error.
void write_final(const TrainingState& state, std::string_view history, const std::filesystem::path& path);

}  // namespace digits
