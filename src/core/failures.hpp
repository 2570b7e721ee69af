// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/cancellation_state.hpp>

namespace cairn::core {

/// Says what had been asked of a handler when it failed.
enum class Asked : std::uint8_t {
  nothing,
  to_end,   ///< Another handler of the operation has failed.
  to_stop,  ///< The operation was stopped.
};

/// Returns what was asked of a coroutine that has this cancellation state; `is_stopped` is whether its
/// operation was stopped.
[[nodiscard]] Asked asked_of(const boost::asio::cancellation_state& state, bool is_stopped);

/// Throws a failure of a handler with `who` before its text; a cancellation that was asked for as it is, because it
/// is nobody's fault.
///
/// A handler may fail with the verdict of an operation of its own, of another save for example (commit_unknown,
/// timed_out, superseded, cancelled). That is not the verdict of this operation: it becomes Errc::handler_failed with
/// the original nested, or counts as the cancellation that was asked for.
[[noreturn]] void rethrow_of(const std::exception_ptr& failure, std::string_view who, Asked asked);

/// The failure with `problem` in its text; as it is when there is no problem, or it is a cancellation.
std::exception_ptr with_problem(const std::exception_ptr& failure, const std::string& problem);

/// One failure from several: the first that is not a cancellation, with the next few in its text, and how many more
/// there are. There may be as many as checkpointables.
std::exception_ptr combine(const std::vector<std::exception_ptr>& failures);

/// "a, b, c": names for a message; of many only the first, and how many more there are.
std::string listed(std::span<const std::string> names);

}  // namespace cairn::core
