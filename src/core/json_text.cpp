// SPDX-License-Identifier: Apache-2.0
#include "core/json_text.hpp"

#include <nlohmann/json.hpp>

namespace cairn::core {

// One string only: the destructor of a nlohmann::json that holds others takes memory, and ends the program
// when there is none.
std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace cairn::core
