// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace cairn::megatron {

/// What a load does about keys that only one side has: unexpected ones, which are asked for but not stored, and missing
/// ones, which are stored but asked for by no rank.
enum class Strict : std::uint8_t {
  assume_ok_unexpected,  ///< An unexpected key fails the rank that asks for it; missing ones do not count.
  log_unexpected,        ///< Unexpected keys are problems of the result, and left out of it.
  log_all,               ///< So are missing ones.
  raise_unexpected,      ///< Unexpected keys of any rank are an error on all.
  raise_all,             ///< So are missing ones.
  return_unexpected,     ///< Unexpected keys are returned, and left out of the state.
  return_all,            ///< So are missing ones.
  ignore_all,            ///< Unexpected keys are left out.
};

/// "assume_ok_unexpected", as Megatron writes it; empty for a value that is not one.
[[nodiscard]] std::string_view name(Strict strict) noexcept;

/// Errors: Errc::invalid_argument, listing what there is.
[[nodiscard]] Strict parse_strict(std::string_view name);

/// Keys that only one side has; a load fills them in the modes that return them.
struct Mismatch {
  std::set<std::string> missing;     ///< Of all ranks.
  std::set<std::string> unexpected;  ///< Of this rank.
};

}  // namespace cairn::megatron
