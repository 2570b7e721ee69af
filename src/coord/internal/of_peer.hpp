// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include <exception>

#include "cairn/base/error.hpp"

namespace cairn::coord {

/// Returns whether an error of this code is of another rank, which it names.
[[nodiscard]] inline bool is_of_peer(const std::error_code& code) noexcept {
  return code == Errc::peer_failed || code == Errc::peer_lost;
}

/// A failure that may follow from an earlier one of another rank. Others are told so along with it: they ask what came
/// first.
class FollowingError final : public Error {
 public:
  using Error::Error;
};

/// The same failure as one that may follow from another.
[[nodiscard]] inline std::exception_ptr as_following(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return std::make_exception_ptr(FollowingError(error.code(), error.detail()));
  } catch (...) {  // Not of Cairn: it is told as it is.
  }
  return failure;
}

/// Returns whether the rank that failed so has said that it may follow from another failure.
[[nodiscard]] inline bool is_following(const std::exception_ptr& failure) noexcept {
  try {
    std::rethrow_exception(failure);
  } catch (const FollowingError&) {
    return true;
  } catch (...) {  // Any other.
  }
  return false;
}

}  // namespace cairn::coord
