// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/remove.hpp"

#include "cairn/io/syscalls.hpp"

namespace cairn {

io::RemovalReport remove_checkpoint(const std::filesystem::path& path, const Context& context) {
  const ContextOptions& options = context.options();
  return io::remove_checkpoint(options.syscalls != nullptr ? *options.syscalls : io::posix_syscalls(), path,
                               options.random);
}

}  // namespace cairn
