// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

namespace cairn {

/// A value of JSON that holds no others. Integers are exact: what is not negative and below 2^64 is unsigned, what is
/// negative and not below -2^63 is signed ("-0" too); all other numbers are the nearest double.
using JsonScalar = std::variant<std::nullptr_t, bool, std::uint64_t, std::int64_t, double, std::string_view>;

/// Is told what a document holds, in the order in which it is written; what it is told is valid JSON.
///
/// Ownership: views are valid during the call.
class JsonEvents {
 public:
  JsonEvents() = default;
  virtual ~JsonEvents() = default;

  /// `bracket` is '{' or '['.
  virtual void on_begin(char bracket) = 0;
  /// Of what was begun last.
  virtual void on_end() = 0;
  /// The member's value comes next.
  virtual void on_key(std::string_view key) = 0;
  virtual void on_scalar(const JsonScalar& value) = 0;

 protected:
  JsonEvents(const JsonEvents&) = default;
  JsonEvents& operator=(const JsonEvents&) = default;
};

}  // namespace cairn
