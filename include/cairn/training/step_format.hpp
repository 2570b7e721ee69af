// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

/// How the checkpoint of a step is called: "100", "step_00000100".
///
/// Invariant: a name has one step at most, and a step has one name.
class StepFormat {
 public:
  /// Digits alone, no more than the number needs.
  StepFormat() = default;
  /// `prefix` and then the number, in `width` digits with zeros before it; 0: as many as it needs.
  ///
  /// Errors: Errc::invalid_argument: the prefix holds '/' or a NUL, starts with '.', ends with ".g" (which would make
  ///         it the name of a second generation), or makes names of more than 200 bytes; more than 20 digits.
  explicit StepFormat(std::string prefix, std::size_t width = 0);

  /// Errors: Errc::invalid_argument when the step has more digits than the width.
  [[nodiscard]] std::string name(std::uint64_t step) const;
  /// The step whose name this is; nothing for any other text.
  [[nodiscard]] std::optional<std::uint64_t> parse(std::string_view name) const noexcept;

  friend bool operator==(const StepFormat&, const StepFormat&) = default;

 private:
  std::string prefix_;
  std::size_t width_ = 0;
};

}  // namespace cairn
