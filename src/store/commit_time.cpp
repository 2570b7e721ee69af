// SPDX-License-Identifier: Apache-2.0
#include "store/commit_time.hpp"

#include <cstddef>

#include "base/internal/assert.hpp"

namespace cairn::store {
namespace {

constexpr std::string_view kPattern = "dddd-dd-ddTdd:dd:ddZ";  // 'd' stands for a digit.

bool matches(std::string_view text) noexcept {
  if (text.size() != kPattern.size()) {
    return false;
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (kPattern[i] == 'd' ? !is_digit : text[i] != kPattern[i]) {
      return false;
    }
  }
  return true;
}

/// Returns the number that `digits` say; all of them are digits.
unsigned number(std::string_view digits) noexcept {
  unsigned value = 0;
  for (const char digit : digits) {
    CAIRN_ASSERT(digit >= '0' && digit <= '9', "only what matched the pattern is read as a number");
    value = value * 10 + static_cast<unsigned>(digit - '0');
  }
  return value;
}

}  // namespace

std::optional<CommitTime> parse_commit_time(std::string_view text, std::uint32_t nanoseconds) {
  if (!matches(text)) {
    return std::nullopt;
  }
  const auto part = [text](std::size_t at, std::size_t size) { return number(text.substr(at, size)); };
  const std::chrono::year_month_day day(std::chrono::year(static_cast<int>(part(0, 4))),
                                        std::chrono::month(part(5, 2)), std::chrono::day(part(8, 2)));
  const unsigned hour = part(11, 2);
  const unsigned minute = part(14, 2);
  const unsigned second = part(17, 2);
  // Nanoseconds count from 1677 to 2262. A leap second is the first of the next minute.
  const bool is_countable = day.year() >= std::chrono::year(1678) && day.year() <= std::chrono::year(2261);
  if (!day.ok() || !is_countable || hour > 23 || minute > 59 || second > 60) {
    return std::nullopt;
  }
  return std::chrono::sys_days(day) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second) + std::chrono::nanoseconds(nanoseconds);
}

}  // namespace cairn::store
