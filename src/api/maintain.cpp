// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/maintain.hpp"

namespace cairn {

store::RecoveryReport recover(const std::filesystem::path& root, const RecoverOptions& options) {
  return recover(root, options, default_context());
}

Awaitable<store::RecoveryReport> recover_async(const std::filesystem::path& root,
                                               const RecoverOptions& options) {
  return recover_async(root, options, default_context());
}

store::VerifyReport verify(const std::filesystem::path& path, const VerifyOptions& options) {
  return verify(path, options, default_context());
}

store::RemovalReport remove_checkpoint(const std::filesystem::path& path, const Context& context) {
  return remove_checkpoint(path, RemoveOptions(), context);
}

store::RemovalReport remove_checkpoint(const std::filesystem::path& path, const RemoveOptions& options) {
  return remove_checkpoint(path, options, default_context());
}

}  // namespace cairn
