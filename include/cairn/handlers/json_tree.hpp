// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "cairn/handlers/tree.hpp"
#include "cairn/handlers/tree_form.hpp"

namespace cairn {

/// A JSON value as a tree: objects are maps, arrays lists, binary values bytes.
///
/// Errors: Errc::invalid_argument, naming the path, for values deeper than kMaxJsonDepth, discarded values, and
///         binary values with a subtype.
[[nodiscard]] Tree json_to_tree(const nlohmann::json& value);

/// The reverse. What a JSON object says in bytes is a binary value, which no JSON text has.
///
/// Errors: Errc::type_mismatch, naming the path below `path`, for arrays; Errc::invalid_argument when the tree is
///         deeper than kMaxJsonDepth.
[[nodiscard]] nlohmann::json tree_to_json(const Tree& tree, std::string_view path = {});

/// JSON values are values of trees.
///
/// Example: Tree state = {{"weights", weights}, {"config", json}};  auto config = state.get<nlohmann::json>("config");
template <>
struct TreeForm<nlohmann::json> {
  static Tree make(const nlohmann::json& value) { return json_to_tree(value); }
  static void read(const Tree& tree, nlohmann::json& value, TreeReader& at);
};

}  // namespace cairn
