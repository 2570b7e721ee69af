// SPDX-License-Identifier: Apache-2.0
#include "core/failures.hpp"

#include <system_error>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <optional>

#include <boost/asio/cancellation_type.hpp>
#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "async/internal/suspend.hpp"
#include "base/internal/assert.hpp"
#include "coord/internal/of_peer.hpp"

namespace cairn::core {
namespace {

constexpr std::size_t kMostFailures = 5;  // In one text.
constexpr std::size_t kMostNames = 20;

/// The bytes that are shown of each failure after the first: a handler may say as much as it likes.
constexpr std::size_t kMostBytes = 1000;

/// The beginning of a text, not cut within a character of UTF-8.
std::string beginning(const std::string& text) {
  if (text.size() <= kMostBytes) {
    return text;
  }
  std::size_t end = kMostBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  return text.substr(0, end) + "...";
}

/// Returns whether it is a verdict that only an operation gives, of its own end; a cancellation is not among
/// them.
bool is_verdict_of_another(const std::exception_ptr& failure) {
  const auto code = code_of(failure);
  return code == Errc::commit_unknown || code == Errc::timed_out || code == Errc::superseded;
}

[[noreturn]] void throw_failed_handler(const std::exception_ptr& failure, std::string_view who) {
  try {
    std::rethrow_exception(failure);
  } catch (...) {
    std::throw_with_nested(
        Error(Errc::handler_failed, fmt::format("{}: {}", who, describe(std::current_exception()))));
  }
}

}  // namespace

Asked asked_of(const boost::asio::cancellation_state& state, bool is_stopped) {
  if (is_stopped) {
    return Asked::to_stop;
  }
  return state.cancelled() == boost::asio::cancellation_type::none ? Asked::nothing : Asked::to_end;
}

void rethrow_of(const std::exception_ptr& failure, std::string_view who, Asked asked) {
  CAIRN_ASSERT(failure != nullptr, "what is thrown again has failed");
  const bool is_cancellation = async::is_cancelled(failure);
  const bool is_verdict = is_cancellation || is_verdict_of_another(failure);
  if (is_verdict && asked == Asked::to_stop) {
    std::rethrow_exception(async::cancelled());  // Why it was stopped, the operation says itself.
  }
  if (is_cancellation && asked == Asked::to_end) {
    std::rethrow_exception(failure);
  }
  if (is_verdict) {
    throw_failed_handler(failure, who);
  }
  const std::optional<std::error_code> code = code_of(failure);
  const bool is_of_another_rank = code && coord::is_of_peer(*code);  // Which has said whose it is.
  std::rethrow_exception(is_of_another_rank ? failure : with_context(failure, who));
}

std::exception_ptr with_problem(const std::exception_ptr& failure, const std::string& problem) {
  CAIRN_ASSERT(failure != nullptr, "a problem is added to a failure");
  if (problem.empty() || async::is_cancelled(failure)) {
    return failure;
  }
  return combine({failure, std::make_exception_ptr(Error(Errc::io_failure, problem))});
}

std::exception_ptr combine(const std::vector<std::exception_ptr>& failures) {
  std::exception_ptr first;
  std::string others;
  std::size_t count = 0;
  std::vector<std::exception_ptr> told;
  for (const std::exception_ptr& failure : failures) {
    // Each item that hears of a failure of all ranks ends with that: it is one failure.
    if (async::is_cancelled(failure) || std::find(told.begin(), told.end(), failure) != told.end()) {
      continue;
    }
    if (told.size() < kMostFailures) {
      told.push_back(failure);
    }
    ++count;
    if (count == 1) {
      first = failure;
    } else if (count <= kMostFailures) {
      others += fmt::format("; and {}", beginning(describe(failure)));
    }
  }
  if (!first) {
    return failures.empty() ? nullptr : failures.front();
  }
  if (others.empty()) {
    return first;
  }
  if (count > kMostFailures) {
    others += fmt::format("; and {} more", count - kMostFailures);
  }
  try {
    std::rethrow_exception(first);
  } catch (const Error& error) {
    return std::make_exception_ptr(Error(error.code(), error.detail() + others));
  } catch (...) {
    return first;
  }
}

std::string listed(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names.first(std::min(names.size(), kMostNames))) {
    text += (text.empty() ? "" : ", ") + beginning(name);
  }
  return names.size() > kMostNames ? fmt::format("{} and {} more", text, names.size() - kMostNames) : text;
}

}  // namespace cairn::core
