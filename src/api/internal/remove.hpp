// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cairn/api/maintain.hpp"

#include "store/internal/remove_checkpoint.hpp"

namespace cairn::api {

/// As cairn::remove_checkpoint, for who knows what lies beside the checkpoint.
store::RemovalReport remove_checkpoint(const std::filesystem::path& path, const RemoveOptions& options,
                                       const Context& context, store::Surroundings surroundings);

}  // namespace cairn::api
