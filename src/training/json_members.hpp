// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "cairn/base/error.hpp"

namespace cairn::training {

/// The members of a JSON object, each value as text.
using JsonMembers = std::map<std::string, std::string, std::less<>>;

/// Returns the members of the object `text`; `null` has none. Errors call it `name`.
///
/// Errors: `code` when it is another value, no JSON, or has a key twice.
[[nodiscard]] JsonMembers members_of(std::string_view text, std::string_view name, Errc code);

/// The text of an object with these members.
[[nodiscard]] std::string object_of(const JsonMembers& members);

}  // namespace cairn::training
