// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "faults/injector.hpp"
#include "io/internal/syscalls.hpp"

namespace cairn::faults {

/// What a twist answers for a write to say that all was written.
inline constexpr std::int64_t kAll = std::int64_t{1} << 62;

/// Gets the kind of a call, its descriptor and its result (-errno when it failed), and returns what the library is
/// told.
using Twist = std::function<std::int64_t(Op op, int fd, std::int64_t result)>;

/// The operating system, whose answers somebody changes before the library gets them: a library that handles errors
/// wrongly.
[[nodiscard]] std::shared_ptr<io::Syscalls> make_mutant(Twist twist);

}  // namespace cairn::faults
