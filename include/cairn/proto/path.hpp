// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::proto {

/// One element of a path: a field by its name or number, an index, or a key of a map. The type of the message that the
/// path is walked in decides which of them it is.
///
/// Invariant: a number that is not negative is held as an unsigned one, so that equal elements compare equal.
class PathElement {
 public:
  using Value = std::variant<std::string, std::int64_t, std::uint64_t, bool>;

  // They convert, so that {"node", 5} is a path.
  PathElement(const char* name) : value_(std::string(name)) {}       // NOLINT
  PathElement(std::string name) : value_(std::move(name)) {}         // NOLINT
  PathElement(std::string_view name) : value_(std::string(name)) {}  // NOLINT

  template <std::same_as<bool> B>
  PathElement(B key) : value_(key) {}  // NOLINT

  template <std::signed_integral I>
  PathElement(I number)  // NOLINT
      : value_(number < 0 ? Value(static_cast<std::int64_t>(number))
                          : Value(static_cast<std::uint64_t>(number))) {}

  template <std::unsigned_integral U>
  requires(!std::same_as<U, bool>) PathElement(U number)
      : value_(static_cast<std::uint64_t>(number)) {}  // NOLINT

  [[nodiscard]] const Value& value() const noexcept { return value_; }

  friend bool operator==(const PathElement&, const PathElement&) = default;

 private:
  Value value_;
};

/// Leads from a message to a part of it: {"node", 5, "attr", "value", "tensor"}. Extensions go by their full name.
using Path = std::vector<PathElement>;

/// Reads a path from text: `node[5].attr["value"].tensor`; an extension is `[package.name]`, and a number stands for
/// the field of that number. Names and keys may as well be written the other way, `node.5` or `["node"]`.
///
/// Errors: Errc::invalid_argument, with the place in the text.
[[nodiscard]] Path parse_path(std::string_view text);

/// Returns the text that `parse_path` reads as `path`.
[[nodiscard]] std::string to_text(const Path& path);

}  // namespace cairn::proto
