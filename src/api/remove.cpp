// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/remove.hpp"

namespace cairn {

void remove_checkpoint(const std::filesystem::path& path, const Context& context) {
  remove_checkpoint(path, RemoveOptions(), context);
}

void remove_checkpoint(const std::filesystem::path& path, const RemoveOptions& options) {
  remove_checkpoint(path, options, default_context());
}

}  // namespace cairn
