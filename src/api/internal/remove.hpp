// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "cairn/api/maintain.hpp"

namespace cairn::store {
class Trash;
}

namespace cairn::api {

/// As remove_checkpoint; `trash` learns what was renamed away and is not removed yet, also after the call has come back.
store::RemovalReport remove_into(const std::filesystem::path& path, const RemoveOptions& options,
                                 const Context& context, std::shared_ptr<store::Trash> trash);

}  // namespace cairn::api
