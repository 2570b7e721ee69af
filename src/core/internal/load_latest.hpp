// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"
#include "cairn/core/find.hpp"
#include "cairn/core/registry.hpp"

namespace cairn::core {

/// Whether nothing has the name `root`, and a directory may be made of it.
[[nodiscard]] bool is_yet_to_be_made(const std::filesystem::path& root);

/// What `look` returns that looks into `root`; nothing where that is yet to be made. Looks again where it was made meanwhile.
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

/// What is said of a directory that is missing, where the one above it is there.
enum class Missing : std::uint8_t {
  is_refused,  ///< Errc::not_found.
  is_empty,
};

/// What lists the checkpoints of `root`, as list_checkpoints does, but has no deadline. It blocks, and owns all that it uses.
///
/// Errors: Errc::closed in a process that was forked from the context's; Errc::invalid_argument for `root` as absolute_path.
[[nodiscard]] std::function<std::vector<FoundCheckpoint>()> listing(const std::filesystem::path& root,
                                                                    const ListOptions& options,
                                                                    const Context& context, Missing missing);

/// As cairn::load_latest, with the handlers of `registry`.
[[nodiscard]] std::optional<LoadedLatest> load_latest(const std::filesystem::path& root,
                                                      const Requests& requests,
                                                      const RegistrySnapshot& registry,
                                                      const LoadLatestOptions& options,
                                                      const Context& context);

/// As cairn::load_latest_async, likewise.
[[nodiscard]] Awaitable<std::optional<LoadedLatest>> load_latest_async(const std::filesystem::path& root,
                                                                       const Requests& requests,
                                                                       const RegistrySnapshot& registry,
                                                                       const LoadLatestOptions& options,
                                                                       const Context& context);

}  // namespace cairn::core
