// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::core {

/// Throws a failure with `who` before its text; a cancellation as it is, because it is nobody's fault.
[[noreturn]] void rethrow_of(const std::exception_ptr& failure, std::string_view who);

/// The failure with `problem` in its text; as it is when there is no problem, or it is a cancellation.
std::exception_ptr with_problem(const std::exception_ptr& failure, const std::string& problem);

/// One failure from several: the first that is not a cancellation, with the next few in its text, and how many more
/// there are. There may be as many as checkpointables.
std::exception_ptr combine(const std::vector<std::exception_ptr>& failures);

/// "a, b, c": names for a message; of many only the first, and how many more there are.
std::string listed(std::span<const std::string> names);

}  // namespace cairn::core
