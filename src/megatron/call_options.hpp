// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>

#include "cairn/base/error.hpp"
#include "cairn/megatron/state_dict.hpp"

#include "megatron/prepare.hpp"
#include "megatron/rank_failure.hpp"

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

/// A dict that is prepared, or what is wrong with it.
struct DictOfRank {
  PreparedDict prepared;
  std::optional<RankFailure> failure;
};

/// As `prepare`, in a save or a load. Where there are ranks, what is wrong with the dict, or was before the call, is
/// not thrown: they have yet to hear of it. `Context` is that of the save or load.
template <class Context>
DictOfRank prepare_on_rank(const Context& context, const StateDict& dict, Purpose purpose) {
  try {
    if (const auto* failed = context.template option<FailedBefore>()) {
      *failed->was_thrown = true;
      std::rethrow_exception(failed->why);
    }
    return {prepare(dict, purpose), std::nullopt};
  } catch (const Error& error) {
    if (!context.channel("dict") || error.code().category() != cairn_category()) {
      throw;
    }
    const auto rank = static_cast<std::uint32_t>(context.coordinator().rank());
    return {{}, RankFailure{rank, error.code(), error.detail()}};
  }
}

}  // namespace cairn::megatron::detail
