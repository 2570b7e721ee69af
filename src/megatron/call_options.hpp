// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <optional>

#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/coord/session.hpp"

namespace cairn::megatron::detail {

// The entry points tell the handler this, as options of their call.

/// Which parts of a checkpoint are loaded.
struct LoadParts {
  bool has_common = true;
  bool has_sharded = true;
};

/// Something that went wrong on this rank before the call in which all ranks meet: it fails in there, so that nobody
/// waits for it. See throw_failed_before.
struct FailedBefore {
  std::exception_ptr why;
  std::shared_ptr<std::atomic<bool>> was_thrown = std::make_shared<std::atomic<bool>>(false);
};

// `Context` is that of a save or a load.

template <class Context>
void throw_failed_before(const Context& context) {
  if (const auto* failed = context.template option<FailedBefore>()) {
    *failed->was_thrown = true;
    std::rethrow_exception(failed->why);
  }
}

/// Does `work`. Returns what goes wrong in it where there are other ranks, which are to be told the same.
///
/// Errors: in a process alone, those of `work`; anywhere those that only the system has numbers for.
template <class Context, class Work>
std::optional<Error> fault_in(const Context& context, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    const bool has_others = context.coordinator().size() > 1 && context.channel("keys").has_value();
    if (!has_others || error.code().category() != cairn_category()) {
      throw;
    }
    return error;
  }
  return std::nullopt;
}

}  // namespace cairn::megatron::detail
