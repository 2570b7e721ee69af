// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "cairn/api/find.hpp"
#include "cairn/base/error.hpp"

#include "core/internal/disk_calls.hpp"

namespace cairn::api {

/// Returns whether nothing has the name `root`, and a directory may be made of it.
[[nodiscard]] bool is_yet_to_be_made(const std::filesystem::path& root);

/// What `look` returns that looks into `root`; nothing where that is yet to be made. Looks again where it was made
/// meanwhile.
template <class Look>
[[nodiscard]] auto look_if_made(const std::filesystem::path& root, const Look& look)
    -> std::optional<decltype(look())> {
  for (bool is_first = true;; is_first = false) {
    try {
      return look();
    } catch (const Error& error) {
      if (error.code() != Errc::not_found) {
        throw;
      }
      if (is_yet_to_be_made(root)) {
        return std::nullopt;
      }
      if (!is_first) {
        throw;
      }
    }
  }
}

/// Says what to answer for a directory that is missing, where the one above it is there.
enum class Missing : std::uint8_t {
  is_refused,  ///< Errc::not_found.
  is_empty,
};

/// Returns a function that lists the checkpoints of `root`, as list_checkpoints does, but without a deadline.
/// It blocks, and owns all that it uses.
///
/// Errors: Errc::invalid_argument for `root` as absolute_path.
[[nodiscard]] std::function<std::vector<FoundCheckpoint>()> listing(core::DiskCalls calls,
                                                                    const std::filesystem::path& root,
                                                                    const ListOptions& options,
                                                                    Missing missing);

}  // namespace cairn::api
