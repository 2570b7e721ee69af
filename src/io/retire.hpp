// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cairn/io/file.hpp"
#include "cairn/io/uuid.hpp"

namespace cairn::io {

/// Removes `directory`, which `parent` calls `name`, in an order that a crash may interrupt anywhere.
///
/// 1. A name that is not reserved gives way to `.trash-…`: a half-removed checkpoint must not bear the name of one.
/// 2. The parent is synced, or a power cut could bring that name back. When this fails, nothing is removed.
/// 3. What is in the directory is removed; what proves that it is ours goes last, for recovery.
/// The caller has looked at `directory` and knows that it is ours. Whatever somebody puts in the place of its
/// name meanwhile keeps its contents.
/// Errors: OS errors pass through.
void retire(const Directory& parent, const std::string& name, const Directory& directory,
            const RandomSource& random);

/// Whether `parent` is seen to have `directory` under that name. False says nothing: it may not have been seen.
[[nodiscard]] bool is_called(const Directory& parent, const std::string& name,
                             const Directory& directory) noexcept;

}  // namespace cairn::io
