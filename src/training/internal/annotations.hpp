// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/training/step_directory.hpp"

namespace cairn {
class JsonWriter;
}

namespace cairn::training {

/// Most metrics of a step: each of thousands of checkpoints is read when a policy asks for one.
inline constexpr std::size_t kMostMetrics = 1000;

/// How a metric that is not a finite number is written: "nan", "inf", "-inf". JSON has no number for it.
[[nodiscard]] std::string_view not_finite_text(double value);

/// Writes the members `metrics` and `not_finite` of an object, where there are any.
void write_metrics(JsonWriter& json, const Metrics& metrics);

/// Puts what is kept of a step into the annotations of its checkpoint, beside those of other programs. `line`: that of
/// an image in memory, in the root that it belongs to.
///
/// Errors: Errc::invalid_argument: a metric that has no name, or one that is not UTF-8 or longer than 200 bytes; too
///         many; `others` is not the text of an object, or has a member of ours.
/// Source: docs/format.md, "Steps of a training".
[[nodiscard]] std::string annotate(std::string_view others, std::uint64_t step, const Metrics& metrics,
                                   std::optional<std::uint64_t> line = std::nullopt);

/// Holds what annotations hold of a step.
struct StepNotes {
  std::optional<std::uint64_t> step;  ///< Nothing: they were not made by a Checkpointer.
  std::uint64_t line = 0;             ///< Of steps; of an image in memory, and of what was made of one.
  Metrics metrics;
};

/// Reads them; `path` names them in errors.
///
/// Errors: Errc::malformed_metadata.
[[nodiscard]] StepNotes notes_of(std::string_view annotations, std::string_view path);

}  // namespace cairn::training
