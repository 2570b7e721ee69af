// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>
#include <memory>

namespace cairn::megatron::detail {

// What the entry points tell the handler, as options of their call.

/// Which parts of a checkpoint are loaded.
struct LoadParts {
  bool has_common = true;
  bool has_sharded = true;
};

/// Something that went wrong on this rank before the call in which all ranks meet: it fails in there, so that nobody
/// waits for it.
struct FailedBefore {
  std::exception_ptr why;
  std::shared_ptr<std::atomic<bool>> was_thrown = std::make_shared<std::atomic<bool>>(false);
};

/// Throws what went wrong, if something did. `Context` is that of a save or of a load.
template <class Context>
void rethrow_failure(const Context& context) {
  if (const auto* failed = context.template option<FailedBefore>()) {
    *failed->was_thrown = true;
    std::rethrow_exception(failed->why);
  }
}

}  // namespace cairn::megatron::detail
