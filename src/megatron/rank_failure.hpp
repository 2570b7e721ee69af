// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/packed.hpp"

namespace cairn::megatron::detail {

/// What is wrong with the dict of a rank. A rank that has found something says so where all of them speak next: so all
/// have the same error, that of the lowest rank, however many have found something at once.
struct RankFailure {
  std::uint32_t rank = 0;
  std::error_code code;  ///< An Errc.
  std::string text;
};

inline void put_failure(std::string& text, const std::optional<RankFailure>& failure) {
  put(text, static_cast<std::uint8_t>(failure.has_value()));
  if (failure) {
    put(text, failure->rank);
    put(text, static_cast<std::int32_t>(failure->code.value()));
    put_text(text, failure->text);
  }
}

/// Takes what put_failure has appended, and keeps that of the lower rank.
///
/// Errors: as take_bytes.
inline void take_failure(std::string_view& text, std::optional<RankFailure>& lowest) {
  if (take<std::uint8_t>(text) == 0) {
    return;
  }
  RankFailure failure;
  failure.rank = take<std::uint32_t>(text);
  failure.code = {take<std::int32_t>(text), cairn_category()};
  failure.text = take_text(text);
  if (!lowest || failure.rank < lowest->rank) {
    lowest = std::move(failure);
  }
}

/// The error of all ranks. `name` is that of the checkpointable.
inline Error error_of(const RankFailure& failure, std::string_view name) {
  return {failure.code, fmt::format("'{}': rank {}: {}", name, failure.rank, failure.text)};
}

}  // namespace cairn::megatron::detail
