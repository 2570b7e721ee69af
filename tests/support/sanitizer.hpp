// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cairn::testing {

/// Whether the program runs under AddressSanitizer or ThreadSanitizer, which have memory and threads of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kHasSanitizer = true;
#else
inline constexpr bool kHasSanitizer = false;
#endif

}  // namespace cairn::testing
