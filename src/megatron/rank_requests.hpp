// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"
#include "cairn/contract/load_context.hpp"
#include "cairn/megatron/abstract_state_dict.hpp"

#include "megatron/prepare.hpp"
#include "megatron/state_files.hpp"

namespace cairn::megatron::detail {

// Ranks that load together tell each other this. All of them call the same, in the same order.

/// Returns when no rank has a fault. `where` is said once in a load.
///
/// Errors: on all ranks with one text, which names them: a fault of the lowest rank that has one.
[[nodiscard]] Awaitable<> share_fault(LoadContext context, const char* where, std::optional<Error> fault);

/// Compares what is asked for with what is stored, as AbstractStateDict::strict says. Returns the keys that this rank
/// asks for and that are left out.
///
/// Ownership: the caller keeps the arguments until it has ended.
/// Errors: on all ranks with one text, Errc::not_found; Errc::invalid_argument where ranks are not strict alike.
[[nodiscard]] Awaitable<std::set<std::string>> settle_keys(LoadContext context,
                                                           const AbstractStateDict& wanted,
                                                           const PreparedDict& prepared,
                                                           const StoredDict& stored);

/// Checks that main replicas ask for each element and each object once. Does nothing where a rank loads alone.
///
/// Ownership: as above.
/// Errors: on all ranks those of a save.
[[nodiscard]] Awaitable<> check_access(LoadContext context, const PreparedDict& prepared);

}  // namespace cairn::megatron::detail
