// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "cairn/megatron/strategies.hpp"

namespace cairn::megatron::detail {

// A save of Megatron-Core's writes common.pt in its older form, then .distcp files, .metadata and, last, metadata.json.

inline constexpr std::string_view kForeignCommonFile = "common.pt";
inline constexpr std::string_view kForeignConfigFile = "metadata.json";

/// A metadata.json of more bytes than this is not one of Megatron-Core's.
inline constexpr std::uint64_t kMostConfigBytes = 1 << 20;

/// A folder says this of itself in metadata.json.
struct ForeignConfig {
  Backend backend;
  bool has_common_file = false;  ///< It names a form of common state, which then lies in common.pt.
};

/// The form that a JSON object names; nothing where it names none.
[[nodiscard]] std::optional<Backend> backend_in(const nlohmann::json& object, const char* name_key,
                                                const char* version_key);

/// Reads the text of a metadata.json; nothing for an object that names no backend: it is another program's.
///
/// Errors: Errc::malformed_metadata, naming `path`, for what is not a JSON object.
[[nodiscard]] std::optional<ForeignConfig> parse_config(std::string_view text, std::string_view path);

/// Says what is missing of a folder of Megatron-Core's, or which checkpoints lie in a folder; empty where its files do
/// not tell. Looks at names only.
[[nodiscard]] std::string why_not_a_checkpoint(const std::filesystem::path& path);

}  // namespace cairn::megatron::detail
