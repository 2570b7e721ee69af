// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include <cairn/core/context.hpp>
#include <cairn/observe/report.hpp>

namespace digits {

// The checkpoints of one training, each called after its step, in one folder.

/// Removes what killed runs have left there; returns how much that was.
std::size_t clean(const std::filesystem::path& root, const cairn::Context& context);

/// "blocking_us=… durable_us=… bytes=… files=… engine=…"
std::string facts_of(const cairn::SaveResult& result);

}  // namespace digits
