// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string_view>

#include "io/internal/file.hpp"

namespace cairn::training {

/// Where pins lie in a root: an empty file for each, which is called as the number of its step. So processes that pin
/// at the same time do not disturb each other, and nothing can be half written.
inline constexpr std::string_view kPinsName = ".cairn-pins";

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
