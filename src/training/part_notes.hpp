// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/internal/uuid.hpp"
#include "training/json_members.hpp"

namespace cairn::training {

/// Holds what the annotations of a part say of it, or those of a checkpoint of the parts that it was made of.
struct PartNotes {
  std::string run;
  std::optional<std::uint64_t> part;  ///< Of a part: its number.
  std::string first;                  ///< Of a checkpoint: the uuid of part 0, as text.
};

/// Enters them beside those of other programs.
///
/// Errors: Errc::invalid_argument when there is such a member already.
/// Source: docs/format.md, "Parts".
void enter(JsonMembers& annotations, const PartNotes& notes);

/// Takes them out; nothing where there are none.
///
/// Errors: Errc::malformed_metadata; `path` is used for errors only.
[[nodiscard]] std::optional<PartNotes> take_notes(JsonMembers& annotations, std::string_view path);

}  // namespace cairn::training
