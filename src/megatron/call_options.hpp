// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/coord/session.hpp"
#include "cairn/megatron/state_dict.hpp"

#include "megatron/prepare.hpp"

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

/// As `prepare`, in a save or a load. What is wrong with the dict of a rank, or was before the call, is the same error
/// on all ranks, which names that rank. `Context` is that of the save or load.
template <class Context>
PreparedDict prepare_on_rank(const Context& context, const StateDict& dict, Purpose purpose) {
  try {
    if (const auto* failed = context.template option<FailedBefore>()) {
      *failed->was_thrown = true;
      std::rethrow_exception(failed->why);
    }
    return prepare(dict, purpose);
  } catch (const Error& error) {
    const std::optional<coord::Channel> ranks = context.channel("dict");
    if (ranks && error.code().category() == cairn_category()) {
      ranks->refuse_together(Error(
          error.code(), fmt::format("'{}': rank {}: {}", context.name(), ranks->rank(), error.detail())));
    }
    throw;
  }
}

}  // namespace cairn::megatron::detail
