// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>

#include "io/internal/file.hpp"
#include "store/internal/checkpoint_lock.hpp"

namespace cairn::training {

using store::kPinsName;

/// The steps that are pinned, there or not.
///
/// Errors: OS errors.
[[nodiscard]] std::set<std::uint64_t> read_pins(const io::Directory& root);

/// Errors: OS errors.
[[nodiscard]] bool is_pinned(const io::Directory& root, std::uint64_t step);

/// Returns when the pin is durable. It is not an error when it is there already.
void add_pin(const io::Directory& root, std::uint64_t step);

/// Returns when no power cut can bring it back. None there is no error.
void remove_pin(const io::Directory& root, std::uint64_t step);

}  // namespace cairn::training
