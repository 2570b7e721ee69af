// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "io/internal/syscalls.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::training {

/// Holds in a root what was set aside, so that nobody takes it for a step: "<name>-<uuid>".
inline constexpr std::string_view kDamagedName = ".cairn-damaged";

/// Moves the checkpoint called `name` there if no save may replace it, as its COMMIT or its manifest is missing;
/// nothing of it is removed. Returns whether it was moved; then that is durable. What is not a damaged checkpoint, or
/// is being written, stays.
///
/// Source: docs/format.md, "Steps of a training".
/// Errors: OS errors.
bool set_damaged_aside(io::Syscalls& syscalls, const std::filesystem::path& root, const std::string& name,
                       const store::RandomSource& random);
/// The same for who replaces nothing: also where a save might replace it.
bool set_any_damaged_aside(io::Syscalls& syscalls, const std::filesystem::path& root, const std::string& name,
                           const store::RandomSource& random);

}  // namespace cairn::training
