// SPDX-License-Identifier: Apache-2.0
#pragma once

// What clang's thread safety analysis (`-Wthread-safety`) is told: which mutex protects what, and which functions are
// called with it locked. A build by clang asks it, so `tests/run --asan`; other compilers read nothing here.
#ifdef __clang__
#define CAIRN_THREAD_ANNOTATION(attribute) __attribute__((attribute))
#else
#define CAIRN_THREAD_ANNOTATION(attribute)
#endif

/// A type that can be locked.
#define CAIRN_CAPABILITY(name) CAIRN_THREAD_ANNOTATION(capability(name))
/// A type that locks where it is made, and unlocks where it ends.
#define CAIRN_SCOPED_CAPABILITY CAIRN_THREAD_ANNOTATION(scoped_lockable)
/// A variable that is used with `mutex` locked only.
#define CAIRN_GUARDED_BY(mutex) CAIRN_THREAD_ANNOTATION(guarded_by(mutex))
/// A function that is called with `mutex` locked only.
#define CAIRN_REQUIRES(mutex) CAIRN_THREAD_ANNOTATION(requires_capability(mutex))
/// A function that is not called with `mutex` locked.
#define CAIRN_EXCLUDES(mutex) CAIRN_THREAD_ANNOTATION(locks_excluded(mutex))
/// Functions that lock and unlock.
#define CAIRN_ACQUIRE(...) CAIRN_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define CAIRN_RELEASE(...) CAIRN_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
/// A function that the analysis cannot follow; the comment above it says why it is right.
#define CAIRN_UNCHECKED_LOCKS CAIRN_THREAD_ANNOTATION(no_thread_safety_analysis)
