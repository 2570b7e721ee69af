// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/recover.hpp"
#include "cairn/api/verify.hpp"

namespace cairn {

store::RecoveryReport recover(const std::filesystem::path& root, const RecoverOptions& options) {
  return recover(root, options, default_context());
}

store::VerifyReport verify(const std::filesystem::path& path, const VerifyOptions& options) {
  return verify(path, options, default_context());
}

}  // namespace cairn
