// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "cairn/base/some_ranks.hpp"
#include "cairn/megatron/strict.hpp"

namespace cairn::megatron::detail {

/// A mode does this about keys that only one side has.
enum class OnMismatch : std::uint8_t {
  ignore,
  report,  ///< They are a problem of the result.
  raise,
  give_back,
};

struct StrictRules {
  OnMismatch unexpected = OnMismatch::raise;
  OnMismatch missing = OnMismatch::ignore;
  /// Ranks that load together ask each other; else each rank sees to what it asks for itself.
  bool is_joint = true;

  /// Returns whether what the other ranks ask for matters.
  [[nodiscard]] bool looks_at_missing() const noexcept { return missing != OnMismatch::ignore; }
};

[[nodiscard]] StrictRules rules_of(Strict strict) noexcept;

/// Keys that only one side has, as all ranks that load together know them.
struct FoundMismatch {
  std::map<std::string, SomeRanks> unexpected;  ///< And who asks for them; no ranks where one loads alone.
  std::set<std::string> missing;
};

struct StrictVerdict {
  std::string error;    ///< What the load fails with, on all ranks; empty: it goes on.
  std::string problem;  ///< For the result; empty: none.
  Mismatch given_back;
};

/// What becomes of a load in this mode. `own_unexpected` are keys of this rank; `checkpoint` names it in texts.
[[nodiscard]] StrictVerdict judge(Strict strict, const FoundMismatch& found,
                                  const std::set<std::string>& own_unexpected, std::string_view checkpoint);

}  // namespace cairn::megatron::detail
