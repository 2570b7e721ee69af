// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cairn::testing {

// g++ and clang say it in different words.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CAIRN_TEST_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAIRN_TEST_SANITIZED
#endif
#if defined(__SANITIZE_THREAD__)
#define CAIRN_TEST_THREAD_SANITIZED
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CAIRN_TEST_THREAD_SANITIZED
#endif
#endif

/// Whether the program runs under AddressSanitizer or ThreadSanitizer, which have memory and threads of their own.
#if defined(CAIRN_TEST_SANITIZED)
inline constexpr bool kHasSanitizer = true;
#else
inline constexpr bool kHasSanitizer = false;
#endif

/// True under ThreadSanitizer: maps of protobuf then have members that its library does not know of.
#if defined(CAIRN_TEST_THREAD_SANITIZED)
inline constexpr bool kHasThreadSanitizer = true;
#else
inline constexpr bool kHasThreadSanitizer = false;
#endif

}  // namespace cairn::testing
