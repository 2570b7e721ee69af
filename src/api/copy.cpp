// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/copy.hpp"

#include "core/internal/start.hpp"

namespace cairn {
namespace {

SaveOptions of_save(const CopyOptions& options) {
  SaveOptions how;
  how.overwrite = options.overwrite;
  how.create_parents = options.create_parents;
  how.deadline = options.deadline;
  how.trace = options.trace;
  return how;
}

}  // namespace

SaveResult copy_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to,
                           const CopyOptions& options, const Context& context) {
  return core::start_copy(from, to, of_save(options), context, core::Waiting::for_the_end).wait();
}

AsyncResponse copy_checkpoint_async(const std::filesystem::path& from, const std::filesystem::path& to,
                                    const CopyOptions& options, const Context& context) {
  return core::start_copy(from, to, of_save(options), context, core::Waiting::for_staged);
}

}  // namespace cairn
