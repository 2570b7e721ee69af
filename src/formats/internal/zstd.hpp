// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::formats {

/// Returns whether this build reads zstd.
[[nodiscard]] bool can_read_zstd() noexcept;

/// Unpacks a stream of one frame or several. `name` is used in errors only.
///
/// Errors: Errc::malformed_metadata when it is not one, or gives more than `most_bytes`; Errc::feature_missing, naming
///         the package, where can_read_zstd() is false.
[[nodiscard]] std::vector<std::byte> unpack_zstd(std::span<const std::byte> packed, std::uint64_t most_bytes,
                                                 std::string_view name);

}  // namespace cairn::formats
