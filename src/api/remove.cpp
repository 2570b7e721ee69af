// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/remove.hpp"

namespace cairn {

store::RemovalReport remove_checkpoint(const std::filesystem::path& path, const Context& context) {
  return remove_checkpoint(path, RemoveOptions(), context);
}

store::RemovalReport remove_checkpoint(const std::filesystem::path& path, const RemoveOptions& options) {
  return remove_checkpoint(path, options, default_context());
}

}  // namespace cairn
