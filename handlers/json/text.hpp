// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace cairn::detail {

/// The text of a document, with a line end.
///
/// Errors: Errc::invalid_argument, naming the checkpointable, for what JSON cannot say; see
///         JsonHandler::save.
[[nodiscard]] std::string write_json(const nlohmann::json& value, std::string_view name);

/// The document of a text that may be anything.
///
/// Errors: Errc::malformed_metadata, naming `path` and the byte.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, std::string_view path);

}  // namespace cairn::detail
