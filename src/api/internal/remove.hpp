// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "cairn/api/maintain.hpp"

#include "store/internal/remove_checkpoint.hpp"

namespace cairn::api {

/// As remove_checkpoint, for who knows what lies beside the checkpoint; `trash` learns what was renamed away and is
/// not removed yet, also after the call has come back.
store::RemovalReport remove_into(const std::filesystem::path& path, const RemoveOptions& options,
                                 const Context& context, std::shared_ptr<store::Trash> trash,
                                 store::Surroundings surroundings);

}  // namespace cairn::api
