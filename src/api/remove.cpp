// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/remove.hpp"

#include "cairn/io/remove_checkpoint.hpp"
#include "cairn/io/syscalls.hpp"

namespace cairn {

void remove_checkpoint(const std::filesystem::path& path, const Context& context) {
  const ContextOptions& options = context.options();
  io::remove_checkpoint(options.syscalls != nullptr ? *options.syscalls : io::posix_syscalls(), path,
                        options.random);
}

}  // namespace cairn
