// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace cairn::detail {

/// The text of a document, with a line end.
///
/// Errors: Errc::invalid_argument, naming the checkpointable and the place in it, for what JSON cannot say; see
///         JsonHandler::save.
[[nodiscard]] std::string write_json(const nlohmann::json& value, std::string_view name);

}  // namespace cairn::detail
