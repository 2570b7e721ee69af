// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace cairn::formats {

/// So many bytes tell what a file is: a tar archive has its mark at 257.
inline constexpr std::size_t kTellingBytes = 264;

/// What is said of an .npz, which is an archive as those of torch.save are.
inline constexpr std::string_view kNpzIsNotRead =
    "it is an .npz of numpy, which is not read yet; export it as safetensors";

/// Returns what a file is by its first bytes, where it should be something else, and what to do about it, in
/// words for an error: a pointer of Git LFS, the page that a server sends in place of a file, what other
/// programs write. Empty: they tell nothing. Never the bytes themselves: a name may be a link to what the caller may
/// read and who reads the error may not.
[[nodiscard]] std::string told_by_first_bytes(std::span<const std::byte> first_bytes);

}  // namespace cairn::formats
